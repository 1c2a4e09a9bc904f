"""CoNLL files: a word a line with its columns, a blank line between sentences."""

from __future__ import annotations

from collections.abc import Iterator

from bertworks.tasks.data.problems import RowError
from bertworks.text.files import Tally, blocks
from bertworks.text.lines import whole_lines
from bertworks.text.records import Bad, Record, place_name

KINDS = (".conll", ".bio", ".iob", ".iob2", ".bioes", ".bmes", ".conllu", ".ner")
LONGEST_LINE = 1 << 20


def sentences(
    source: str, tally: Tally, token: int, tag: int | None, bad: Bad | None = None, *, universal: bool = False
) -> Iterator[Record]:
    """The line each sentence begins on, its tokens and its tags (none where `tag` is None).

    Columns are parted by tabs where a line has one, by spaces otherwise; -1 is the last. `-DOCSTART-` is skipped, and
    in CoNLL-U (`universal`) comments and the numbers of what is no word (1-2, 8.1) are too. A sentence with a line
    that cannot be read is an error, or left out once `bad` was told.
    """
    where = place_name(source)
    held: list[list[str]] = []
    start, width, whole = 0, 0, True
    number = 0
    for number, line in enumerate(whole_lines(blocks(source), tally, LONGEST_LINE, where), 1):
        if not line.strip(" \t"):
            if held and whole:
                yield _record(start, held, token, tag)
            held, whole = [], True
            continue
        if universal and line.startswith("#"):
            continue
        cells = line.split("\t") if "\t" in line else [cell for cell in line.split(" ") if cell]
        if cells[0] == "-DOCSTART-" or (universal and not cells[0].isdigit()):
            continue
        start = start if held else number
        held.append(cells)
        width = width or len(cells)
        error = _wrong(cells, width, token, tag, where, number)
        if error is not None and whole:
            if bad is None:
                raise error
            bad(error, number)
            whole = False
    if held and whole:
        yield _record(start, held, token, tag)


def _record(start: int, held: list[list[str]], token: int, tag: int | None) -> Record:
    record = {"tokens": [cells[token] for cells in held]}
    if tag is not None:
        record["tags"] = [cells[tag] for cells in held]
    return start, record


def _wrong(cells: list[str], width: int, token: int, tag: int | None, where: str, number: int) -> RowError | None:
    place = f"{where}:{number}"
    if tag is not None and width < 2:
        return RowError("unequal", place, number, "a word and no tag", "write them with a tab or a space between")
    if len(cells) != width:
        columns = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
        said = f"{columns} where the lines above have {width}"
        return RowError("unequal", place, number, said, "every word wants its tag; is there a space inside a word?")
    if max(token, tag or 0) >= width or min(token, tag or 0) < -width:
        return RowError("unequal", place, number, f"no column {max(token, tag or 0)}: there are {width}", "from 0 on")
    return None
