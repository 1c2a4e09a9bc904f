"""Weights as the optimiser sees them: long fp32 rows, one for each group that is changed alike.

Where a module computes in bf16, its weights are views into bf16 rows that are made anew from the fp32 masters after
each step, and its gradients are added to fp32 rows after each microbatch. A step is then a few passes over long arrays,
however many tensors the module has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bertworks.errors import ConfigError, nearest

from .options import OptimizerOptions
from .ranks import Ranks
from .rules import RULES, Row, rules_of
from .rules.row import parts
from .sharding import local, shared_as, whole

LAYER = re.compile(r"encoder\.stack\.blocks\.(\d+)\.")


class Group(NamedTuple):
    """What weights of one row have in common."""

    rule: str
    matrices: bool
    decay: float
    scale: float


class Masters:
    """All weights of a module that are trained."""

    def __init__(
        self,
        module: nn.Module,
        options: OptimizerOptions,
        dtype: torch.dtype,
        average: float = 0.0,
        ranks: Ranks | None = None,
        sharded: bool = False,
    ) -> None:
        self.options, self.average, self.ranks, self.sharded = options, average, ranks or Ranks(), sharded
        self.steps = 0
        self._fresh = True  # no gradient has been gathered for the step to come
        _freeze(module, options.freeze)
        self.module = module
        trained = [(name, weight) for name, weight in module.named_parameters() if weight.requires_grad]
        layers = 1 + max((int(found[1]) for name, _ in trained if (found := LAYER.match(name))), default=-1)
        rules = rules_of(module, options.name)
        groups: dict[Group, list[tuple[str, nn.Parameter]]] = {}
        for name, weight in trained:
            matrix = weight.ndim > 1
            decay = options.weight_decay if matrix else 0.0  # none on biases and norms, as published
            group = Group(rules[name], matrix, decay, _scale(name, layers, options.layer_decay))
            groups.setdefault(group, []).append((name, weight))
        if sharded:
            if "muon" in rules.values():
                raise ConfigError(
                    'optimizer.name = "muon" needs whole matrices', 'set run.parallel="ddp", or another optimizer'
                )
            total = self.ranks.total
            self.rows = [_shared_row(members, group, average, total) for group, members in groups.items()]
            return
        self.rows = [_row(members, group, dtype, average) for group, members in groups.items()]
        for weight in module.parameters():
            if not weight.requires_grad:
                weight.data = weight.data.to(dtype)

    @torch.no_grad()
    def gather(self) -> None:
        """Add what a backward pass has left to the sums. The first one of a step overwrites them."""
        for row in self.rows:
            for weight, sums in zip(row.members, parts(row, row.sums), strict=True):
                if weight.grad is None:
                    sums.mul_(0.0 if self._fresh else 1.0)
                elif self._fresh:
                    sums.copy_(local(weight.grad).flatten())
                else:
                    sums.add_(local(weight.grad).flatten())
                weight.grad = None
        self._fresh = False

    def total(self, scale: float = 1.0) -> None:
        """Make the sums those of all ranks, and undo what the loss was scaled by."""
        if self._fresh:  # this rank had no row of the batch
            self.gather()
        for row in self.rows:
            if not self.sharded:  # there they are added up on the way
                self.ranks.total(row.sums)
            if scale != 1:
                row.sums.div_(scale)

    def norm(self) -> float:
        """Of all gradients together."""
        norms = torch.stack([torch.linalg.vector_norm(row.sums) for row in self.rows])
        if not self.sharded:
            return float(torch.linalg.vector_norm(norms))
        squares = norms.square().sum()
        self.ranks.total(squares)
        return float(squares.sqrt())

    def drop(self) -> None:
        """Forget the gradients."""
        self._fresh = True
        for row in self.rows:
            for weight in row.members:
                weight.grad = None

    @torch.no_grad()
    def step(self, lr: float, norm: float) -> None:
        """By each row's rule, with the gradients clipped to the largest norm that is allowed."""
        clip = self.options.clip
        if clip and norm > clip:
            for row in self.rows:
                row.sums.mul_(clip / norm)
        self.steps += 1
        for row in self.rows:
            RULES[row.rule].change(row, lr * row.scale, self.steps, self.options)
            if row.average is not None:
                row.average.lerp_(row.master, 1 - self.average)
        self._spread()
        self.drop()

    def _spread(self) -> None:
        """Have the module compute with what the masters are now."""
        for row in self.rows:
            if row.weights is not row.master:
                row.weights.copy_(row.master)
            if self.sharded:
                for weight, numbers in zip(row.members, parts(row, row.master), strict=True):
                    local(weight).copy_(numbers.view(local(weight).shape))

    def state(self) -> dict[str, Tensor]:
        """Copies of all that a resume needs, by what it is and the weight's name; of this rank's shares, if so held."""
        found: dict[str, Tensor] = {}
        for row in self.rows:
            for kind, numbers in row.remembered.items():
                copy = numbers.detach().to("cpu", copy=True) if not self.sharded else numbers.detach().clone()
                found |= {f"{kind}.{name}": part for name, part in _apart(row, copy)}
        return found

    @torch.no_grad()
    def restore(self, state: dict[str, Tensor], steps: int) -> None:
        self.steps = steps
        for row in self.rows:
            for kind, numbers in row.remembered.items():
                # A run that begins to average does so from where its weights are.
                kind = kind if f"{kind}.{row.names[0]}" in state or kind != "average" else "master"
                for name, part in zip(row.names, parts(row, numbers), strict=True):
                    part.copy_(local(state[f"{kind}.{name}"]).flatten())
        self._spread()
        self.drop()

    @torch.no_grad()
    def whole(self) -> dict[str, Tensor]:
        """All weights that are trained, in fp32, put together from the ranks' shares; averaged where there are such."""
        found: dict[str, Tensor] = {}
        for row in self.rows:
            kept = row.master if row.average is None else row.average
            found |= {name: whole(part).clone() for name, part in _apart(row, kept)}
        return found

    def layout(self) -> list[list[str]]:
        """Each row's rule, and which weights lie in it, in their order."""
        return [[row.rule, *row.names] for row in self.rows]

    @torch.no_grad()
    def hand_back(self) -> None:
        """Leave the module with fp32 weights of its own: the averaged ones where there are such."""
        weights = dict(self.module.named_parameters())
        for name, numbers in self.whole().items():
            weights[name].data = numbers
            weights[name].grad = None
        self.module.float()


def _row(members: list[tuple[str, nn.Parameter]], group: Group, dtype: torch.dtype, average: float) -> Row:
    if group.rule == "muon":
        members = sorted(members, key=lambda one: one[1].shape)  # equal shapes side by side make one stack of matrices
    master = torch.cat([weight.detach().flatten().float() for _, weight in members])
    sums = torch.zeros_like(master)
    apart = dtype != torch.float32
    weights = master.to(dtype) if apart else master
    row = Row(
        [name for name, _ in members],
        [weight.shape for _, weight in members],
        *group,
        master,
        sums,
        weights,
        [weight for _, weight in members],
        master.clone() if average else None,
        {name: torch.zeros_like(master) for name in RULES[group.rule].keeps},
    )
    for (_, weight), shape, own in zip(members, row.shapes, parts(row, row.weights), strict=True):
        weight.data = own.view(shape)
    return row


def _apart(row: Row, numbers: Tensor) -> Iterator[tuple[str, Tensor]]:
    """[numbers] of a row as its weights' own, by name; where ranks hold shares, as shares of the whole."""
    for at, (name, shape, part) in enumerate(zip(row.names, row.shapes, parts(row, numbers), strict=True)):
        yield name, shared_as(row.members[at].detach(), part.view(shape))


def _shared_row(
    members: list[tuple[str, nn.Parameter]], group: Group, average: float, total: Callable[[Tensor], None]
) -> Row:
    """Over this rank's shares of the weights, which stay where they are and are written anew after each step."""
    shares = [local(weight.detach()) for _, weight in members]
    master = torch.cat([share.flatten().float() for share in shares])
    return Row(
        [name for name, _ in members],
        [share.shape for share in shares],
        *group,
        master,
        torch.zeros_like(master),
        master,
        [weight for _, weight in members],
        master.clone() if average else None,
        {name: torch.zeros_like(master) for name in RULES[group.rule].keeps},
        [weight.numel() for _, weight in members],
        total,
    )


def _scale(name: str, layers: int, decay: float) -> float:
    """The share of the learning rate: the embeddings' least, each layer's more, the heads' all of it."""
    found = LAYER.match(name)
    if found:
        return decay ** (layers - int(found[1]))
    return decay ** (layers + 1) if name.startswith("encoder.embeddings.") else 1.0


def _freeze(module: nn.Module, parts: Iterable[str]) -> None:
    names = [name for name, _ in module.named_modules() if name]
    for part in parts:
        found = [name for name in names if name in (part, f"encoder.{part}", f"encoder.stack.{part}")]
        if not found:
            raise ConfigError(f"optimizer.freeze names {part!r}, which the model has not", nearest(part, names))
        module.get_submodule(found[0]).requires_grad_(False)
