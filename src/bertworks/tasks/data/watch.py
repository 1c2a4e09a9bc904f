"""What a check keeps of a file while its rows pass: counts, and a number for each row in the place of its text."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from bertworks.tasks.data.problems import Noted, RowError
from bertworks.tasks.data.shapes import Asked, Choice, Linked, Row, Tagged, Text
from bertworks.tasks.data.split import digest, normalised, said
from bertworks.tasks.data.tags import SchemeFinder, broken, entities

ANSWER_BITS = 16
FAMILIES = ("bio", "iob1", "bioes")  # sequences are broken in one of three ways
# UTF-8 read as Latin-1 or as GBK; only where ftfy is not there to look closer.
MOJIBAKE = re.compile(r"[ÃÂ][\x80-\xbf\u2018-\u203a]|â€|锟斤拷|ï¿½")


class Watch:
    """One file's counts. `take` is given every row, `bad` every row that cannot be read."""

    def __init__(self) -> None:
        self.rows = 0
        self.noted = Noted()
        self.problems: dict[str, RowError] = {}  # the first of each kind
        self.labels: Counter[str] = Counter()
        self.first: dict[str, int] = {}  # the line a label is first met on
        self.first_type: dict[str, int] = {}  # and a type of entity
        self.types: Counter[str] = Counter()  # of entities
        self.finder = SchemeFinder()
        self.sizes = array("I")  # characters of each row
        self.seen: dict[int, int] = {}  # what a row asks → its line and what it answers, in one number
        self.contexts: set[int] = set()
        self.scores: list[float] = [float("inf"), float("-inf")]
        self.unanswerable = 0
        self.choices: Counter[int] = Counter()
        self._bad_text = mojibake_test()

    def bad(self, error: RowError) -> None:
        self.problems.setdefault(error.kind, error)
        self.noted.add(error.kind, error.line)

    def take(self, row: Row) -> None:
        self.rows += 1
        texts = list(texts_of(row))
        self.sizes.append(min(sum(map(len, texts)), 0xFFFFFFFF))
        for text in texts:
            if not text.isascii():
                if "\ufffd" in text:
                    self.noted.add("replacement", row.line)
                    break
                if self._bad_text(text):
                    self.noted.add("mojibake", row.line)
                    break
        for label in self._counted(row):
            self.labels[label] += 1
            self.first.setdefault(label, row.line)
        self._met(row)

    def _counted(self, row: Row) -> Iterator[str]:
        """The labels of a row, and on the way whatever else is counted by task."""
        if isinstance(row, Text):
            yield from row.labels or ()
            if row.score is not None:
                self.scores = [min(self.scores[0], row.score), max(self.scores[1], row.score)]
        elif isinstance(row, Tagged):
            yield from row.tags or ()
            self._tagged(row)
        elif isinstance(row, Asked):
            self.contexts.add(number(normalised(row.context)))
            self.unanswerable += row.answers == ()
        elif isinstance(row, Choice):
            self.choices[len(row.choices)] += 1
            if len(set(row.choices)) < len(row.choices):
                self.noted.add("same-choices", row.line)
            if row.label is not None:
                yield str(row.label)

    def _tagged(self, row: Tagged) -> None:
        for one in row.entities if row.entities is not None else entities(row.tags or ()):
            self.types[one.label] += 1
            self.first_type.setdefault(one.label, row.line)
        if row.tags is None or set(row.tags) == {"O"}:
            return
        self.finder.add(row.tags)
        for scheme in FAMILIES:
            if broken(row.tags, scheme) is not None:
                self.noted.add(f"broken-{scheme}", row.line)

    def _met(self, row: Row) -> None:
        key, answer = number(said(row)), number(answered(row)) & ((1 << ANSWER_BITS) - 1)
        before = self.seen.get(key)
        if before is None:
            self.seen[key] = row.line << ANSWER_BITS | answer
        else:
            same = before & ((1 << ANSWER_BITS) - 1) == answer
            self.noted.add("duplicate" if same else "conflict", row.line)

    @property
    def by_type(self) -> bool:
        """Whether sentences are labelled with entities: tags that spell some, or spans of characters."""
        return not self.finder.tags or self.finder.scheme != "plain"

    def broken(self, scheme: str) -> str:
        """The name that sequences broken in this scheme are noted under."""
        return f"broken-{'bioes' if scheme in ('bmes', 'bilou') else scheme}"


def number(text: str) -> int:
    return int.from_bytes(digest(text)[:8], "little")


def texts_of(row: Row) -> Iterator[str]:
    """Every text that a model would be shown."""
    if isinstance(row, Text):
        yield row.text
        if row.text_b is not None:
            yield row.text_b
    elif isinstance(row, Tagged):
        yield row.text if row.text is not None else " ".join(row.tokens or ())
    elif isinstance(row, Asked):
        yield row.question
        yield row.context
    elif isinstance(row, Choice):
        yield from (row.context, row.question, *row.choices)
    elif isinstance(row, Linked):
        yield from (row.anchor, row.positive, *row.negatives)


def answered(row: Row) -> str:
    """What a row teaches, as a text: two rows that ask the same and differ in this contradict each other."""
    answer: Any = None
    if isinstance(row, Text):
        answer = (sorted(row.labels or ()), row.score)
    elif isinstance(row, Tagged):
        answer = (row.tags, row.entities)
    elif isinstance(row, Asked):
        answer = sorted((one.start, one.text) for one in row.answers or ())
    elif isinstance(row, Choice):
        answer = row.label
    elif isinstance(row, Linked):
        answer = row.score
    return repr(answer)


def mojibake_test() -> Callable[[str], bool]:
    try:
        from ftfy.badness import is_bad
    except ImportError:
        return lambda text: MOJIBAKE.search(text) is not None
    return lambda text: "锟斤拷" in text or is_bad(text)
