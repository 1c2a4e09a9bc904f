"""Training examples as a person would want to see them: segments, what was chosen, what each became."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bertworks.objectives.batches import Examples
from bertworks.objectives.pieces import NO_ANSWER
from bertworks.text.tokenizer import Tokenizer
from bertworks.text.words import ONE_HAN

ANSWERS = {
    "next-sentence": ("B follows A", "B is from elsewhere"),
    "sentence-order": ("A and B in order", "A and B swapped"),
}


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
    told = ANSWERS.get(examples.objective.pair, ("", ""))
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
                [told[int(one)] for one in answers[at] if one != NO_ANSWER],
                _stretches(
                    examples.store.tokenizer,
                    rows.ids[at][real].tolist(),
                    ids[at][real].tolist(),
                    chosen[at][real].tolist(),
                    rows.own[at][real].tolist(),
                    rows.segments[at][real].tolist(),
                    rows.sequences[at][real].tolist(),
                ),
            )
        )
    return found


def _stretches(
    tokenizer: Tokenizer,
    right: list[int],
    ids: list[int],
    chosen: list[bool],
    own: list[bool],
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
            fresh_word = spelling.spaced(right[at]) and kinds[at] != "plain"
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
            return not text.startswith("##") and not ONE_HAN.match(text)
        return text.startswith(("Ġ", "▁"))

    def text(self, ids: list[int]) -> str:
        if self.tokenizer.kind != "wordpiece":
            return self.tokenizer.decode(ids, skip_specials=False).strip()
        parts = [(self.spaced(one), self.tokenizer.tokens[one].removeprefix("##")) for one in ids]
        return "".join((" " if spaced and at else "") + text for at, (spaced, text) in enumerate(parts))
