"""How weights are changed: one rule a file, over the long rows of `masters`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from bertworks.train.options import OptimizerOptions

from . import adamw, lamb, muon
from .row import Row


@dataclass(frozen=True)
class Rule:
    """keeps: names of the tensors it remembers of a row, each of the row's length. change: moves row.master, from
    row.sums, by the row's own learning rate at the nth step; the sums may be used up.
    """

    keeps: tuple[str, ...]
    change: Callable[[Row, float, int, OptimizerOptions], None]


RULES = {
    "adamw": Rule(("first", "second"), adamw.adamw),
    "stable-adamw": Rule(("first", "second"), adamw.stable_adamw),
    "lamb": Rule(("first", "second"), lamb.lamb),
    "muon": Rule(("momentum",), muon.muon),
}


def rules_of(module: nn.Module, optimizer: str) -> dict[str, str]:
    """Each weight's rule by its name. Muon is for matrices between hidden vectors: embeddings, the vocabulary, what
    gives out scores, biases and norms are AdamW's, as published.
    """
    rules = {name: "adamw" if optimizer == "muon" else optimizer for name, _ in module.named_parameters()}
    if optimizer == "muon":
        for name, part in module.named_modules():
            if isinstance(part, nn.Linear) and not name.endswith(".scores"):
                rules[f"{name}.weight"] = "muon"
    return rules


__all__ = ["RULES", "Row", "Rule", "rules_of"]
