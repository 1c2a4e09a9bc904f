"""Layers compiled by torch.compile, one after the other: those that are alike share what is made, so it starts sooner
than a whole model. What is made is kept in PyTorch's own cache between runs.
"""

from __future__ import annotations

import shutil
from importlib.util import find_spec

import torch
from torch import nn

from bertworks.errors import ConfigError
from bertworks.layers.dropout import give_source

LARGE = 50_000_000  # weights
COMPILERS = ("g++", "clang++", "c++")


def compile_layers(module: nn.Module, wanted: str, device: torch.device) -> bool:
    """Whether the members of the module's lists (its layers) are compiled; `wanted` as run.compile says it.

    auto compiles large models on a GPU, where it gains 5 % (see bench/LOG.md); small ones wait for the CPU there. On a
    CPU plain layers with their own dropout take 60 % of the time of compiled ones.
    """
    missing = _missing(device)
    if wanted == "on" and missing:
        raise ConfigError(f'run.compile = "on" needs {missing}, which is not here', "install it, or leave it to auto")
    small = sum(weight.numel() for weight in module.parameters()) < LARGE
    if wanted == "off" or missing or (wanted == "auto" and (device.type == "cpu" or small)):
        return False
    give_source(module, None)  # its bits come from NumPy, which no compiler sees through
    for part in module.modules():
        if isinstance(part, nn.ModuleList):
            for member in part:
                member.compile(dynamic=False)
    return True


def _missing(device: torch.device) -> str:
    if device.type == "cpu":
        return "" if any(shutil.which(one) for one in COMPILERS) else "a C++ compiler"
    return "" if find_spec("triton") else "Triton"
