"""The rows that tasks learn from, one shape for each kind of question; every row knows its file and line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Where a row is from. `record` is the row as the file has it, where the reader was asked to keep it."""

    file: str
    line: int
    record: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)

    @property
    def place(self) -> str:
        """As errors name it: train.jsonl:17."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Row):
    """A text, or a pair: classify, regress, prompt. labels and score are None where they were not asked for."""

    text: str
    text_b: str | None = None
    labels: tuple[str, ...] | None = None  # one, or with several labels any number
    score: float | None = None

    @property
    def label(self) -> str | None:
        return self.labels[0] if self.labels else None


@dataclass(frozen=True, slots=True)
class Entity:
    """Characters [start, end) of a text, or words [start, end) of a sentence."""

    start: int
    end: int
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged(Row):
    """Words and their tags, or a raw text and its entities: exactly one of tokens and text is there."""

    tokens: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None  # as long as tokens
    text: str | None = None
    entities: tuple[Entity, ...] | None = None  # sorted, in characters of text


@dataclass(frozen=True, slots=True)
class Answer:
    """`text` is context[start : start + len(text)]."""

    text: str
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Row):
    """A question about a text. No answers: it has none in this text. None: they were not asked for."""

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Row):
    """Several continuations of which one is right; `label` is its place."""

    choices: tuple[str, ...]
    context: str = ""
    question: str = ""
    label: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked(Row):
    """Two texts that belong together, with what does not belong (any number), or a score of how near they are."""

    anchor: str
    positive: str
    negatives: tuple[str, ...] = ()
    score: float | None = None
