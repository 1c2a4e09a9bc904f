"""bertworks tokenizer train FILE... | encode MODEL [TEXT|-]"""

from __future__ import annotations

import codecs
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from .reporting import Counter, Report, counted, verb

if TYPE_CHECKING:
    from io import BufferedReader

    from bertworks.text.documents import Document

KINDS = ("wordpiece", "byte-bpe", "unigram")
EXPECTED = ("files_read", "documents_read")
BLOCK = 1 << 16  # bytes of standard input taken at a time, at most: enough texts for all cores


class _WithShared(click.Group):
    """Shows in its own help the options that each of its verbs takes."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        formatter.write_paragraph()
        formatter.write_text(
            "Both take --json, --quiet, --seed and --debug; `bertworks tokenizer VERB --help` says more."
        )


@click.group(cls=_WithShared)
def command() -> None:
    """Train a tokenizer, or show what one makes of a text.

    \b
    bertworks tokenizer train corpus.txt --out tok --kind wordpiece --vocab-size 8000
    bertworks tokenizer encode tok "Hello, 世界"
    """


@command.command(short_help="Learn a vocabulary from files and write a tokenizer folder.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="The folder to write.")
@click.option(
    "--kind",
    required=True,
    type=click.Choice(KINDS),
    help="wordpiece as BERT's, byte-bpe as RoBERTa's, unigram as ALBERT's.",
)
@click.option("--vocab-size", required=True, type=click.IntRange(min=1), help="Tokens at most, special ones included.")
@click.option("--cased", is_flag=True, help="Keep case and accents (byte-bpe always does).")
@click.option("--column", default="text", show_default=True, help="The column of JSONL, CSV, TSV and Parquet files.")
@click.option(
    "--documents",
    "how",
    type=click.Choice(["auto", "line", "blank", "file"]),
    default="auto",
    show_default=True,
    help="What a document of a text file is: a line, a stretch between blank lines, or the file.",
)
@verb
def train(
    report: Report, files: tuple[str, ...], out: Path, kind: str, vocab_size: int, cased: bool, column: str, how: str
) -> None:
    """Learn a vocabulary from FILEs and write a tokenizer folder that transformers opens as it is.

    FILE is plain text, .jsonl, .csv, .tsv or .parquet, also .gz and .zst, or a folder of these. The same text gives the
    same vocabulary, byte for byte.

    \b
    bertworks tokenizer train corpus.txt --out tok --kind wordpiece --vocab-size 8000
    bertworks tokenizer train zh.jsonl.zst --out tok --kind unigram --vocab-size 16000 --column text
    """
    from bertworks.folders import new_folder
    from bertworks.text import training
    from bertworks.text.documents import Tally, documents

    start = time.monotonic()
    tally, counter = Tally(), _Reading(report)
    with new_folder(out) as folder:  # refuses an --out that is taken before anything is read
        made = training.train(
            counter.texts(documents(files, how, column, tally)),
            kind,
            vocab_size,
            cased=cased,
            progress=counter.stage,
        )
        made.save(folder)
    _tell_tally(report, tally.counts)
    result = {
        "out": str(out),
        "kind": kind,
        "vocab_size": made.vocab_size,
        "cased": not made.lowercase,
        "documents": counter.done,
        "megabytes": round(counter.megabytes, 3),
        "seconds": round(time.monotonic() - start, 3),
    }
    report.result(
        result,
        lambda: (
            f"{out}: {kind}, {counted(made.vocab_size, 'token')} from {counted(counter.done, 'document')} "
            f"in {result['seconds']:.1f} s"
        ),
    )


@command.command(short_help="Show what a tokenizer makes of texts: ids, tokens, offsets, words.")
@click.argument("model")
@click.argument("text", required=False)
@click.option("--pair", metavar="TEXT", help="A second text, encoded with the first as one input.")
@click.option("--max-length", type=click.IntRange(min=1), help="Cut at this many tokens, special ones included.")
@click.option("--no-specials", is_flag=True, help="Without [CLS], [SEP] and their like.")
@click.option("--no-segment", is_flag=True, help="Number Chinese words by the tokenizer's marks, not by a segmenter.")
@verb
def encode(
    report: Report,  # noqa: ARG001
    model: str,
    text: str | None,
    pair: str | None,
    max_length: int | None,
    no_specials: bool,
    no_segment: bool,
) -> None:
    """Show what MODEL's tokenizer makes of TEXT, or of each line of standard input (no TEXT, or -).

    One JSON object a line: ids, tokens, offsets (in characters of the text) and words, the number of the word that
    each token is part of in whole-word masking; null for special tokens. MODEL is a model, run, tokenizer or store
    folder, or a hub id; no weights are needed.

    \b
    bertworks tokenizer encode MODEL "使用语言模型来预测下一个词。"
    bertworks tokenizer encode MODEL - < texts.txt
    """
    from bertworks.errors import InputError
    from bertworks.text.tokenizer import Tokenizer
    from bertworks.text.words import WordFinder, chinese_segmenter

    if pair is not None and (text is None or text == "-"):
        raise InputError("--pair goes with one TEXT", "give TEXT on the command line")
    tokenizer = Tokenizer.load(tokenizer_folder(model))
    finder = None
    for some in _lines() if text is None or text == "-" else [[text]]:
        if finder is None:
            finder = WordFinder(tokenizer, None if no_segment else chinese_segmenter())
        inputs = some if pair is None else [(one, pair) for one in some]
        told = []
        for one, encoded in zip(
            some, tokenizer.encode_batch(inputs, max_length=max_length, specials=not no_specials), strict=True
        ):
            words = finder.numbers(one, encoded) if pair is None else finder.pair_numbers(one, pair, encoded)
            row = {"ids": encoded.ids, "tokens": encoded.tokens, "offsets": encoded.offsets, "words": words}
            told.append(json.dumps(row, ensure_ascii=False))
        click.echo("\n".join(told))  # and flushes


def tokenizer_folder(model: str) -> Path:
    """The folder of MODEL's tokenizer: a store keeps it in `tokenizer/`."""
    from bertworks.weights.hub import locate

    folder = locate(model)
    inner = folder / "tokenizer"
    is_store = inner.is_dir() and not any((folder / name).exists() for name in ("config.json", "tokenizer.json"))
    return inner if is_store else folder


def _lines() -> Iterator[list[str]]:
    """Standard input, a text a line: as soon as some is there, the whole lines of it, so that a pipe is answered.

    Bytes that are not UTF-8 become U+FFFD; a byte order mark before the first line is no part of it.
    """
    stream = cast("BufferedReader", sys.stdin.buffer)
    held, first = bytearray(), True
    while block := stream.read1(BLOCK):
        whole, end, rest = block.rpartition(b"\n")
        if not end:
            held += block  # looked through once, however long the line
            continue
        yield _texts(_unmarked(held + whole) if first else held + whole)
        held, first = bytearray(rest), False
    if held := _unmarked(held) if first else held:
        yield _texts(held)


def _unmarked(lines: bytearray) -> bytearray:
    return lines.removeprefix(codecs.BOM_UTF8)


def _texts(lines: bytearray) -> list[str]:
    return [line.decode("utf-8", errors="replace").rstrip("\r\n") for line in lines.split(b"\n")]


class _Reading(Counter):
    """Counts documents and megabytes as they are read; then says what is done with them."""

    def __init__(self, report: Report) -> None:
        super().__init__(report, "documents")
        self.megabytes = 0.0

    def texts(self, found: Iterable[Document]) -> Iterator[str]:
        for one in found:
            self.megabytes += len(one.text.encode("utf-8", "replace")) / 1e6
            yield one.text
            self.add(1)
        self.end()

    def stage(self, line: str) -> None:
        self.report.remark(line)

    def _line(self) -> str:
        seconds = max(time.monotonic() - self.start, 1e-9)
        rate, read = self.megabytes / seconds, counted(self.done, "document")
        return f"read {read}, {self.megabytes:,.1f} MB in {seconds:.1f} s ({rate:,.1f} MB a second)"


def _tell_tally(report: Report, counts: Mapping[str, int]) -> None:
    """What was not as it should be in the files; how many were read is told elsewhere."""
    told = [f"{what.replace('_', ' ')}: {count:,}" for what, count in counts.items() if count and what not in EXPECTED]
    if told:
        report.remark(f"note: in the files, {', '.join(told)}")
