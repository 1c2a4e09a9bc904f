"""Typed options ⇄ TOML ⇄ a.b=c. An unknown key is an error that names the nearest one."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from bertworks.errors import ConfigError, InputError, nearest

T = TypeVar("T")
Table = dict[str, Any]
WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def made(kind: type[T], table: Mapping[str, Any], where: str = "") -> T:
    """A dataclass from a table, a nested one from a table in it; `where` is what errors call it.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Options:
    ...     lr: float = 1e-3
    >>> made(Options, {"lr": 1}, "optimizer")
    Options(lr=1.0)
    """
    hints = get_type_hints(kind)
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    for name in table:
        if name not in known:
            raise ConfigError(
                f"there is no key {_path(where, name)}", nearest(name, known) or f"known: {', '.join(known)}"
            )
    values = {name: _value(hints[name], value, _path(where, name)) for name, value in table.items()}
    for name, field in known.items():
        if name not in values and field.default is MISSING and field.default_factory is MISSING:
            raise ConfigError(f"{_path(where, name)} is missing", "give it")
    return kind(**values)


def _path(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _value(hint: Any, value: Any, where: str) -> Any:
    """`value` as the hint has it: whole numbers pass for numbers, lists for tuples, tables for dataclasses."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if value is None and NoneType in inner:
            return None
        return _any_of([one for one in inner if one is not NoneType], value, where)
    if origin is Literal:
        if value not in inner or isinstance(value, bool):
            words = [str(one) for one in inner]
            raise ConfigError(f"{where} is {value!r}", nearest(str(value), words) or f"known: {', '.join(words)}")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{where} is {value!r}", f"give a list: [{json.dumps(value, default=str)}]")
        return tuple(_value(inner[0], one, f"{where}[{at}]") for at, one in enumerate(value))
    if is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{where} is {value!r}", "it is a table of keys")
        return made(hint, value, where)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    raise ConfigError(f"{where} is {value!r}", f"it is {WORDS.get(hint, hint)}")


def _any_of(hints: Sequence[Any], value: Any, where: str) -> Any:
    for at, hint in enumerate(hints):
        try:
            return _value(hint, value, where)
        except ConfigError:
            if at == len(hints) - 1:
                raise
    raise AssertionError("a union of nothing")


# -- TOML ------------------------------------------------------------------------------------------------


def read_toml(path: Path) -> Table:
    try:
        return tomllib.loads(path.read_text(encoding="utf8"))
    except FileNotFoundError:
        raise InputError(f"{path} is not a file", "name a recipe, or one that is shipped") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}", "mend the line") from None


def to_toml(table: Mapping[str, Any]) -> str:
    """Tables of scalars and lists, one level deep, as TOML; None is left out.

    >>> print(to_toml({"run": {"seed": 0, "name": "a"}}), end="")
    [run]
    seed = 0
    name = "a"
    """
    parts = []
    for name, inner in table.items():
        lines = [f"{key} = {_literal(value)}" for key, value in inner.items() if value is not None]
        parts.append("\n".join([f"[{name}]", *lines]) + "\n")
    return "\n".join(parts)


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"
    return repr(value)


# -- a.b=c -----------------------------------------------------------------------------------------------


def overridden(table: Mapping[str, Any], given: Sequence[str]) -> Table:
    """A copy of a table of tables with `section.key=value` put in; values are TOML, or a text as it stands."""
    made_of: Table = {name: dict(inner) if isinstance(inner, Mapping) else inner for name, inner in table.items()}
    for one in given:
        path, sign, text = one.partition("=")
        section, dot, key = path.strip().partition(".")
        if not sign or not dot or not section or not key:
            raise ConfigError(f"{one!r} is not section.key=value", "write it like optimizer.lr=1e-4")
        inner = made_of.setdefault(section, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{section} is not a section", "write it like optimizer.lr=1e-4")
        inner[key] = parsed(text.strip())
    return made_of


def parsed(text: str) -> Any:
    """A TOML value, or the text itself where it is none.

    >>> parsed("3"), parsed("1e-4"), parsed("true"), parsed("[1, 2]"), parsed("cosine")
    (3, 0.0001, True, [1, 2], 'cosine')
    """
    try:
        return tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        return text


def sections_of(table: Mapping[str, Any], known: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A recipe's sections, each a copy and empty where it is not there; an unknown one is an error.

    >>> sections_of({"run": {"seed": 1}}, ("batch", "run"))
    {'batch': {}, 'run': {'seed': 1}}
    """
    for name in table:
        if name not in known:
            raise ConfigError(f"there is no section {name}", nearest(name, known) or f"known: {', '.join(known)}")
    return {name: dict(table.get(name, {})) for name in known}
