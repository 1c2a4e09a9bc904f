"""Weights as the optimiser sees them: long fp32 rows, one for each group that is changed alike.

Where a module computes in bf16, its weights are views into bf16 rows that are made anew from the fp32 masters after
each step, and its gradients land in bf16 rows that are added to fp32 ones after each microbatch. A step is then a few
passes over long arrays, however many tensors the module has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bertworks.errors import ConfigError, nearest

from .options import OptimizerOptions
from .rules import RULES, Row, rules_of
from .rules.row import parts

LAYER = re.compile(r"encoder\.stack\.blocks\.(\d+)\.")


class Group(NamedTuple):
    """What weights of one row have in common."""

    rule: str
    matrices: bool
    decay: float
    scale: float


class Masters:
    """All weights of a module that are trained."""

    def __init__(self, module: nn.Module, options: OptimizerOptions, dtype: torch.dtype, average: float = 0.0) -> None:
        self.options, self.average = options, average
        self.steps = 0
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
        self.rows = [_row(members, group, dtype, average) for group, members in groups.items()]
        for weight in module.parameters():
            if not weight.requires_grad:
                weight.data = weight.data.to(dtype)

    def gather(self) -> None:
        """Add what a backward pass has left to the sums."""
        for row in self.rows:
            if row.sums is not row.grads:
                row.sums.add_(row.grads)
                row.grads.zero_()

    def norm(self) -> float:
        """Of all gradients together."""
        norms = [torch.linalg.vector_norm(row.sums) for row in self.rows]
        return float(torch.linalg.vector_norm(torch.stack(norms)))

    def drop(self) -> None:
        """Forget the gradients."""
        for row in self.rows:
            row.sums.zero_()
            row.grads.zero_()

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
            if row.weights is not row.master:
                row.weights.copy_(row.master)
            if row.average is not None:
                row.average.lerp_(row.master, 1 - self.average)
        self.drop()

    def state(self) -> dict[str, Tensor]:
        """Copies of all that a resume needs, by name."""
        found: dict[str, Tensor] = {}
        for at, row in enumerate(self.rows):
            found |= {f"{name}.{at}": tensor for name, tensor in ({"master": row.master} | row.kept).items()}
            if row.average is not None:
                found[f"average.{at}"] = row.average
        return {name: tensor.detach().cpu().clone() for name, tensor in found.items()}

    @torch.no_grad()
    def restore(self, state: dict[str, Tensor], steps: int) -> None:
        self.steps = steps
        for at, row in enumerate(self.rows):
            for name, tensor in ({"master": row.master} | row.kept).items():
                tensor.copy_(state[f"{name}.{at}"])
            if row.average is not None:
                row.average.copy_(state.get(f"average.{at}", row.master))
            if row.weights is not row.master:
                row.weights.copy_(row.master)
        self.drop()

    def layout(self) -> list[list[str]]:
        """Each row's rule, and which weights lie in it, in their order."""
        return [[row.rule, *row.names] for row in self.rows]

    @torch.no_grad()
    def hand_back(self) -> None:
        """Leave the module with fp32 weights of its own: the averaged ones where there are such."""
        weights = dict(self.module.named_parameters())
        for row in self.rows:
            whole = row.master if row.average is None else row.average
            for name, shape, numbers in zip(row.names, row.shapes, parts(row, whole), strict=True):
                weights[name].data = numbers.view(shape).clone()
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
        torch.zeros_like(weights) if apart else sums,
        master.clone() if average else None,
        {name: torch.zeros_like(master) for name in RULES[group.rule].keeps},
    )
    for (_, weight), shape, own, gradient in zip(
        members, row.shapes, parts(row, row.weights), parts(row, row.grads), strict=True
    ):
        weight.data, weight.grad = own.view(shape), gradient.view(shape)
    return row


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
