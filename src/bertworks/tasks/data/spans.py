"""Answers and entities by their characters: offsets are held to the text, and looked for where they are wrong."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, TypeGuard

from bertworks.tasks.data.cells import CellError, list_of, value_of
from bertworks.tasks.data.shapes import Answer, Entity

STARTS = ("start", "start_offset", "begin")
ENDS = ("end", "end_offset", "stop")
LABELS = ("label", "type", "entity", "tag", "entity_group")


def nearest_place(text: str, part: str, start: int) -> int:
    """Where `part` begins that is nearest to `start`; -1 where it is nowhere."""
    after = text.find(part, max(start, 0))
    before = text.rfind(part, 0, max(start, 0) + len(part))
    if after < 0 or before < 0:
        return max(after, before)
    return before if start - before <= after - start else after


def answers_of(value: Any, starts: Any, context: str) -> tuple[tuple[Answer, ...], list[str]]:
    """The answers that a cell gives, and what was done to them: "looked-up", "ambiguous", "moved"."""
    found, done = [], []
    for text, start in _answers(value, starts):
        if not text:
            continue
        if start is None:
            at = context.find(text)
            done.append("ambiguous" if at >= 0 and context.find(text, at + 1) >= 0 else "looked-up")
        elif context.startswith(text, start) and start >= 0:
            at = start
        else:
            at = nearest_place(context, text, start)
            done.append("moved")
        if at < 0:
            likely = context.casefold().find(text.casefold()) if len(context.casefold()) == len(context) else -1
            hint = f"it has {context[likely : likely + len(text)]!r}" if likely >= 0 else "an answer is a piece of it"
            raise CellError(f"the answer {text[:60]!r} is not in its context", f"{hint}: mend the row or take it out")
        found.append(Answer(text, at))
    return tuple(found), done


def _answers(value: Any, starts: Any) -> list[tuple[str, int | None]]:
    """Text and start of each, whichever way they are written."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        with suppress(CellError):  # an answer may well begin with a bracket
            value = value_of(value)
    if value is None or value == "":
        return []
    if isinstance(value, dict):
        if isinstance(value.get("text"), list):
            texts = value["text"]
            places = value.get("answer_start", [None] * len(texts))
            if not isinstance(places, list) or len(places) != len(texts):
                raise CellError("answers has not as many answer_start as text", "one for each")
            return [(_text(one), _start(at)) for one, at in zip(texts, places, strict=True)]
        value = [value]
    if isinstance(value, str):
        return [(value, _start(starts))]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [(str(value), _start(starts))]
    found: list[tuple[str, int | None]] = []
    for one in list_of(value):
        if isinstance(one, dict):
            found.append((_text(one.get("text")), _start(one.get("answer_start", one.get("start")))))
        else:
            found.append((_text(one), None))
    return found


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise CellError(f"an answer is a text, not a {type(value).__name__}", 'write {"text": "…", "answer_start": 0}')
    return value


def _start(value: Any) -> int | None:
    if value is None or value == "":
        return None
    try:
        at = int(value)
    except (TypeError, ValueError, OverflowError):
        raise CellError(f"answer_start is {str(value)[:40]!r}, not a number", "count characters from 0") from None
    return at if at >= 0 else None


def entities_of(value: Any, text: str) -> tuple[tuple[Entity, ...], list[str]]:
    """Entities in order, none overlapping, and what was done to them: "moved", "overlap" (the longer is kept)."""
    if value is None or value == "":
        return (), []
    found, done = [], []
    for one in _columns_turned(value_of(value) if isinstance(value, str) else value):
        start, end, label, told = _entity(one)
        if not 0 <= start < end <= len(text):
            hint = "start counts from 0 and end is one past the last"
            raise CellError(f"an entity from {start} to {end} in a text of {len(text):,} characters", hint)
        if told is not None and text[start:end] != told:
            start = nearest_place(text, told, start)
            end = start + len(told)
            done.append("moved")
            if start < 0:
                raise CellError(f"the entity {told[:60]!r} is not in its text", "mend the row or take it out")
        found.append(Entity(start, end, label))
    kept: list[Entity] = []
    for entity in sorted(found, key=lambda entity: (entity.start - entity.end, entity.start)):
        if any(entity.start < other.end and other.start < entity.end for other in kept):
            done.append("overlap")
        else:
            kept.append(entity)
    return tuple(sorted(kept, key=lambda entity: entity.start)), done


def _columns_turned(value: Any) -> list[Any]:
    """{start: […], end: […], label: […]}, as Arrow likes it, becomes a list of objects."""
    if isinstance(value, dict) and value and all(isinstance(one, list) for one in value.values()):
        return [dict(zip(value, one, strict=False)) for one in zip(*value.values(), strict=False)]
    return list_of(value)


def _entity(one: Any) -> tuple[int, int, str, str | None]:
    if isinstance(one, dict):
        parts = [next((one[name] for name in names if name in one), None) for names in (STARTS, ENDS, LABELS)]
        told = one.get("text")
    elif isinstance(one, list | tuple) and len(one) == 3:
        parts, told = list(one), None
    else:
        parts, told = [None], None
    start, end, label = parts if len(parts) == 3 else (None, None, None)
    if not _whole(start) or not _whole(end) or not isinstance(label, str | int):
        raise CellError("an entity wants start, end and label", 'write {"start": 0, "end": 4, "label": "PER"}')
    label = str(label).strip()
    if not label:
        raise CellError("an entity without a label", "give it one or take it out")
    return start, end, label, told if isinstance(told, str) and told else None


def _whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
