"""Parts of one file: train and dev, or k folds. What a row goes to depends on the seed and on what the rows say, never
on their order; rows that say the same stay together, so nothing leaks.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from bertworks.errors import ConfigError, InputError
from bertworks.tasks.data.shapes import Asked, Choice, Linked, Row, Tagged, Text
from bertworks.tasks.data.tags import entities

BINS = 10  # scores are balanced by tenths of the rows


@dataclass(frozen=True)
class _Group:
    """Rows that stay together. stratum: what is balanced; key: their place in a drawn order."""

    stratum: str
    key: bytes
    rows: tuple[int, ...]


def normalised(text: str) -> str:
    """A text without what does not make it another: case and white space."""
    return " ".join(text.casefold().split())


def said(row: Row) -> str:
    """What a row asks, all of it, normalised: rows of which this is the same are the same question."""
    if isinstance(row, Text):
        parts = [row.text] if row.text_b is None else [row.text, row.text_b]
    elif isinstance(row, Tagged):
        parts = [row.text] if row.text is not None else ["\x1f".join(row.tokens or ())]
    elif isinstance(row, Asked):
        parts = [row.question, row.context]
    elif isinstance(row, Choice):
        parts = [row.context, row.question, *row.choices]
    elif isinstance(row, Linked):
        parts = [row.anchor, row.positive]
    else:
        raise TypeError(type(row).__name__)
    return "\x1e".join(map(normalised, parts))


def digest(text: str, seed: int = 0) -> bytes:
    return hashlib.blake2b(text.encode("utf8", "replace"), digest_size=12, salt=seed.to_bytes(8, "little")).digest()


def together(row: Row) -> str:
    """What keeps rows on one side of a split: questions about one text do too."""
    if isinstance(row, Asked) or (isinstance(row, Choice) and row.context.strip()):
        return normalised(row.context)
    return said(row)


def split(rows: Sequence[Row], share: float, seed: int) -> tuple[list[int], list[int]]:
    """Places of the rows to train on and of those held out: about `share` of every label, never all of one.

    Rows come back in the order they stand in.
    """
    if not 0 < share < 1:
        raise ConfigError(f"a share of {share:g} cannot be held out", "between 0 and 1, such as 0.1")
    groups = _groups(rows, seed)
    due = 0.0  # rows that should have been held out by now, less those that were
    held: list[int] = []
    kept: list[int] = []
    for _, some in groupby(groups, key=lambda group: group.stratum):
        members = list(some)
        taken = 0
        for number, group in enumerate(members):
            if number == len(members) - 1 and taken == number:  # train would lose the label
                kept.extend(group.rows)
                continue
            size = len(group.rows)
            due += share * size
            if due >= size / 2:
                held.extend(group.rows)
                due -= size
                taken += 1
            else:
                kept.extend(group.rows)
    if not held or not kept:
        raise InputError(
            f"{len(rows):,} rows are too few to hold {share:.0%} out", "give a file to test on, or more rows"
        )
    return sorted(kept), sorted(held)


def folds(rows: Sequence[Row], count: int, seed: int) -> list[list[int]]:
    """Places of the rows of each of `count` parts, each with its share of every label."""
    groups = _groups(rows, seed)
    if count < 2 or count > len(groups):
        raise ConfigError(f"{len(groups):,} different rows cannot make {count} folds", "from 2 to as many as there are")
    parts: list[list[int]] = [[] for _ in range(count)]
    for _, some in groupby(groups, key=lambda group: group.stratum):
        here = [0] * count
        for group in some:
            part = min(range(count), key=lambda at: (here[at], len(parts[at]), at))
            here[part] += len(group.rows)
            parts[part].extend(group.rows)
    return [sorted(part) for part in parts]


def _groups(rows: Sequence[Row], seed: int) -> list[_Group]:
    """Sorted by stratum, and in a drawn order within."""
    members: dict[str, list[int]] = {}
    for at, row in enumerate(rows):
        members.setdefault(together(row), []).append(at)
    strata = _strata(rows)
    made = []
    for text, places in members.items():
        # Of rows that say the same and are labelled differently the least label speaks for all, in any order.
        made.append(_Group(min(strata[at] for at in places), digest(text, seed), tuple(places)))
    return sorted(made, key=lambda group: (group.stratum, group.key))


def _strata(rows: Sequence[Row]) -> list[str]:
    """What each row counts for: its rarest label, or the bin of its score."""
    scores = sorted(score for row in rows if (score := _score(row)) is not None)
    edges = [scores[len(scores) * at // BINS] for at in range(1, BINS)] if scores else []
    names = [tuple(_names(row)) for row in rows]
    counts = Counter(name for some in names for name in set(some))
    found = []
    for row, some in zip(rows, names, strict=True):
        score = _score(row)
        if score is not None:
            found.append(str(sum(edge <= score for edge in edges)))
        else:
            found.append(min(some, key=lambda name: (counts[name], name), default=""))
    return found


def _score(row: Row) -> float | None:
    return row.score if isinstance(row, Text | Linked) else None


def _names(row: Row) -> Iterable[str]:
    if isinstance(row, Text):
        return row.labels or ()
    if isinstance(row, Tagged):
        spans = row.entities if row.entities is not None else entities(row.tags or ())
        return [one.label for one in spans]
    if isinstance(row, Asked):
        return ["answered" if row.answers else "unanswerable"]
    return ()
