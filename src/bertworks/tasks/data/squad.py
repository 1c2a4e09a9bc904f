"""SQuAD's JSON and its relatives (CMRC 2018, DRCD, MRQA): questions inside paragraphs inside articles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from bertworks.errors import InputError
from bertworks.text.records import Record

NAMES = {  # older CMRC files call things otherwise
    "context": ("context", "context_text"),
    "question": ("question", "query_text", "query"),
    "id": ("id", "qid", "query_id", "question_id"),
}


def flattened(records: Iterable[Record], where: str) -> Iterator[Record]:
    """A question a record, where they are nested; other records as they are.

    Questions of a whole file in one object are numbered from 1: the number stands for the line.
    """
    number = 0
    for line, record in records:
        if isinstance(record.get("data"), list) and "question" not in record and "text" not in record:
            for article in record["data"]:
                for one in _questions(article, f"{where}, after question {number}"):
                    number += 1
                    yield number, one
        elif "paragraphs" in record or "qas" in record:
            for one in _questions(record, f"{where}:{line}"):
                number += 1
                yield line, one
        else:
            yield line, record


def _questions(value: Any, place: str) -> Iterator[dict[str, Any]]:
    """The questions of an article or a paragraph; another object is one of its own."""
    if not isinstance(value, dict):
        raise InputError(f"{place}: an article is wanted, not {type(value).__name__}", "SQuAD's layout is documented")
    if "paragraphs" in value:
        for paragraph in _list(value["paragraphs"], "paragraphs", place):
            yield from _questions(paragraph, place)
    elif "qas" in value:
        context = _first(value, "context", place)
        for asked in _list(value["qas"], "qas", place):
            if not isinstance(asked, dict):
                raise InputError(f"{place}: a question is wanted, not {type(asked).__name__}", "look at its qas")
            yield {
                "id": str(_first(asked, "id", place, "")),
                "question": _first(asked, "question", place),
                "context": context,
                "answers": [] if asked.get("is_impossible") else asked.get("answers"),
            }
    else:
        yield value


def _list(value: Any, name: str, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{place}: {name!r} is no list", "SQuAD's layout: data, paragraphs, qas, answers")
    return value


def _first(value: dict[str, Any], role: str, place: str, default: Any = None) -> Any:
    for name in NAMES[role]:
        if name in value:
            return value[name]
    if default is None:
        raise InputError(f"{place}: no {role!r}", "SQuAD's layout: data, paragraphs, context and qas, question")
    return default
