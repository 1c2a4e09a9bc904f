"""Training examples as a person would want to see them: segments, what was chosen, what each became."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertworks.objectives.batches import Examples
from bertworks.objectives.pieces import NO_ANSWER, Pieces
from bertworks.text.tokenizer import Tokenizer
from bertworks.text.words import ONE_HAN

ELSEWHERE = "B is from elsewhere"
ANSWERS = {
    "next-sentence": ("B follows A", ELSEWHERE),
    "sentence-order": ("A and B in order", "A and B swapped"),
}
CLOSE = "“”‘’…—"  # stand without a space in Chinese, though they are not wide by Unicode's table


@dataclass(frozen=True)
class Stretch:
    """Tokens that belong together. `was` and `became` are texts, `ids` and `right` token ids."""

    kind: str  # special, plain, or what became of a chosen one: masked, replaced, kept
    was: str
    became: str
    right: list[int]
    ids: list[int]
    spaced: bool  # whether a space stands before it
    segment: int
    sequence: int


@dataclass(frozen=True)
class Shown:
    """One example: number in its epoch, the documents it is from, the pair tasks' answers, and its stretches."""

    number: int
    tokens: int
    chosen: int
    documents: list[str]
    answers: list[str]
    stretches: list[Stretch]


def shown(examples: Examples, epoch: int, numbers: list[int]) -> list[Shown]:
    """The wanted examples of an epoch."""
    wanted = np.array(numbers, np.int64)
    rows, chosen, ids = examples.made(epoch, wanted)
    pieces = examples.index(epoch)
    per_row = [len(np.unique(row[row > 0])) for row in rows.sequences]
    answers = np.split(rows.answers, np.cumsum(per_row)[:-1])
    found = []
    for at, number in enumerate(numbers):
        starts = pieces.start[pieces.rows[number] : pieces.rows[number + 1]]
        real = rows.sequences[at] > 0
        found.append(
            Shown(
                number,
                int(real.sum()),
                int(chosen[at].sum()),
                list(dict.fromkeys(examples.store.document_name(int(start)) for start in starts)),
                _answers(examples, pieces, number, answers[at]),
                _stretches(
                    examples.store.tokenizer,
                    rows.ids[at][real].tolist(),
                    ids[at][real].tolist(),
                    chosen[at][real].tolist(),
                    rows.own[at][real].tolist(),
                    rows.begins[at][real].tolist(),
                    rows.segments[at][real].tolist(),
                    rows.sequences[at][real].tolist(),
                ),
            )
        )
    return found


def _answers(examples: Examples, pieces: Pieces, number: int, answers: NDArray[np.uint8]) -> list[str]:
    """The pair task's answer of each sequence in a row.

    Where sentence order is asked of a chunk of one sentence, B is a stranger, as published: nothing was swapped.
    """
    told = ANSWERS.get(examples.objective.pair, ("", ""))
    here = slice(pieces.rows[number], pieces.rows[number + 1])
    sequences = np.cumsum(pieces.mark[here] & 1) - 1
    found = []
    for sequence, answer in enumerate(answers):
        if answer == NO_ANSWER:
            continue
        starts = pieces.start[here][sequences == sequence]
        apart = len({examples.store.document_name(int(start)) for start in starts}) > 1
        found.append(ELSEWHERE if apart else told[int(answer)])
    return found


def _stretches(
    tokenizer: Tokenizer,
    right: list[int],
    ids: list[int],
    chosen: list[bool],
    own: list[bool],
    begins: list[bool],
    segments: list[int],
    sequences: list[int],
) -> list[Stretch]:
    """Neighbours of one kind are one stretch; a chosen word stays apart from the next."""
    kinds = [_kind(tokenizer, *one) for one in zip(right, ids, chosen, own, strict=True)]
    spelling = Spelling(tokenizer)
    made: list[Stretch] = []
    first = 0
    for at in range(1, len(right) + 1):
        if at < len(right) and kinds[at] == kinds[first] != "special" and sequences[at] == sequences[first]:
            fresh_word = begins[at] and kinds[at] != "plain"
            if segments[at] == segments[first] and not fresh_word:
                continue
        made.append(
            Stretch(
                kinds[first],
                spelling.text(right[first:at]),
                spelling.text(ids[first:at]),
                right[first:at],
                ids[first:at],
                spelling.spaced(right[first]),
                segments[first],
                sequences[first],
            )
        )
        first = at
    return made


def _kind(tokenizer: Tokenizer, right: int, now: int, chosen: bool, own: bool) -> str:
    if not own:
        return "special"
    if not chosen:
        return "plain"
    if now == right:
        return "kept"
    return "masked" if now == tokenizer.mask_id else "replaced"


class Spelling:
    """Tokens as text: the library's decoder sets Chinese characters apart and hides where a space stood."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def spaced(self, token: int) -> bool:
        """Whether a space stands before a token."""
        text = self.tokenizer.tokens[token]
        if token in self.tokenizer.special_ids:
            return False
        if self.tokenizer.kind == "wordpiece":
            return not text.startswith("##") and not ONE_HAN.match(text) and not _close(text[:1])
        return text.startswith(("Ġ", "▁"))

    def text(self, ids: list[int]) -> str:
        if self.tokenizer.kind != "wordpiece":
            return self.tokenizer.decode(ids, skip_specials=False).strip()
        parts = [(self.spaced(one), self.tokenizer.tokens[one].removeprefix("##")) for one in ids]
        return "".join((" " if spaced and at else "") + text for at, (spaced, text) in enumerate(parts))


def _close(char: str) -> bool:
    """Whether a sign is one of Chinese text, where no space stands before it. Wide letters (Korean) may have one."""
    if not char or char in CLOSE:
        return bool(char)
    return unicodedata.east_asian_width(char) in "WF" and unicodedata.category(char)[0] in "PS"
