"""From a cell to what a task wants of it: a text, a label, a number, a list. Each complains in a few words."""

from __future__ import annotations

import ast
import json
import math
from typing import Any


class CellError(ValueError):
    """What is wrong with a cell, and what to do about it."""

    def __init__(self, said: str, way_out: str = "") -> None:
        super().__init__(said)
        self.said, self.way_out = said, way_out


def text_of(value: Any) -> str:
    """A text. Several are joined by commas; none is an empty one."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):  # JSON lines made from a table hold bare numbers
        return label_of(value)
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    raise CellError(f"a text is wanted, not {_kind(value)}", "write it as a string")


def label_of(value: Any) -> str:
    """A label's name: 1, "1", " 1 " and 1.0 are one label."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else ("" if math.isnan(value) else str(value))
    if value is None:
        return ""
    raise CellError(f"a label is a string or a number, not {_kind(value)}", "for several labels write a list of them")


def labels_of(value: Any, separator: str | None) -> tuple[str, ...]:
    """Several labels, each once; none is allowed."""
    if isinstance(value, str) and separator:
        value = value.split(separator)
    elif not isinstance(value, list):
        value = list_of(value) if isinstance(value, str) and value.lstrip().startswith("[") else [value]
    return tuple(dict.fromkeys(label for one in value if (label := label_of(one))))


def number_of(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise CellError(f"a number is wanted, not {_kind(value)}", "take the row out or give it a score")
    try:
        number = float(value)
    except ValueError:
        raise CellError(f"a number is wanted, not {value[:40]!r}" if isinstance(value, str) else "no number") from None
    except OverflowError:
        raise CellError("a number too large to keep") from None
    if not math.isfinite(number):
        raise CellError(f"a score is {number}, which is no number", "take the row out or give it a score")
    return number


def list_of(value: Any) -> list[Any]:
    """A list: JSON's, or the text of one, as tables hold it."""
    if isinstance(value, list):
        return value
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{", "("):
        value = value_of(value)
        if isinstance(value, list | tuple):
            return list(value)
    raise CellError(f"a list is wanted, not {_kind(value)}", 'write ["…", "…"]')


def value_of(cell: str) -> Any:
    """What a cell that holds JSON, or a Python literal as pandas writes it, says."""
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(cell)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise CellError("a list is wanted, and this is not one", 'write ["…", "…"]') from None


def words_of(value: Any) -> tuple[str, ...]:
    """Words or tags: a list, or a text with spaces between them. Numbers are names too."""
    if isinstance(value, str) and not value.lstrip().startswith("["):
        return tuple(value.split())
    found = list_of(value)
    for one in found:
        if not isinstance(one, str | int) or isinstance(one, bool):
            raise CellError(f"words and tags are strings, not {_kind(one)}", 'write ["…", "…"]')
    return tuple(str(one) for one in found)


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    names = {"dict": "an object", "list": "a list", "bool": "true or false", "str": "a text"}
    return names.get(type(value).__name__, f"a {type(value).__name__}")
