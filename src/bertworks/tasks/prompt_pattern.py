"""A pattern with a blank, as the tokens that a model reads: only the text in it is ever cut, never the blank."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from bertworks.errors import ConfigError, InputError, nearest
from bertworks.text.tokenizer import Tokenizer, longest_first

from .data import Text
from .features import IGNORED, Features, encode

BLANK = re.compile(r"(?:\[MASK\]|<mask>)+")
PLACE = re.compile(r"\{([^{}]*)\}")
PLACES = ("text", "text_b")
Offsets = NDArray[np.int32]
WHOLE = 2**31 - 1  # a length that nothing is cut to


@dataclass(frozen=True)
class Pattern:
    """`It was [MASK]. {text}` in pieces: what stands as it is, and names in braces for the rest."""

    pieces: tuple[str, ...]
    names: tuple[str, ...]  # "" for what stands as it is, "blank", "text", "text_b"

    @classmethod
    def of(cls, written: str) -> Pattern:
        blanks = BLANK.findall(written)
        if len(blanks) != 1:
            said = "no blank" if not blanks else f"{len(blanks)} blanks"
            raise ConfigError(
                f"task.pattern {written!r} has {said}",
                'it has one, such as "It was [MASK]. {text}"; words of several tokens take as many masks by themselves',
            )
        for name in PLACE.findall(written):
            if name not in PLACES:
                way_out = nearest(name, PLACES) or "{text} and, of pairs, {text_b} are known"
                raise ConfigError(f"task.pattern has {{{name}}}", way_out)
        pieces, names = [], []
        for part in re.split(rf"({BLANK.pattern}|{PLACE.pattern})", written):
            if part is None or part in PLACES:  # what the inner group found is there once more
                continue
            names.append("blank" if BLANK.fullmatch(part) else part[1:-1] if PLACE.fullmatch(part) else "")
            pieces.append(part if not names[-1] else "")
        if names.count("text") != 1 or names.count("text_b") > 1:
            raise ConfigError(f"task.pattern {written!r} has {names.count('text')} times {{text}}", "it has it once")
        return cls(tuple(pieces), tuple(names))

    @property
    def pairs(self) -> bool:
        return "text_b" in self.names

    def filled(self, row: Text, blank: str) -> tuple[str, dict[str, tuple[int, int]]]:
        """The text that is read, and from where to where each name stands in it."""
        given = {"blank": blank, "text": row.text, "text_b": row.text_b or ""}
        said, spans = "", {}
        for piece, name in zip(self.pieces, self.names, strict=True):
            one = given[name] if name else piece
            if name:
                spans[name] = (len(said), len(said) + len(one))
            said += one
        return said, spans


def features_of(
    pattern: Pattern, rows: Sequence[Text], tokenizer: Tokenizer, masks: Sequence[int], length: int
) -> Features:
    """Each row as one feature for every number of masks in `masks`, side by side in a unit. per_token `blank` is the
    place in the blank, -100 elsewhere; per_feature `masks` how many there are.
    """
    mask = mask_of(tokenizer)
    filled = [pattern.filled(row, mask * number) for row in rows for number in masks]
    whole = encode(tokenizer, [said for said, _ in filled], WHOLE, aligned=True)
    keep = np.ones(len(whole.ids), bool)
    blank = np.full(len(whole.ids), IGNORED, np.int64)
    cut = 0
    for at, (_, spans) in enumerate(filled):
        place = whole.tokens_of(at)
        found = _blank(whole, place, spans["blank"], tokenizer.mask_id or 0)
        blank[place][found] = np.arange(len(found))
        gone = _gone(whole, place, spans, length)
        keep[place][gone] = False
        cut += len(gone) > 0
    sizes = np.add.reduceat(keep, whole.starts[:-1]) if len(whole) else np.zeros(0, np.int64)
    owners = np.repeat(np.arange(len(rows)), len(masks))
    made = Features(
        whole.ids[keep],
        None if whole.segments is None else whole.segments[keep],
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        owners,
        owners.copy(),
        cut=cut // max(len(masks), 1),
        pad_id=whole.pad_id,
    )
    return made.teaching(
        per_token={"blank": blank[keep]}, per_feature={"masks": np.tile(np.array(masks, np.int64), len(rows))}
    )


def mask_of(tokenizer: Tokenizer) -> str:
    if tokenizer.mask_token is None:
        raise ConfigError("the tokenizer has no mask token, so there are no blanks", "start with a masked-LM model")
    return tokenizer.mask_token


def _blank(whole: Features, place: slice, span: tuple[int, int], mask_id: int) -> NDArray[np.int64]:
    """Where the masks of the blank stand: some tokenizers count the space before a mask to it."""
    ends = cast(Offsets, whole.offsets)[place, 1]
    found: NDArray[np.int64] = np.flatnonzero((whole.ids[place] == mask_id) & (ends > span[0]) & (ends <= span[1]))
    return found


def _gone(whole: Features, place: slice, spans: dict[str, tuple[int, int]], length: int) -> NDArray[np.int64]:
    """The tokens that a feature is too long by: ends of texts, the longer first."""
    over = place.stop - place.start - length
    if over <= 0:
        return np.zeros(0, np.int64)
    inside = [_inside(whole, place, spans[name]) for name in PLACES if name in spans]
    first, second = inside[0], inside[1] if len(inside) > 1 else np.zeros(0, np.int64)
    room = len(first) + len(second) - over
    if room < 0:
        raise InputError(
            f"task.pattern takes {length - room} tokens itself, more than the {length} of a row",
            "a shorter pattern, or a larger batch.length",
        )
    kept = longest_first(len(first), len(second), room)
    return np.concatenate([first[kept[0] :], second[kept[1] :]])


def _inside(whole: Features, place: slice, span: tuple[int, int]) -> NDArray[np.int64]:
    """The tokens that hold nothing but a stretch of the text."""
    offsets, texts = cast(Offsets, whole.offsets)[place], cast("NDArray[np.int8]", whole.texts)[place]
    found: NDArray[np.int64] = np.flatnonzero(
        (texts >= 0) & (offsets[:, 0] >= span[0]) & (offsets[:, 1] <= span[1]) & (offsets[:, 1] > offsets[:, 0])
    )
    return found


# -- words -----------------------------------------------------------------------------------------------


def listed(table: Mapping[str, Any]) -> list[str]:
    """`label=word` of each word, or list of words, in a table of them by label."""
    return [f"{label}={word}" for label, some in table.items() for word in (some if isinstance(some, list) else [some])]


def words_of(written: Sequence[str]) -> list[tuple[str, str]]:
    """(label, word) of each `label=word`."""
    found = []
    for one in written:
        label, sign, word = one.partition("=")
        if not sign or not label.strip() or not word.strip():
            raise ConfigError(f"task.words has {one!r}", 'write "label=word", such as ["0=terrible", "1=great"]')
        found.append((label.strip(), word.strip()))
    return found


def tokens_of(pattern: Pattern, words: Sequence[tuple[str, str]], tokenizer: Tokenizer) -> list[tuple[int, ...]]:
    """The tokens of each word as they would stand in the blank."""
    found: dict[tuple[int, ...], str] = {}
    for label, word in words:
        ids = _word(pattern, word, tokenizer)
        said = f"task.words: the word {word!r} of the label {label!r}"
        if not ids or tokenizer.unk_id in ids:
            raise ConfigError(f"{said} is not in the model's vocabulary", "choose a word that the model knows")
        if ids in found:
            raise ConfigError(f"{said} is the same to the model as {found[ids]!r}", "every word stands for one label")
        found[ids] = word
    return list(found)


def _word(pattern: Pattern, word: str, tokenizer: Tokenizer) -> tuple[int, ...]:
    said, spans = pattern.filled(Text(file="", line=0, text="", text_b=""), word)
    one = tokenizer.encode(said, specials=False)
    first, last = spans["blank"]
    ids = [id for id, (start, end) in zip(one.ids, one.offsets, strict=True) if first < end <= last and start < last]
    begun = [start for (start, end) in one.offsets if first < end <= last]
    if ids and begun[0] >= first - 1 and not any(start < last < end for start, end in one.offsets):
        return tuple(ids)
    # It grows together with what stands beside it: as a word of its own.
    before = said[first - 1 : first] if first else ""
    return tuple(tokenizer.ids_of([(before if before.isspace() else "") + word])[0])
