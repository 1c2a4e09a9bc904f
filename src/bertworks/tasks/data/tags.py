"""Tags and the entities they spell: BIO (IOB2), IOB1, BIOES, BMES, BILOU, or plain tags without entities.

Inside the house entities are spans of words, and tags are BIO. What a file uses is recognised and turned into that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from bertworks.tasks.data.shapes import Entity

SCHEMES = ("bio", "iob1", "bioes", "bmes", "bilou", "plain")
PREFIXED = re.compile(r"([BIESMLU])(?:[-_](.+))?", re.DOTALL)
NAMELESS = "_"  # the type of an entity whose tags are bare letters, as of words in BMES
ALIKE = {"M": "I", "L": "E", "U": "S"}  # other schemes' letters in those of BIOES
# Letters of (an entity of one word, its first, a middle, its last), by scheme.
LETTERS = {
    "bio": ("B", "B", "I", "I"),
    "bioes": ("S", "B", "I", "E"),
    "bmes": ("S", "B", "M", "E"),
    "bilou": ("U", "B", "I", "L"),
}


def parsed(tag: str) -> tuple[str, str]:
    """Letter (in those of BIOES) and type; ("O", "") for what is no such tag."""
    found = PREFIXED.fullmatch(tag)
    return (ALIKE.get(found[1], found[1]), found[2] or NAMELESS) if found else ("O", "")


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of tags in any scheme, read leniently as conlleval does: what begins without a B begins all the
    same. Never of plain tags.
    """
    found: list[Entity] = []
    start, before = 0, ("O", "")
    for at, tag in enumerate([*tags, "O"]):
        now = parsed(tag)
        goes_on = before[0] in "BI" and now[0] in "IE" and before[1] == now[1]
        if before[0] != "O" and not goes_on:
            found.append(Entity(start, at, before[1]))
        if now[0] != "O" and not goes_on:
            start = at
        before = now
    return found


def strict_entities(tags: Sequence[str], scheme: str) -> list[Entity]:
    """Only the entities that are spelled as the scheme wants them; the rest of a broken sequence is nothing."""
    parts = [*map(parsed, tags), ("O", "")]
    found: list[Entity] = []
    at, before = 0, ("O", "")
    while at < len(parts):
        end = at + 1
        if _starts(before, parts[at], scheme):
            while _goes_on(parts[end - 1], parts[end], scheme):
                end += 1
            if _ends(parts[end - 1], parts[end], scheme):
                found.append(Entity(at, end, parts[at][1]))
        at, before = end, parts[end - 1]
    return found


Part = tuple[str, str]


def _starts(before: Part, now: Part, scheme: str) -> bool:
    if scheme != "iob1":
        return now[0] in "BS"
    if now[0] == "B":  # IOB1 has it only between two of a type
        return before[0] in "BI" and before[1] == now[1]
    return now[0] == "I" and (before[0] in "OB" or before[1] != now[1])


def _goes_on(before: Part, now: Part, scheme: str) -> bool:
    return before[0] in "BI" and now[0] in ("I" if scheme in ("bio", "iob1") else "IE") and before[1] == now[1]


def _ends(before: Part, now: Part, scheme: str) -> bool:
    if scheme in ("bioes", "bmes", "bilou"):
        return before[0] in "ES"
    return scheme == "bio" or not (before[0] == now[0] == "B" and before[1] != now[1])


def tags_of(spans: Iterable[Entity], length: int, scheme: str = "bio") -> list[str]:
    """The tags of entities that do not overlap. `entities` gives the same ones back."""
    tags = ["O"] * length
    last = Entity(-1, -1, "")
    for one in sorted(spans, key=lambda entity: entity.start):
        tail = "" if one.label == NAMELESS else f"-{one.label}"
        if scheme == "iob1":
            tags[one.start : one.end] = [f"I{tail}"] * (one.end - one.start)
            if last.end == one.start and last.label == one.label:
                tags[one.start] = f"B{tail}"
        else:
            single, first, middle, end = LETTERS[scheme]
            size = one.end - one.start
            letters = [single] if size == 1 else [first, *[middle] * (size - 2), end]
            tags[one.start : one.end] = [f"{letter}{tail}" for letter in letters]
        last = one
    return tags


def broken(tags: Sequence[str], scheme: str) -> int | None:
    """Where a sequence first is what its scheme does not allow; None where it is whole."""
    before: Part = ("O", "")
    for at, now in enumerate([*map(parsed, tags), ("O", "")]):
        same = before[1] == now[1] and before[0] in "BI"
        if scheme == "bio":
            wrong = now[0] == "I" and not same
        elif scheme == "iob1":
            wrong = now[0] == "B" and not same
        elif scheme == "plain":
            wrong = False
        else:
            wrong = (before[0] in "BI") != (now[0] in "IE" and same) or (now[0] in "IE" and not same)
        if wrong:
            return min(at, len(tags) - 1)
        before = now
    return None


class SchemeFinder:
    """Which scheme sentences are tagged in, told from all of them. Holds the set of tags and two counts."""

    def __init__(self) -> None:
        self.tags: set[str] = set()
        self.bare_starts = 0  # entities that begin with I where nothing of their type stood before
        self.marked_starts = 0  # and with B

    def add(self, tags: Sequence[str]) -> None:
        self.tags.update(tags)
        before: Part = ("O", "")
        for now in map(parsed, tags):
            if now[0] in "BI" and not (before[0] in "BI" and before[1] == now[1]):
                if now[0] == "I":
                    self.bare_starts += 1
                else:
                    self.marked_starts += 1
            before = now

    @property
    def scheme(self) -> str:
        found = {tag: PREFIXED.fullmatch(tag) for tag in self.tags if tag != "O"}
        parts = [one for one in found.values() if one is not None]
        letters = {one[1] for one in parts}
        bare = {one[2] is None for one in parts}
        if not parts or len(parts) < len(found) or (bare == {True} and not ("B" in letters and letters & set("IME"))):
            return "plain"
        if len(bare) > 1:
            return "plain"
        if "M" in letters:
            return "bmes"
        if letters & set("LU"):
            return "bilou"
        if letters & set("ES"):
            return "bioes"
        return "iob1" if self.bare_starts and not self.marked_starts else "bio"


def scheme_of(sentences: Iterable[Sequence[str]]) -> str:
    finder = SchemeFinder()
    for tags in sentences:
        finder.add(tags)
    return finder.scheme


def as_bio(tags: Sequence[str], scheme: str) -> list[str]:
    """The same entities in BIO; a broken sequence as conlleval reads it. Plain tags stay as they are."""
    return list(tags) if scheme == "plain" else tags_of(entities(tags), len(tags))


def bio_names(types: Iterable[str]) -> list[str]:
    """Every tag of these types: O, then each type's B and I."""
    tails = ["" if one == NAMELESS else f"-{one}" for one in sorted(set(types))]
    return ["O", *(f"{letter}{tail}" for tail in tails for letter in "BI")]
