"""A file of examples as rows of a task: one by one (`rows`), or all at once (`read`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

from bertworks.errors import ConfigError, InputError, tell
from bertworks.tasks.data import conll
from bertworks.tasks.data.build import BUILD, Building, Cells, several_labels
from bertworks.tasks.data.columns import Columns, resolved, task_of
from bertworks.tasks.data.problems import Noted, RowError
from bertworks.tasks.data.shapes import Row
from bertworks.tasks.data.squad import flattened
from bertworks.text.files import STDIN, Tally, kind_of
from bertworks.text.records import Record, one_file, place_name, records

HINT = "is it the right file? the first line of a table is its header"
LOOKED_AT = 100  # rows that are looked at for a column that the first has not
DONE = {  # what was done to rows, told after the last
    "answer-ambiguous": "answers without answer_start stand there more than once: the first place was taken",
    "answer-moved": "answers were not at their answer_start: the nearest place was taken",
    "entity-moved": "entities were not at their start: the nearest place was taken",
    "entity-overlap": "entities overlap: of two the longer was kept",
}
MENDED = {
    "bad_utf8_lines": "lines are not UTF-8: their bad bytes became U+FFFD",
    "nul_characters": "NUL characters were removed",
    "lone_surrogates": "half surrogates became U+FFFD",
}
Say = Callable[[str], None]
Bad = Callable[[RowError], None]


@dataclass(frozen=True)
class Reading:
    """How a file is read. labelled: whether rows must have what is learnt; otherwise it is not even looked at.

    columns: role → the file's column; separator: between several labels in one text; keep: rows carry their record;
    bad: told of each row that cannot be read, which is then left out (otherwise it is an error).
    """

    task: str | None = None
    columns: Mapping[str, str] | None = None
    labelled: bool = True
    separator: str | None = None
    keep: bool = False
    bad: Bad | None = None


class Source:
    """One opened file of examples: its task and columns are known, its rows come by iterating, once."""

    def __init__(self, path: str, how: Reading, say: Say) -> None:
        self.path, self.file, self.how, self.say = path, place_name(path), how, say
        self.tally, self.noted = Tally(), Noted()
        self.several = False
        self.columns: Columns | None = None  # None where the file has no rows
        self._records, head = self._opened()
        if head:
            self.columns = self._resolved(head)
            self.several = how.labelled and any(several_labels(one, self.columns, how.separator) for one in head[:1])
            if self.columns.said:
                say(self.columns.said)
            self._tell_numbers(head[0].get(self.columns.named.get("tags", "")))

    @property
    def task(self) -> str:
        return self.how.task or (self.columns.task if self.columns else "classify")

    def __iter__(self) -> Iterator[Row]:
        if self.columns is None:
            return
        building = Building(
            self.file, self.columns, self.noted, self.how.labelled, self.several, self.how.separator, self.how.keep
        )
        build = BUILD[self.columns.task]
        for line, record in self._records:
            try:
                made = build(Cells(building, record, line))
            except RowError as error:
                if self.how.bad is None:
                    raise
                self.how.bad(error)
            else:
                yield from made
        self._tell_done()

    def _opened(self) -> tuple[Iterator[Record], list[dict[str, Any]]]:
        """All records, and the first of them."""
        bad = None if self.how.bad is None else self._bad_record
        kind = kind_of(self.path)[0]
        if kind in conll.KINDS or (kind == ".txt" and self.how.labelled and self.how.task in (None, "tag")):
            found = self._sentences(kind, bad)
        else:
            found = flattened(records(self.path, self.tally, bad), self.file)
        # Who types to a pipe wants an answer to the first line.
        head = list(islice(found, 1 if self.path == STDIN else LOOKED_AT))
        return chain(head, found), [record for _, record in head]

    def _sentences(self, kind: str, bad: Callable[[InputError, int], None] | None) -> Iterator[Record]:
        universal = kind == ".conllu"
        mapping = self.how.columns or {}
        places = {"tokens": 1 if universal else 0, "tags": 3 if universal else -1}
        for role, value in mapping.items():
            try:
                places[role] = int(value)
            except ValueError:
                raise ConfigError(f"data.{role}={value}: columns of a CoNLL file are numbers", "from 0 on") from None
        tag = places["tags"] if self.how.labelled or "tags" in mapping else None
        return conll.sentences(self.path, self.tally, places["tokens"], tag, bad, universal=universal)

    def _bad_record(self, error: InputError, line: int) -> None:
        if self.how.bad is None:
            raise error
        if isinstance(error, RowError):
            self.how.bad(error)
        else:
            place, _, said = error.message.partition(": ")
            self.how.bad(RowError("unreadable", place, line, said, error.way_out))

    def _resolved(self, head: list[dict[str, Any]]) -> Columns:
        mapping = dict(self.how.columns or {})
        if kind_of(self.path)[0] in (*conll.KINDS, ".txt") and set(head[0]) <= {"tokens", "tags"}:
            mapping = {}  # numbers, which have been followed
        first = list(head[0])
        union = list(dict.fromkeys(name for record in head for name in record))
        task = self.how.task or task_of(union, mapping)
        try:
            return resolved(task, first, mapping, self.file, labelled=self.how.labelled)
        except InputError:
            return resolved(task, union, mapping, self.file, labelled=self.how.labelled)

    def _tell_numbers(self, tags: Any) -> None:
        if isinstance(tags, list) and any(isinstance(one, int) for one in tags):
            self.say(f"{self.file}: its tags are numbers without names: labels are called 0, 1, … as they stand")

    def _tell_done(self) -> None:
        for kind, said in DONE.items():
            if count := self.noted.counts.get(kind):
                self.say(f"{self.file}: {count:,} {said} ({self.noted.where(kind)})")
        for kind, said in MENDED.items():
            if count := self.tally.counts.get(kind):
                self.say(f"{self.file}: {count:,} {said}")


@dataclass(frozen=True)
class Table:
    """All rows of one file. several: rows have any number of labels."""

    file: str
    task: str
    rows: tuple[Row, ...]
    columns: Mapping[str, str]
    several: bool = False

    def __len__(self) -> int:
        return len(self.rows)

    def taking(self, places: list[int]) -> Table:
        """The rows at these places, in this order."""
        return replace(self, rows=tuple(self.rows[at] for at in places))


def rows(path: str, how: Reading = Reading(), say: Say = tell) -> Iterator[Row]:
    """A file's rows one by one: nothing here grows with the file."""
    return iter(Source(one_file(str(path)), how, say))


def read(
    path: str,
    task: str | None = None,
    columns: Mapping[str, str] | None = None,
    *,
    labelled: bool = True,
    separator: str | None = None,
    say: Say = tell,
) -> Table:
    """All rows of a file of examples, for a task; which one, its columns say where it is not given.

    columns: {"text": "their name"}; other usual names are understood, and `say` is told so in a line.
    """
    source = Source(one_file(str(path)), Reading(task, columns, labelled, separator), say)
    found = tuple(source)
    if source.columns is None:
        raise InputError(f"{source.file}: no rows", HINT)
    return Table(source.file, source.task, found, source.columns.named, source.several)
