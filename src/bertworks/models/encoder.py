"""The encoder and the model: embeddings, stack, pooler and heads, wired. Each family's file builds one of parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import cast

import torch
from torch import Tensor, nn

from bertworks.errors import ConfigError, nearest
from bertworks.heads.masked_lm import MaskedLM
from bertworks.layers import masks
from bertworks.layers.attention import WAYS, Attention, Packing, Sight
from bertworks.layers.embeddings import Embeddings
from bertworks.layers.stack import Stack

# (ids [batch, length], sequences the same or None) -> positions [batch or 1, length]
Numbering = Callable[[Tensor, Tensor | None], Tensor]


@dataclass(frozen=True)
class Output:
    """What a model returns.

    last [batch, length, width]; pooled [batch, width] where there is a pooler; hidden: embeddings and each
    layer's output; maps: each layer's attention [batch, heads, length, length]; scores by head (see `heads`).
    """

    last: Tensor
    pooled: Tensor | None = None
    hidden: tuple[Tensor, ...] = ()
    maps: tuple[Tensor, ...] = ()
    scores: Mapping[str, Tensor] = field(default_factory=dict)


class Encoder(nn.Module):
    """Embeddings, a stack of blocks, and (for some tasks) BERT's pooler."""

    def __init__(
        self, embeddings: Embeddings, stack: Stack, number: Numbering, pooler: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.embeddings, self.stack, self.pooler = embeddings, stack, pooler
        self.number = number

    def forward(
        self,
        ids: Tensor,
        segments: Tensor | None = None,
        real: Tensor | None = None,
        sequences: Tensor | None = None,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        hidden: bool = False,
        maps: bool = False,
        firsts: Tensor | None = None,
    ) -> Output:
        """All of [batch, length] unless said otherwise:

        ids        token ids
        segments   segment of each token; all 0 where not given
        real       booleans, False on padding; all real where not given
        sequences  number of the sequence within a packed row, 0 on padding; one sequence a row where not given
        positions  in place of the family's own numbering, which restarts in each sequence
        mask       a further restriction [batch or 1, heads or 1, queries or 1, keys], see `layers.masks`
        hidden     keep every layer's output; maps: keep the attention (takes the eager way)
        firsts     flat positions [n] into batch·length of the tokens that the pooler reads, where a row holds several
                   sequences; the first of each row where not given
        """
        if positions is None:
            positions = self.number(ids, sequences)
        x = self.embeddings(ids, segments, positions)
        sight = self._sight(real, sequences, mask, maps)
        done = self.stack(x, sight, positions, keep_hidden=hidden)
        read = done.last if firsts is None else done.last.flatten(0, 1)[firsts][:, None]
        pooled = None if self.pooler is None else self.pooler(read)
        return Output(done.last, pooled, done.hidden, done.maps)

    def _sight(self, real: Tensor | None, sequences: Tensor | None, mask: Tensor | None, maps: bool) -> Sight:
        """What attention may see, as the way in use wants it said."""
        real = None if real is None else real.bool()
        if self.way == "packed" and not maps and (sequences is not None or real is not None):
            if sequences is None:
                sequences = cast(Tensor, real).long()
            elif real is not None:
                sequences = sequences * real
            return Sight(mask=mask, packing=Packing.of(sequences))
        if real is not None and _all_true(real):
            real = None
        if sequences is not None:
            block = masks.block_diagonal(sequences)
            mask = block if mask is None else mask & block
        if real is not None:
            mask = masks.padding(real) if mask is None else mask & masks.padding(real)
        return Sight(mask=mask, maps=maps)

    @property
    def way(self) -> str:
        """The way attention runs: eager, fused or packed."""
        return self.stack.order()[0].attention.way

    @way.setter
    def way(self, way: str) -> None:
        if way not in WAYS:
            raise ConfigError(f"unknown way of attention {way!r}", nearest(way, WAYS) or f"known: {', '.join(WAYS)}")
        for part in self.modules():
            if isinstance(part, Attention):
                part.way = way


def wants_pooled(head: nn.Module) -> bool:
    """Whether a head reads the pooled vector; the others read every token's."""
    return getattr(head, "wants_pooled", False)


def _all_true(real: Tensor) -> bool:
    """Whether a padding mask masks nothing, where asking is cheap: not on a GPU, not while compiling."""
    return real.device.type == "cpu" and not torch.compiler.is_compiling() and bool(real.all())


class Model(nn.Module):
    """An encoder and its heads. `scores` of the output has an entry per head.

    Their names: masked_lm, next_sentence, sentence_order, classify, tag, answer, choose.
    """

    def __init__(self, encoder: Encoder, heads: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.encoder = encoder
        self.heads = nn.ModuleDict(dict(heads))

    def forward(
        self,
        ids: Tensor,
        segments: Tensor | None = None,
        real: Tensor | None = None,
        sequences: Tensor | None = None,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        hidden: bool = False,
        maps: bool = False,
        chosen: Tensor | None = None,
        firsts: Tensor | None = None,
    ) -> Output:
        """As `Encoder.forward`; ids may be [questions, choices, length] for multiple choice.

        chosen  flat positions [n] into batch·length: the vocabulary is scored at these alone, [n, vocabulary]
        """
        choices = ids.shape[1] if ids.ndim == 3 else None
        if choices is not None:
            ids = ids.flatten(0, 1)
            segments = None if segments is None else segments.flatten(0, 1)
            real = None if real is None else real.flatten(0, 1)
        encoded = self.encoder(ids, segments, real, sequences, positions, mask, hidden, maps, firsts)
        scores: dict[str, Tensor] = {}
        for name, head in self.heads.items():
            if isinstance(head, MaskedLM):
                x = encoded.last if chosen is None else encoded.last.flatten(0, 1)[chosen]
                scores[name] = head(x, self.encoder.embeddings.tokens.weight)
            elif getattr(head, "wants_real", False):
                inside = sequences > 0 if real is None and sequences is not None else real
                scores[name] = head(encoded.last, inside)
            else:
                scores[name] = head(encoded.pooled if wants_pooled(head) else encoded.last)
        if choices is not None and "choose" in scores:
            scores["choose"] = scores["choose"].view(-1, choices)
        return Output(encoded.last, encoded.pooled, encoded.hidden, encoded.maps, scores)
