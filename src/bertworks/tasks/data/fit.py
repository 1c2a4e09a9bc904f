"""How rows fit a model's tokenizer and length: what would be cut, what it does not know, what cannot be aligned."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from bertworks.tasks.data.problems import Noted
from bertworks.tasks.data.shapes import Asked, Choice, Linked, Row, Tagged, Text
from bertworks.text.tokenizer import Tokenizer

AT_ONCE = 512
WORDS_KEPT = 1 << 18  # distinct words whose pieces are remembered


class Fit:
    """Rows are put to the tokenizer some hundreds at a time; `end` sees to the last."""

    def __init__(self, tokenizer: Tokenizer, length: int) -> None:
        self.tokenizer, self.length = tokenizer, length
        self.noted = Noted()
        self.sizes = array("I")  # tokens of each row, specials included
        self.tokens = self.unknown = 0
        self.lost: dict[str, int] = {}  # a few words that become nothing or are unknown altogether
        self._ends = len(tokenizer.encode("").ids), len(tokenizer.encode("", "").ids)
        self._words: dict[str, tuple[int, int]] = {}
        self._held: list[Row] = []

    def take(self, row: Row) -> None:
        self._held.append(row)
        if len(self._held) >= AT_ONCE:
            self.end()

    def end(self) -> None:
        if self._held:
            rows, self._held = self._held, []
            worded = [row for row in rows if isinstance(row, Tagged) and row.tokens is not None]
            if worded:
                self._by_words(worded)
            others = [row for row in rows if not isinstance(row, Tagged) or row.tokens is None]
            self._by_texts(others)
            self._aligned(others)

    def _by_texts(self, rows: Sequence[Row]) -> None:
        groups = [_inputs(row) for row in rows]
        flat = [text for inputs in groups for pair in inputs for text in pair]
        distinct = list(dict.fromkeys(flat))  # many questions are about one text
        ids = dict(zip(distinct, self.tokenizer.ids_of(distinct), strict=True))
        for row, inputs in zip(rows, groups, strict=True):
            longest = known = total = 0
            for pair in inputs:
                pieces = [ids[text] for text in pair]
                unknown = sum(some.count(self.tokenizer.unk_id) for some in pieces if self.tokenizer.unk_id is not None)
                size = sum(map(len, pieces))
                longest = max(longest, size + self._ends[len(pair) - 1])
                known, total = known + size - unknown, total + size
            self._sized(row, longest, total, total - known)
            if any(text.strip() for pair in inputs for text in pair) and not known:
                self.noted.add("row-unknown" if total else "row-nothing", row.line)

    def _by_words(self, rows: Sequence[Tagged]) -> None:
        fresh = list({word for row in rows for word in row.tokens or () if word not in self._words})
        if len(self._words) > WORDS_KEPT:
            self._words, fresh = {}, list({word for row in rows for word in row.tokens or ()})
        for word, ids in zip(fresh, self.tokenizer.ids_of(fresh), strict=True):
            unk = self.tokenizer.unk_id
            self._words[word] = len(ids), ids.count(unk) if unk is not None else 0
        for row in rows:
            parts = [(word, *self._words[word]) for word in row.tokens or ()]
            size, unknown = sum(part[1] for part in parts), sum(part[2] for part in parts)
            self._sized(row, size + self._ends[0], size, unknown)
            for word, pieces, strange in parts:
                if pieces == strange:
                    self.noted.add("word-unknown" if pieces else "word-nothing", row.line)
                    if len(self.lost) < 8 or word in self.lost:
                        self.lost[word] = self.lost.get(word, 0) + 1

    def _sized(self, row: Row, size: int, tokens: int, unknown: int) -> None:
        self.sizes.append(size)
        self.tokens += tokens
        self.unknown += unknown
        if size > self.length:
            self.noted.add("cut", row.line)

    def _aligned(self, rows: Sequence[Row]) -> None:
        """Whether entities and answers begin and end where tokens do."""
        spans: list[tuple[Row, str, list[tuple[int, int]]]] = []
        for row in rows:
            if isinstance(row, Tagged) and row.entities:
                spans.append((row, row.text or "", [(one.start, one.end) for one in row.entities]))
            elif isinstance(row, Asked) and row.answers:
                wanted = [(one.start, one.start + len(one.text)) for one in row.answers]
                spans.append((row, row.context, wanted))
        texts = list(dict.fromkeys(text for _, text, _ in spans))
        edges = {}
        for text, encoded in zip(texts, self.tokenizer.encode_batch(texts, specials=False), strict=True):
            edges[text] = ({one[0] for one in encoded.offsets}, {one[1] for one in encoded.offsets})
        for row, text, wanted in spans:
            starts, ends = edges[text]
            if any(_trimmed(text, one)[0] not in starts or _trimmed(text, one)[1] not in ends for one in wanted):
                self.noted.add("unaligned", row.line)


def _trimmed(text: str, span: tuple[int, int]) -> tuple[int, int]:
    """Without the blanks at its ends, which no token has."""
    part = text[span[0] : span[1]]
    return span[0] + len(part) - len(part.lstrip()), span[1] - len(part) + len(part.rstrip())


def _inputs(row: Row) -> list[tuple[str, ...]]:
    """The texts, and pairs of them, that one row is to a model."""
    if isinstance(row, Text):
        return [(row.text,) if row.text_b is None else (row.text, row.text_b)]
    if isinstance(row, Tagged):
        return [(row.text or "",)]
    if isinstance(row, Asked):
        return [(row.question, row.context)]
    if isinstance(row, Choice):
        first = row.context or row.question
        second = f"{row.question} " if row.context and row.question else ""
        return [(first, second + choice) for choice in row.choices]
    if isinstance(row, Linked):
        return [(text,) for text in (row.anchor, row.positive, *row.negatives)]
    return []
