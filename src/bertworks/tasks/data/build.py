"""From a record to rows: one function a task. What is wrong with a record is a RowError; what was done is noted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bertworks.tasks.data.cells import CellError, label_of, labels_of, list_of, number_of, text_of, value_of, words_of
from bertworks.tasks.data.columns import Columns
from bertworks.tasks.data.problems import Noted, RowError
from bertworks.tasks.data.shapes import Asked, Choice, Linked, Row, Tagged, Text
from bertworks.tasks.data.spans import answers_of, entities_of

LETTERS = "ABCDEFGHIJ"
MISSING = object()


@dataclass(frozen=True)
class Building:
    """What all rows of a file share. several: whether rows have any number of labels."""

    file: str
    columns: Columns
    noted: Noted
    labelled: bool
    several: bool = False
    separator: str | None = None
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Cells:
    """One record, by role."""

    building: Building
    record: dict[str, Any]
    line: int

    def raw(self, role: str) -> Any:
        name = self.building.columns.named.get(role)
        return MISSING if name is None else self.record.get(name, MISSING)

    def wanted(self, role: str) -> Any:
        """A cell that every row has."""
        value = self.raw(role)
        if value is MISSING:
            name = self.building.columns.named.get(role, role)
            raise self.wrong("missing-column", f"no column {name!r}", "every row wants it")
        return value

    def text(self, role: str) -> str:
        """A text that every row has; null is an empty one."""
        text: str = self.made(text_of, self.wanted(role), role, "bad-text")
        if not text or text.isspace():
            self.note("empty")
        return text

    def some_text(self, role: str) -> str:
        """A text that may be missing."""
        value = self.raw(role)
        text: str = "" if value is MISSING else self.made(text_of, value, role, "bad-text")
        return text

    def made(self, make: Callable[..., Any], value: Any, role: str, kind: str, *more: Any) -> Any:
        try:
            return make(value, *more)
        except CellError as error:
            name = self.building.columns.named.get(role, role)
            raise self.wrong(kind, f"{name}: {error.said}", error.way_out) from None

    def wrong(self, kind: str, said: str, way_out: str = "") -> RowError:
        return RowError(kind, f"{self.building.file}:{self.line}", self.line, said, way_out)

    def note(self, kind: str) -> None:
        self.building.noted.add(kind, self.line)

    @property
    def origin(self) -> dict[str, Any]:
        kept = self.record if self.building.keep else None
        return {"file": self.building.file, "line": self.line, "record": kept}


def _classified(cells: Cells) -> list[Row]:
    labels = None
    if cells.building.labelled:
        labels = _labels(cells)
    return [Text(**cells.origin, **_texts(cells), labels=labels)]


def _labels(cells: Cells) -> tuple[str, ...]:
    value = cells.wanted("label")
    if cells.building.several:
        found: tuple[str, ...] = cells.made(labels_of, value, "label", "bad-label", cells.building.separator)
        return found
    label = cells.made(label_of, value, "label", "bad-label")
    if not label:
        raise cells.wrong("no-label", "no label", "give the row one or take it out")
    return (label,)


def _texts(cells: Cells) -> dict[str, Any]:
    pair = "text_b" in cells.building.columns.named
    return {"text": cells.text("text"), "text_b": cells.text("text_b") if pair else None}


def _measured(cells: Cells) -> list[Row]:
    score = None
    if cells.building.labelled:
        value = cells.wanted("score")
        if value is None or value == "":
            raise cells.wrong("no-label", "no score", "give the row one or take it out")
        score = cells.made(number_of, value, "score", "bad-label")
    return [Text(**cells.origin, **_texts(cells), score=score)]


def _tagged(cells: Cells) -> list[Row]:
    named = cells.building.columns.named
    if "tokens" not in named:
        text = cells.text("text")
        if not cells.building.labelled:
            return [Tagged(**cells.origin, text=text)]
        found, done = cells.made(entities_of, cells.wanted("entities"), "entities", "bad-entity", text)
        for kind in done:
            cells.note(f"entity-{kind}")
        return [Tagged(**cells.origin, text=text, entities=found)]
    tokens = cells.made(words_of, cells.wanted("tokens"), "tokens", "bad-text")
    if not tokens:
        cells.note("empty")
    tags = None
    if cells.building.labelled:
        value = cells.wanted("tags")
        tags = cells.made(words_of, value, "tags", "bad-label")
        if len(tags) != len(tokens):
            said = f"{len(tokens)} tokens and {len(tags)} tags"
            raise cells.wrong("unequal", said, "every token wants its tag: mend the row or take it out")
        if "" in tags:
            raise cells.wrong("no-label", "an empty tag", "outside of entities the tag is O")
    return [Tagged(**cells.origin, tokens=tokens, tags=tags)]


def _asked(cells: Cells) -> list[Row]:
    context = cells.text("context")
    answers = None
    if cells.building.labelled:
        value = None if _impossible(cells) else cells.wanted("answers")
        starts = cells.raw("answer_start")
        starts = None if starts is MISSING or isinstance(starts, list) else starts
        answers, done = cells.made(answers_of, value, "answers", "bad-answer", starts, context)
        for kind in done:
            cells.note(f"answer-{kind}")
    id = cells.some_text("id") or str(cells.line)
    return [Asked(**cells.origin, id=id, question=cells.text("question"), context=context, answers=answers)]


def _impossible(cells: Cells) -> bool:
    value = cells.raw("is_impossible")
    return value is True or (isinstance(value, str) and value.strip().casefold() in ("true", "1"))


def _chosen(cells: Cells) -> list[Row]:
    names = cells.building.columns.choices
    letters: list[str] = []
    if names:
        value: Any = [cells.record.get(name) for name in names]
        while value and value[-1] in (None, ""):  # a table has as many columns as its longest row
            value.pop()
    else:
        value = cells.wanted("choices")
        if isinstance(value, str):
            value = cells.made(value_of, value, "choices", "bad-choices")
        if isinstance(value, dict) and "text" in value:
            letters = list(map(str, value["label"])) if isinstance(value.get("label"), list) else []
            value = value["text"]
    choices = tuple(cells.made(text_of, one, "choices", "bad-choices") for one in cells.made(
        list_of, value, "choices", "bad-choices"
    ))  # fmt: skip
    if len(choices) < 2:
        raise cells.wrong("bad-choices", f"{len(choices)} choices", "two at least are wanted")
    label = _right_one(cells, choices, letters) if cells.building.labelled else None
    context, question = cells.some_text("context"), cells.some_text("question")
    if not context.strip() and not question.strip():
        cells.note("empty")
    return [Choice(**cells.origin, choices=choices, context=context, question=question, label=label)]


def _right_one(cells: Cells, choices: tuple[str, ...], letters: list[str]) -> int:
    """The place of the right choice: told by its number from 0, its text, its letter."""
    value = cells.wanted("label")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str):
        told = value.strip()
        for names in (letters, [one.strip() for one in choices]):
            if names.count(told) == 1:
                return names.index(told)
        if told.isdecimal():
            value = int(told)
        elif len(told) == 1 and told.upper() in LETTERS[: len(choices)]:
            return LETTERS.index(told.upper())
    if value is None or value == "":
        raise cells.wrong("no-label", "no label", "give the row one or take it out")
    if isinstance(value, bool) or not isinstance(value, int):
        raise cells.wrong("bad-label", f"label {str(value)[:60]!r} is none of the choices", "write its number, from 0")
    if not 0 <= value < len(choices):
        raise cells.wrong("bad-label", f"label {value} of {len(choices)} choices", "they are counted from 0")
    return value


def _linked(cells: Cells) -> list[Row]:
    value = cells.wanted("positive")
    several = value if isinstance(value, list) else [value]
    if not several:
        raise cells.wrong("bad-text", "no positive", "an anchor wants one at least")
    positives = [cells.made(text_of, one, "positive", "bad-text") for one in several]
    named = cells.building.columns.negatives
    negative = cells.raw("negative")
    many = [] if negative in (MISSING, None) else negative if isinstance(negative, list) else [negative]
    many = [*many, *(cells.record[name] for name in named if cells.record.get(name))]
    negatives = tuple(cells.made(text_of, one, "negative", "bad-text") for one in many)
    score = None
    value = cells.raw("score")
    if cells.building.labelled and value not in (MISSING, None, ""):
        score = cells.made(number_of, value, "score", "bad-label")
    anchor = cells.text("anchor")
    if not all(one.strip() for one in positives):
        cells.note("empty")
    negatives = tuple(one for one in negatives if one.strip())
    return [Linked(**cells.origin, anchor=anchor, positive=one, negatives=negatives, score=score) for one in positives]


BUILD: dict[str, Callable[[Cells], list[Row]]] = {
    "classify": _classified,
    "regress": _measured,
    "tag": _tagged,
    "answer": _asked,
    "choose": _chosen,
    "embed": _linked,
}


def several_labels(record: dict[str, Any], columns: Columns, separator: str | None) -> bool:
    """Whether rows like this one have any number of labels."""
    value = record.get(columns.named.get("label", ""))
    return columns.task == "classify" and (separator is not None or isinstance(value, list))
