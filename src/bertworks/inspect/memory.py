"""The memory that a pre-training takes at its peak, reckoned part by part.

The peak stands where the backward pass begins: everything the layers keep is there, and the scores over the vocabulary
with their gradient; or, in a model that is large beside its batch, where it ends and all gradients are there. On a CPU
attention's maps are kept, up to the length where PyTorch's kernel takes over; on a GPU they never exist whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from bertworks.layers.attention import BATCHED
from bertworks.models.config import EncoderConfig

from .costs import saved_per_token
from .parameters import embedding_size, gated, steps

# Python with PyTorch and what else the program loads, measured; on a GPU CUDA's own share of the device's memory.
PROGRAM = {"cpu": 345 * 2**20, "gpu": 600 * 2**20}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SCORES = 2  # a score and its gradient
# glibc gives back to the system what was asked for in blocks from this size on. Smaller ones stay with the process
# when they are freed, and this share of them cannot be used again where it is wanted: measured.
MAPPED, HELD = 32 * 2**20, 0.65
SLACK = 0.05  # of a GPU's activations, lost between PyTorch's blocks


@dataclass(frozen=True)
class Setting:
    """What of a training matters to memory. kept: numbers that the optimiser keeps of all weights together; chosen:
    positions a row that go to the vocabulary; kind: cpu or gpu.
    """

    config: EncoderConfig
    parameters: int
    kept: int
    length: int
    chosen: int
    precision: str
    average: bool = False
    kind: str = "cpu"

    @property
    def bytes_each(self) -> int:
        return DTYPES[self.precision].itemsize


@dataclass(frozen=True)
class Memory:
    """Bytes by part. A checkpoint is copied between two steps and written beside the next: on a quick disk its copy is
    gone before the activations are all there.
    """

    program: int
    weights: int
    gradients: int
    optimizer: int
    activations: int
    checkpoint: int

    @property
    def total(self) -> int:
        whole = self.program + self.weights + self.gradients + self.optimizer
        return whole + max(self.activations, self.checkpoint)


def training_memory(setting: Setting, rows: int) -> Memory:
    """With microbatches of `rows`. A GPU's checkpoint is copied to the machine's memory, not in the device's."""
    masters = 0 if setting.precision == "fp32" else 4
    kept = 4 * (setting.kept + setting.parameters * setting.average)
    return Memory(
        program=PROGRAM[setting.kind],
        weights=setting.parameters * (setting.bytes_each + masters),
        gradients=setting.parameters * 4,
        optimizer=kept,
        activations=max(_activations(setting, rows), setting.parameters * setting.bytes_each),
        checkpoint=kept + 4 * setting.parameters if setting.kind == "cpu" else 0,
    )


def _activations(setting: Setting, rows: int) -> int:
    blocks = kept_blocks(setting, rows)
    kept = sum(times * size for times, size in blocks)
    table = setting.config.vocab_size * embedding_size(setting.config) * setting.bytes_each
    scores = rows * setting.chosen * setting.config.vocab_size * SCORES * setting.bytes_each
    if setting.kind == "gpu":
        return round((kept + scores + table) * (1 + SLACK))
    small = sum(times * size for times, size in blocks if size < MAPPED)
    return round(kept + scores + HELD * small) + (table if table < MAPPED else 0)


def kept_blocks(setting: Setting, rows: int) -> list[tuple[int, int]]:
    """(how many, bytes of each) of what all layers and the embeddings keep for the backward pass."""
    config, each, tokens = setting.config, setting.bytes_each, rows * setting.length
    width, inner, layers = config.hidden_size, config.intermediate_size, steps(config)
    narrow = saved_per_token(width, 0) // width
    found = [
        (layers * narrow + 1, tokens * width * each),
        (layers * (4 if gated(config) else 2), tokens * inner * each),
    ]
    if config.dropout:
        found.append((2 * layers + 1, tokens * width))  # what is kept, a byte each
    maps = tokens * setting.length * config.heads
    if setting.kind == "cpu" and config.attention_dropout:
        found += [(2 * layers, maps * each), (layers, maps)]  # what dropout leaves of them, and a byte that says what
    elif setting.kind == "cpu" and setting.length <= BATCHED.get(DTYPES[setting.precision], 0):
        found.append((layers, maps * each))
    return found
