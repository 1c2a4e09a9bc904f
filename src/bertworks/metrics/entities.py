"""Entities in sequences of tags, and how well predicted ones agree with gold ones.

A tag is a prefix and a type, `B-PER`; `O` is outside. The schemes that differ in spelling alone are read as one:
BMES and BMEWO write M for I and S or W for a single, BILOU writes L for E and U for S.

lenient (as seqeval's default, and the CoNLL script before it): whatever is tagged belongs to some entity; one begins
    at B or S, after E or S, or where the type changes. It reads IOB1 and IOB2 and IOBES as they are meant.
iob2, iobes (as seqeval's strict mode): only well-formed entities count. In IOBES one needs its E, or is an S.
iob1: I begins an entity unless it goes on with one, B parts neighbours of one type: the lenient reading.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from bertworks.errors import ConfigError, InputError, nearest

from .classification import averaged, f1_of, ratio
from .intervals import Floats

Scheme = Literal["lenient", "iob1", "iob2", "iobes"]
UNTYPED = "_"
PREFIXES = {"B": "B", "I": "I", "M": "I", "E": "E", "L": "E", "S": "S", "W": "S", "U": "S", "O": "O"}
ENTITY_TAG = re.compile(r"O|[BIMELSWU](-.*)?", re.DOTALL)


class Entity(NamedTuple):
    """Positions start to end (exclusive) of one type."""

    type: str
    start: int
    end: int


def names_entities(tags: Sequence[str]) -> bool:
    """Whether these tags mark entities (`B-PER`, `O`), not parts of speech or the like."""
    return all(ENTITY_TAG.fullmatch(tag) for tag in tags)


@lru_cache(maxsize=65536)
def parted(tag: str) -> tuple[str, str]:
    """Prefix (one of B I E S O) and type of a tag."""
    prefix = PREFIXES.get(tag[:1])
    if prefix is None:
        raise InputError(f"{tag!r} is not an entity's tag", "tags look like B-PER, I-PER, E-PER, S-PER, O")
    return prefix, ("" if prefix == "O" else tag[1:].removeprefix("-") or UNTYPED)


def entities(tags: Sequence[str], scheme: Scheme = "lenient") -> list[Entity]:
    """The entities of one sequence, in order.

    >>> entities(["B-PER", "I-PER", "O", "I-LOC"])
    [Entity(type='PER', start=0, end=2), Entity(type='LOC', start=3, end=4)]
    >>> entities(["B-PER", "I-PER", "O", "I-LOC"], "iob2")
    [Entity(type='PER', start=0, end=2)]
    """
    if scheme in ("lenient", "iob1"):
        return _lenient(tags)
    if scheme == "iob2":
        return _iob2(tags)
    if scheme == "iobes":
        return _iobes(tags)
    known = ("lenient", "iob1", "iob2", "iobes")
    raise ConfigError(f"unknown tag scheme {scheme!r}", nearest(scheme, known) or f"known: {', '.join(known)}")


def _lenient(tags: Sequence[str]) -> list[Entity]:
    found = []
    before, kind, start = "O", "", 0
    for at, (prefix, type_) in enumerate([*map(parted, tags), ("O", "")]):
        begins = prefix != "O" and (prefix in "BS" or before in "ESO" or type_ != kind)
        if before != "O" and (begins or prefix == "O"):
            found.append(Entity(kind, start, at))
        if begins:
            start = at
        before, kind = prefix, type_
    return found


def _iob2(tags: Sequence[str]) -> list[Entity]:
    found = []
    kind, start = "", -1  # start < 0: in no entity
    for at, (prefix, type_) in enumerate([*map(parted, tags), ("O", "")]):
        if prefix in "ES":
            raise InputError(f"{tags[at]!r} has no place in IOB2", "score with the scheme iobes or lenient")
        if start >= 0 and not (prefix == "I" and type_ == kind):
            found.append(Entity(kind, start, at))
            start = -1
        if prefix == "B":
            kind, start = type_, at
    return found


def _iobes(tags: Sequence[str]) -> list[Entity]:
    found = []
    kind, start = "", -1
    for at, (prefix, type_) in enumerate(map(parted, tags)):
        if prefix == "S":
            found.append(Entity(type_, at, at + 1))
        elif prefix == "E" and start >= 0 and type_ == kind:
            found.append(Entity(type_, start, at + 1))
        if prefix == "B":
            kind, start = type_, at
        elif not (prefix == "I" and start >= 0 and type_ == kind):
            start = -1
    return found


def entity_rows(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: Scheme = "lenient"
) -> tuple[Floats, tuple[str, ...]]:
    """(sequences, 3 × types + 2): of each type the entities hit, predicted, gold; tokens right, tokens. And the types.

    An entity is hit when its type, its start and its end are all right.
    """
    same_lengths(gold, predicted)
    true = [entities(tags, scheme) for tags in gold]
    found = [entities(tags, scheme) for tags in predicted]
    types = tuple(sorted({one.type for row in (*true, *found) for one in row}))
    column = {name: at for at, name in enumerate(types)}
    rows = np.zeros((len(gold), 3 * len(types) + 2))
    for at, (ours, theirs) in enumerate(zip(found, true, strict=True)):
        for offset, group in enumerate((set(ours) & set(theirs), ours, theirs)):
            for one in group:
                rows[at, offset * len(types) + column[one.type]] += 1
        rows[at, -2] = sum(map(str.__eq__, gold[at], predicted[at]))
        rows[at, -1] = len(gold[at])
    return rows, types


def entity_figures(sums: Floats) -> dict[str, Floats]:
    """Figures of (resamples, 3 × types + 2) sums. `f1`, `precision` and `recall` are of all entities together."""
    counts = sums[:, :-2].reshape(len(sums), 3, -1) if sums.shape[1] > 2 else np.zeros((len(sums), 3, 1))
    hits, predicted, gold = counts[:, 0], counts[:, 1], counts[:, 2]
    means = averaged(hits, predicted, gold)
    return {
        "f1": f1_of(hits.sum(1), predicted.sum(1), gold.sum(1)),
        "precision": ratio(hits.sum(1), predicted.sum(1)),
        "recall": ratio(hits.sum(1), gold.sum(1)),
        "f1_macro": means["f1_macro"],
        "f1_weighted": means["f1_weighted"],
        "token_accuracy": ratio(sums[:, -2], sums[:, -1]),
    }


def same_lengths(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> None:
    if len(gold) != len(predicted):
        raise InputError(
            f"{len(gold)} sequences of gold tags, {len(predicted)} of predicted ones", "score the same file's rows"
        )
    for at, (one, two) in enumerate(zip(gold, predicted, strict=True)):
        if len(one) != len(two):
            raise InputError(
                f"sequence {at + 1} has {len(one)} gold tags and {len(two)} predicted ones",
                "every token needs one tag; a token that was cut off is predicted O",
            )
