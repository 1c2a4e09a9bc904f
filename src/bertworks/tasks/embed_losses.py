"""What makes vectors of texts that belong together alike: contrastive, CoSENT, and the squared error of cosines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertworks.errors import ConfigError
from bertworks.heads.pool import pool
from bertworks.train.contract import Losses

from .batches import FeatureBatch, inputs
from .losses import counted

ANCHOR, POSITIVE = 0, 1  # roles; from 2 on negatives
ROLE, TEXT, SCORE = 0, 1, 2  # columns of marks


@dataclass(frozen=True)
class Whole:
    """All texts of a global batch: vectors of one size, and who is who.

    anchors, positives [pairs, size]; negatives [any number, size]; the same with _texts: [.] numbers that texts have in
    common where they say the same; scores [pairs]
    """

    anchors: Tensor
    positives: Tensor
    negatives: Tensor
    anchor_texts: Tensor
    positive_texts: Tensor
    negative_texts: Tensor
    scores: Tensor

    @classmethod
    def of(cls, vectors: Tensor, marks: Tensor) -> Whole:
        """vectors [texts, size], marks [texts, 3]: role, text and score of each."""
        roles, texts, unit = marks[:, ROLE], marks[:, TEXT], functional.normalize(vectors, dim=-1)
        one, two, more = roles == ANCHOR, roles == POSITIVE, roles > POSITIVE
        return cls(
            unit[one], unit[two], unit[more], texts[one], texts[two], texts[more], marks[one, SCORE].to(unit.dtype)
        )


def contrastive(whole: Whole, scale: float, symmetric: bool) -> tuple[Tensor, Tensor]:
    """Of all positives and negatives of the batch, each anchor's own one; `symmetric`: and of all anchors, each
    positive's own. The loss, and how many anchors are nearest to their own.

    What is no negative does not count as one: a text that says the same as the anchor or its positive, and what is a
    positive of the same anchor elsewhere in the batch; and what is there several times counts once.
    """
    offered, texts = (
        torch.cat([whole.positives, whole.negatives]),
        torch.cat([whole.positive_texts, whole.negative_texts]),
    )
    alike = whole.anchors @ offered.T * scale
    pairs = len(whole.anchors)
    same_anchor = _same(whole.anchor_texts, whole.anchor_texts)
    same_positive = _same(whole.positive_texts, whole.positive_texts)
    out = _same(whole.anchor_texts, texts) | _same(whole.positive_texts, texts) | _again(texts)
    out[:, :pairs] |= same_anchor
    own = torch.arange(pairs, device=alike.device)
    out[own, own] = False
    held = alike.masked_fill(out, float("-inf"))
    loss = functional.cross_entropy(held, own)
    if symmetric:
        back = same_positive | same_anchor | _same(whole.positive_texts, whole.anchor_texts)
        back |= _again(whole.anchor_texts)
        back[own, own] = False
        loss = (loss + functional.cross_entropy(alike[:, :pairs].T.masked_fill(back, float("-inf")), own)) / 2
    return loss, (held.argmax(1) == own).sum()


def _same(one: Tensor, other: Tensor) -> Tensor:
    return one[:, None] == other[None, :]


def _again(texts: Tensor) -> Tensor:
    """Which are there before."""
    return _same(texts, texts).tril(-1).any(1)


def cosent(whole: Whole, scale: float) -> Tensor:
    """Of every two pairs, the one with the higher score is to have the higher cosine (Su 2022)."""
    cosines = (whole.anchors * whole.positives).sum(-1) * scale
    wrong = cosines[:, None] - cosines[None, :]  # how much more alike a pair is than another, of a higher score
    wrong = wrong[whole.scores[:, None] < whole.scores[None, :]]
    return torch.cat([wrong.new_zeros(1), wrong]).logsumexp(0)


def cosine(whole: Whole) -> Tensor:
    """The squared error of cosines against scores."""
    return functional.mse_loss((whole.anchors * whole.positives).sum(-1), whole.scores)


class EmbedLoss:
    """The loss of a whole global batch; see train/comparing for how it comes in microbatches. With several sizes it is
    the sum of the losses of vectors cut to each (Kusupati et al. 2022).
    """

    def __init__(self, kind: str, scale: float, symmetric: bool, sizes: tuple[int, ...], pooling: str) -> None:
        self.kind, self.scale, self.symmetric, self.sizes, self.pooling = kind, scale, symmetric, sizes, pooling

    def counts(self, batch: FeatureBatch) -> dict[str, int]:
        return counted(batch)

    def vectors(self, module: nn.Module, batch: FeatureBatch) -> Tensor:
        return embedded(module, batch, self.pooling)

    def marks(self, batch: FeatureBatch) -> Tensor:
        return torch.from_numpy(batch.per_feature["marks"])

    def __call__(self, module: nn.Module, batch: FeatureBatch, counts: Mapping[str, int], accuracy: bool) -> Losses:
        del counts  # the batch is the whole one
        vectors = self.vectors(module, batch)
        return self.compared(vectors, self.marks(batch).to(vectors.device), accuracy)

    def compared(self, vectors: Tensor, marks: Tensor, accuracy: bool) -> Losses:
        facts: dict[str, float] = {}
        losses = []
        for size in all_sizes(self.sizes, vectors.shape[1]):
            whole = Whole.of(vectors[:, :size], marks)
            if self.kind == "contrastive":
                loss, right = contrastive(whole, self.scale, self.symmetric)
                if accuracy:
                    facts["accuracy"] = float(right) / len(whole.anchors)
            else:
                loss = cosent(whole, self.scale) if self.kind != "cosine" else cosine(whole)
                loss = loss + cosine(whole) if self.kind == "both" else loss
            losses.append(loss)
        total = torch.stack(losses).sum()
        return Losses(total, {"loss": float(total.detach()), **facts})


def all_sizes(sizes: tuple[int, ...], width: int) -> list[int]:
    """The sizes that vectors are cut to, the whole width always among them, and last."""
    if sizes and max(sizes) > width:
        raise ConfigError(f"task.sizes has {max(sizes)}, the model's vectors are of {width}", "leave it out")
    return sorted({*sizes, width})


def embedded(module: nn.Module, batch: FeatureBatch, pooling: str) -> Tensor:
    """[rows, width] in fp32: one vector a text, not normalised."""
    given = inputs(module, batch)
    return pool(module(**given).last, given["real"], pooling)
