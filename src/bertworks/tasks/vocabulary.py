"""A trained model under another vocabulary: each new token's rows made of those of its old pieces.

A token that the old vocabulary has too keeps its vector. Another one gets the mean of the vectors of the tokens that
the old tokenizer cuts its text into, which is about what the model read there before; so training goes on from close
to where it was. What the old tokenizer cannot cut is drawn as its own tokens lie.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn import functional

from bertworks.errors import ConfigError
from bertworks.layers.init import Unfilled
from bertworks.models.config import EncoderConfig
from bertworks.models.encoder import Model
from bertworks.models.folder import Description
from bertworks.text.tokenizer import Tokenizer
from bertworks.text.words import from_bytes

ROLES = ("pad", "unk", "cls", "sep", "mask")
SPACES = "Ġ▁"  # how byte-level BPE and Unigram write the space before a word
RARE = 0.01  # the share of tokens that are rarer than what nothing is known of; the very least may lie far out
BYTES = "\0"  # what stands before bytes that are no character
CARRIER = "a"  # a word that a continuation is hung on to be cut as one

# Ids of special tokens that config.json may name, by the role that they have.
ROLE_OF_KEY = {
    "bos_token_id": "cls",
    "eos_token_id": "sep",
    "cls_token_id": "cls",
    "sep_token_id": "sep",
    "mask_token_id": "mask",
}


@dataclass(frozen=True)
class Origins:
    """pieces: for each token of the new vocabulary the old ids that it is made of; none where it is drawn.
    ordinary: the old ids that are not special.
    """

    pieces: list[list[int]]
    ordinary: list[int]

    def counts(self) -> tuple[int, int, int]:
        """How many rows are one old token's, made of several, drawn."""
        sizes = [len(one) for one in self.pieces]
        copied, drawn = sizes.count(1), sizes.count(0)
        return copied, len(sizes) - copied - drawn, drawn

    def vectors(self, old: Tensor, generator: Generator) -> Tensor:
        """old [old vocabulary, size] -> [new vocabulary, size]: means; what is drawn lies as the ordinary ones do."""
        flat, starts, drawn = self._flat()
        made = functional.embedding_bag(flat, old, starts, mode="mean")
        known = old[self.ordinary]
        noise = torch.randn(len(drawn), old.shape[1], generator=generator)
        made[drawn] = known.mean(0) + known.std(0, correction=0) * noise
        return made

    def biases(self, old: Tensor) -> Tensor:
        """old [old vocabulary] -> [new vocabulary]: the least of the pieces'; a rare token's where there are none.

        A decoder's bias goes with how frequent a token is, and a word is no more frequent than its rarest piece. With
        the mean, thousands of new words would take chances from the old ones before anything was learnt of them.
        """
        rare = old[self.ordinary].quantile(RARE)
        return torch.stack([old[one].min() if one else rare for one in self.pieces])

    def _flat(self) -> tuple[Tensor, Tensor, Tensor]:
        sizes = torch.tensor([len(one) for one in self.pieces])
        flat = torch.tensor([at for one in self.pieces for at in one], dtype=torch.long)
        return flat, sizes.cumsum(0) - sizes, (sizes == 0).nonzero()[:, 0]


def origins(old: Tokenizer, new: Tokenizer) -> Origins:
    """Where the rows of a new vocabulary come from: by role, by their text, by its pieces."""
    special = _specials(old, new)
    known = {_surface(old.kind, text): at for at, text in enumerate(old.tokens) if text and at not in old.special_ids}
    cut, own = _Cutter(old), _Cutter(new)
    pieces = []
    for at, token in enumerate(new.tokens):
        if at in special or at in new.special_ids or not token:
            pieces.append([special[at]] if at in special else [])
            continue
        text, begins = _surface(new.kind, token)
        if begins and own.unmarked and not cut.unmarked and own.apart(text):
            begins = False  # a sign or a Chinese character, before which there need not be a space
        found = known.get((text, begins))
        pieces.append([found] if found is not None else cut(text, begins))
    return Origins(pieces, sorted(known.values()))


def _specials(old: Tokenizer, new: Tokenizer) -> dict[int, int]:
    """New id → old id: [MASK] is <mask>; others that bear one name."""
    named = {new.tokens[at]: at for at in new.special_ids}
    theirs = {old.tokens[at]: at for at in old.special_ids}
    found = {named[text]: theirs[text] for text in named.keys() & theirs.keys()}
    for role in ROLES:
        ours, before = getattr(new, f"{role}_id"), getattr(old, f"{role}_id")
        if ours is not None and before is not None:
            found[ours] = before
    return found


def _surface(kind: str, token: str) -> tuple[str, bool]:
    """The text that a token stands for, and whether a word begins with it. A part of a character stays its bytes."""
    if kind == "wordpiece":
        inner = len(token) > 2 and token.startswith("##")
        return (token[2:], False) if inner else (token, True)
    if kind == "byte-bpe":
        begins = token.startswith("Ġ")
        bare = token.removeprefix("Ġ")
        return (from_bytes(bare) or (f"{BYTES}{bare}" if bare else ""), begins)
    return (token.removeprefix("▁"), token.startswith("▁")) if kind == "unigram" else (token, True)


class _Cutter:
    """Cuts a token's text as a tokenizer would where it stands in a text, special tokens and unknown parts left out."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        library = tokenizer.library
        self.normalizer, self.splitter, self.model = library.normalizer, library.pre_tokenizer, library.model
        self.unknown = tokenizer.unk_id
        self.bytewise = tokenizer.kind == "byte-bpe"
        self.unmarked = tokenizer.kind == "wordpiece"  # spaces leave no trace in it
        self.continued: dict[str, int] = {}
        if self.unmarked:
            self.continued = {text[2:]: at for at, text in enumerate(tokenizer.tokens) if text.startswith("##")}

    def __call__(self, text: str, begins: bool) -> list[int]:
        if text.startswith(BYTES):
            return self._word("Ġ" * begins + text[1:]) if self.bytewise else []
        words = self._split(f"{CARRIER} {text}" if begins else CARRIER + text)
        if not words:
            return []
        pieces = self._continuation(words[0]) if words[0] else []
        return pieces + [at for word in words[1:] for at in self._word(word)]

    def apart(self, text: str) -> bool:
        """Whether it is a word of its own even where no space stands before it."""
        return self._split(CARRIER + text)[:1] == [""]

    def _split(self, whole: str) -> list[str]:
        """A carrier and a text in words, the first without the carrier; none where the text changes the carrier.

        Behind it shows by itself what the tokenizer sets apart: signs and Chinese characters in WordPiece.
        """
        if self.normalizer is not None:
            whole = self.normalizer.normalize_str(whole)
        words = [word for word, _ in self.splitter.pre_tokenize_str(whole)] if self.splitter else [whole]
        first = words[0].lstrip(SPACES) if words else ""
        return [first.removeprefix(CARRIER), *words[1:]] if first.startswith(CARRIER) else []

    def _word(self, word: str) -> list[int]:
        return [piece.id for piece in self.model.tokenize(word) if piece.id != self.unknown]

    def _continuation(self, rest: str) -> list[int]:
        """WordPiece's longest match first, from within a word; the other models know no difference."""
        pieces, at = [], 0
        while self.continued and at < len(rest):
            end = next((end for end in range(len(rest), at, -1) if rest[at:end] in self.continued), at)
            if end == at:
                return self._word(rest)
            pieces.append(self.continued[rest[at:end]])
            at = end
        return pieces or self._word(rest)


# -- models ----------------------------------------------------------------------------------------------


def fitted(config: EncoderConfig, vocab_size: int, pad_id: int | None) -> EncoderConfig:
    """The configuration for another vocabulary; as long a text goes in as before, however positions are counted."""
    changed = config.but(vocab_size=vocab_size, pad_id=pad_id, positions=config.positions + (pad_id or 0))
    return changed.but(positions=changed.positions + config.max_length - changed.max_length)


def with_vocabulary(
    model: Model, description: Description, old: Tokenizer, new: Tokenizer, generator: Generator
) -> tuple[Model, Description, tuple[int, int, int]]:
    """The model with rows for a new vocabulary; how many of them are one old token's, made of several, drawn."""
    before = description.config
    if old.vocab_size > before.vocab_size:
        raise ConfigError(
            f"the tokenizer has {old.vocab_size} tokens, the model {before.vocab_size}",
            "they do not belong together; restore the model's own tokenizer files",
        )
    found = origins(old, new)
    config = fitted(before, new.vocab_size, new.pad_id)
    weights = model.state_dict()
    for name, weight in weights.items():
        if name in ("encoder.embeddings.tokens.weight", "heads.masked_lm.decoder"):
            weights[name] = found.vectors(weight, generator)
        elif name == "heads.masked_lm.bias":
            weights[name] = found.biases(weight)
        elif name == "encoder.embeddings.positions.weight" and config.positions != before.positions:
            weights[name] = _moved(weight, before, config)
    made = rebuilt(model, replace(description, config=config), weights)
    return made, replace(description, config=config, file=_file(description.file, new)), found.counts()


def rebuilt(model: Model, description: Description, weights: Mapping[str, Tensor]) -> Model:
    """The same parts for another configuration."""
    with Unfilled():
        made = description.architecture.build(
            description.config, tuple(model.heads), model.encoder.pooler is not None, model.encoder.way
        )
    made.load_state_dict(dict(weights))
    return made.train(model.training)


def _moved(positions: Tensor, before: EncoderConfig, after: EncoderConfig) -> Tensor:
    """Position rows where they are counted from a padding id that has changed: RoBERTa's."""
    first, then = before.positions - before.max_length, after.positions - after.max_length
    rows = positions.new_zeros(after.positions, positions.shape[1])
    rows[then:] = positions[first:]
    return rows


def _file(file: Mapping[str, Any], new: Tokenizer) -> dict[str, Any]:
    """config.json's own ids of special tokens, where it has such."""
    ids = {key: getattr(new, f"{role}_id") for key, role in ROLE_OF_KEY.items()}
    return {key: ids[key] if value is not None and key in ids else value for key, value in file.items()}
