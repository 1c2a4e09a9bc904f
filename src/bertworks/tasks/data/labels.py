"""The labels a model tells apart: their names in order, kept in its folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from bertworks.errors import ConfigError, InputError, nearest, tell
from bertworks.tasks.data.read import Say, Table
from bertworks.tasks.data.shapes import Row, Tagged, Text
from bertworks.tasks.data.tags import as_bio, bio_names, entities, scheme_of


@dataclass(frozen=True)
class Labels:
    """names[i] is what output i stands for."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, table: Table) -> Labels:
        """The labels of a training file: numbers by size, other names by spelling; tags with O first, all in BIO.

        One label for every row is an error: nothing could be learnt.
        """
        if table.task == "tag":
            names = tag_names(table.rows)
            if len(names) < 2:
                said = f"{table.file}: no tags" if not names else f"{table.file}: every tag is {names[0]!r}"
                raise InputError(said, "two at least are wanted to tell apart")
            return cls(tuple(names))
        counts = Counter(label for row in table.rows if isinstance(row, Text) for label in row.labels or ())
        if len(counts) == 0:
            raise InputError(f"{table.file}: no row has a label", "is it the right column? data.label=COLUMN")
        if len(counts) == 1 and not table.several:
            said = f"{table.file}: every row has the label {next(iter(counts))!r}"
            raise InputError(said, "two labels at least are wanted to tell apart")
        return cls(tuple(ordered(counts)))

    @classmethod
    def stored(cls, id2label: Mapping[str, str]) -> Labels:
        """From a model folder's config.json."""
        try:
            return cls(tuple(id2label[str(at)] for at in range(len(id2label))))
        except KeyError as gap:
            raise ConfigError(f"config.json: id2label has no {gap}", "its keys go from 0 without a gap") from None

    @property
    def id2label(self) -> dict[str, str]:
        """For config.json."""
        return {str(at): name for at, name in enumerate(self.names)}

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: at for at, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._ids

    def get(self, name: str) -> int | None:
        return self._ids.get(name)

    def id(self, name: str, row: Row) -> int:
        """A label's number; one that is not among them is an error that names the row."""
        at = self._ids.get(name)
        if at is None:
            known = ", ".join(self.names[:8]) + (" …" if len(self) > 8 else "")
            said = f"{row.place}: the label {name!r} is not one that training has"
            raise InputError(said, nearest(name, self.names) or f"it has {known}")
        return at

    def require(self, table: Table, say: Say = tell) -> None:
        """Hold a dev or test file to these labels.

        A label that training has not is an error at its line: no answer there could be right, so it is more likely
        a mistake. Tags are too many for that: unseen ones are told, and count as answered wrongly.
        """
        if table.task != "tag":
            for row in table.rows:
                for label in (row.labels or ()) if isinstance(row, Text) else ():
                    self.id(label, row)
            return
        scheme = scheme_of(_tags(table.rows))
        unseen: dict[str, Row] = {}
        for row in table.rows:
            for tag in _types(row, scheme):
                if tag not in self and f"B-{tag}" not in self and tag not in unseen:
                    unseen[tag] = row
        if unseen:
            first = next(iter(unseen.values()))
            told = ", ".join(sorted(unseen)[:5]) + (" …" if len(unseen) > 5 else "")
            say(f"{first.place}: tags that training has not ({told}) count as answered wrongly")


def ordered(names: Iterable[str]) -> list[str]:
    """Numbers by size where all are numbers, otherwise by spelling."""

    def number(name: str) -> float | None:
        try:
            return float(name)
        except ValueError:
            return None

    found = list(names)
    sizes = {name: number(name) for name in found}
    if all(size is not None for size in sizes.values()):
        return sorted(found, key=lambda name: (sizes[name] or 0.0, name))
    return sorted(found)


def tag_names(rows: Iterable[Row]) -> list[str]:
    """Every tag of training rows: whole in BIO (each type's B and I) where tags spell entities, otherwise as found."""
    some = list(rows)
    tags = list(_tags(some))
    scheme = scheme_of(tags)
    if scheme == "plain" and tags:
        return ordered({tag for row in tags for tag in row})
    types = {entity.label for row in some if isinstance(row, Tagged) for entity in row.entities or ()}
    return bio_names(types | {entity.label for row in tags for entity in entities(row)})


def bio_of(row: Tagged, scheme: str) -> list[str]:
    """A row's tags as a model learns them."""
    return as_bio(row.tags or (), scheme)


def _tags(rows: Iterable[Row]) -> Iterable[tuple[str, ...]]:
    return (row.tags for row in rows if isinstance(row, Tagged) and row.tags is not None)


def _types(row: Row, scheme: str) -> Iterable[str]:
    """The tags, or the types of entities, of a row."""
    if not isinstance(row, Tagged):
        return ()
    if row.tags is not None and scheme == "plain":
        return row.tags
    return (one.label for one in (entities(row.tags) if row.tags is not None else row.entities or ()))
