"""What a pre-training will take: pure reckoning from a recipe, a configuration and a device's facts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from bertworks.errors import ConfigError
from bertworks.models.config import EncoderConfig
from bertworks.models.parts import Architecture
from bertworks.objectives.select import most_chosen
from bertworks.tasks.pretrain import PAIR_HEADS, Recipe
from bertworks.train.contract import Batching
from bertworks.train.loop import MICROBATCH_TOKENS, SMALLEST_BATCH
from bertworks.train.options import BudgetOptions
from bertworks.train.rules import RULES

from . import costs, parameters
from .devices import Device
from .memory import Memory, Setting, training_memory

# Of a CPU's matrix peak, as `bench/pretrain.py` found it for models of this width and wider.
CPU_SHARES = ((384, 0.50), (0, 0.41))
# Bytes that pass through memory for each weight: once a microbatch its gradient into the sums, once a step the
# optimiser over its numbers.
GATHERED, STEPPED = 16, 44


@dataclass(frozen=True)
class Work:
    """A recipe's training, wherever it runs: what is trained and how much of it is a step.

    by_part: parameters. rows: of the global batch. epoch_rows: examples in an epoch, where the store is known.
    """

    recipe: Recipe
    config: EncoderConfig
    by_part: dict[str, int]
    flops_per_token: int
    epoch_rows: int | None = None

    @property
    def batch(self) -> Batching:
        return self.recipe.settings.batch

    @property
    def parameters(self) -> int:
        return self.by_part["total_with_heads"]

    def microbatch(self, devices: int = 1) -> int:
        """Rows at a time on each device, as the loop has it."""
        rows = -(-self.batch.rows // devices)
        if isinstance(self.batch.microbatch, int):
            return min(self.batch.microbatch, rows)
        return max(1, min(rows, MICROBATCH_TOKENS // self.batch.length))

    def microbatches(self, devices: int = 1) -> int:
        """On each device in a step."""
        return -(-self.batch.rows // (devices * self.microbatch(devices)))

    def memory(self, rows: int, precision: str, kind: str) -> Memory:
        settings = self.recipe.settings
        own = len(RULES[settings.optimizer.name].keeps)
        kept = self.parameters * own
        if settings.optimizer.name == "muon":  # for the layers alone; the rest is AdamW's
            kept += (self.parameters - self.by_part["encoder"]) * (len(RULES["adamw"].keeps) - own)
        chosen = most_chosen(self.recipe.objective, self.batch.length)
        return training_memory(
            Setting(
                self.config, self.parameters, kept, self.batch.length, chosen, precision,
                settings.run.average > 0, kind,
            ),
            rows,
        )  # fmt: skip

    def largest(self, room: int, precision: str, kind: str, devices: int = 1) -> int:
        """Rows of the largest microbatch that fits, up to the whole batch; 0 where not one row does."""
        low, high = 0, -(-self.batch.rows // devices)
        while low < high:
            middle = (low + high + 1) // 2
            if self.memory(middle, precision, kind).total <= room:
                low = middle
            else:
                high = middle - 1
        return low


def work_of(recipe: Recipe, family: Architecture, config: EncoderConfig, epoch_rows: int | None = None) -> Work:
    """epoch_rows: examples in an epoch, which a budget in epochs wants."""
    if recipe.settings.budget.epochs is not None and epoch_rows is None:
        raise ConfigError("budget.epochs wants the size of the corpus", "give --data STORE, or another budget")
    pairs = recipe.objective.pair != "none"
    pair_head = next((name for name in PAIR_HEADS if name in family.heads), "next_sentence")
    heads = ("masked_lm", pair_head) if pairs else ("masked_lm",)
    by_part = parameters.summary(parameters.parts(family.name, config, heads, pairs))
    length = recipe.settings.batch.length
    once = costs.flops_per_token(config, length)
    # The head runs on as many positions as may be chosen, whatever their share.
    head = once["masked_lm_head"] * most_chosen(recipe.objective, length) / length / costs.MASKED
    return Work(recipe, config, by_part, round(3 * (once["forward"] + head)), epoch_rows)


# -- how much ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Amount:
    """What a budget comes to."""

    steps: int
    tokens: int
    seconds: float


def amount(work: Work, step_seconds: float) -> Amount:
    """Of a recipe's budget, where a whole step takes so long. Where the batch grows over a ramp, steps are smaller
    there, and quicker.
    """
    budget, batch = work.recipe.settings.budget, work.batch
    full = batch.rows * batch.length
    grown = (1 - SMALLEST_BATCH) or 1
    if budget.steps is not None:
        part = 1 - batch.ramp + batch.ramp * (1 + SMALLEST_BATCH) / 2
        return Amount(budget.steps, round(budget.steps * part * full), budget.steps * part * step_seconds)
    more = 1 - batch.ramp + batch.ramp * -math.log(SMALLEST_BATCH) / grown  # steps for the same tokens
    if budget.minutes is not None:
        whole = budget.minutes * 60 / step_seconds
        return Amount(max(1, round(whole * more)), round(whole * full), budget.minutes * 60)
    tokens = _tokens(work, budget)
    return Amount(max(1, math.ceil(tokens / full * more)), tokens, tokens / full * step_seconds)


def _tokens(work: Work, budget: BudgetOptions) -> int:
    if budget.tokens is not None:
        return budget.tokens
    return round((budget.epochs or 0) * (work.epoch_rows or 0) * work.batch.length)


# -- how fast ------------------------------------------------------------------------------------------------


def cpu_share(width: int) -> float:
    """Of a CPU's matrix peak that a training of this width reaches."""
    return next(share for least, share in CPU_SHARES if width >= least)


def step_seconds(work: Work, flops: float, bandwidth: float | None = None, devices: int = 1) -> float:
    """Of a whole step, where each device really does so many operations a second."""
    rows = work.microbatches(devices) * work.microbatch(devices)
    rows = min(rows, -(-work.batch.rows // devices))
    seconds = rows * work.batch.length * work.flops_per_token / flops
    if bandwidth is not None:
        passed = GATHERED * work.microbatches(devices) + STEPPED
        seconds += work.parameters * passed / bandwidth
    return seconds


def on_gpus(work: Work, count: int, device: Device, price: float | None = None) -> dict[str, Any]:
    """The plan for so many GPUs that share each batch; what passes between them is not counted."""
    wanted = work.recipe.settings.run.precision
    precision = "bf16" if wanted != "fp32" and device.bf16 else "fp32"
    used = min(count, work.batch.rows)
    utilisation = device.utilisation(work.config.hidden_size)
    seconds = step_seconds(work, device.peak(precision) * utilisation, device.bandwidth, used)
    price = device.price if price is None else price
    done = amount(work, seconds)
    how = {"how": "reckoned", "utilisation": round(utilisation, 3), "peak_flops": device.peak(precision)}
    facts = {"name": device.name, "count": count, "precision": precision, "memory_bytes": device.memory}
    return {
        "device": facts,
        **_told(work, done, seconds, device.memory, precision, "gpu", used),
        "speed": how | {"flops_per_token": work.flops_per_token},
        "price_per_hour": price,
        "cost": round(count * price * done.seconds / 3600, 2),
    }


def here(
    work: Work, name: str, kind: str, precision: str, room: int | None, seconds: float, speed: dict[str, Any]
) -> dict[str, Any]:
    """The plan for the machine that asks: `seconds` of a whole step are known, `speed` says how."""
    return {
        "device": {"name": name, "count": 1, "precision": precision, "memory_bytes": room},
        **_told(work, amount(work, seconds), seconds, room, precision, kind, 1),
        "speed": speed | {"flops_per_token": work.flops_per_token},
        "price_per_hour": None,
        "cost": None,
    }


def _told(
    work: Work, done: Amount, seconds: float, room: int | None, precision: str, kind: str, devices: int
) -> dict[str, Any]:
    rows = work.microbatch(devices)
    memory = work.memory(rows, precision, kind)
    return {
        "steps": done.steps,
        "tokens": done.tokens,
        "seconds": round(done.seconds, 1),
        "step_seconds": seconds,
        "tokens_per_second": round(work.batch.rows * work.batch.length / seconds, 1),
        "microbatch": rows,
        "microbatches": work.microbatches(devices),
        "memory_bytes": memory.total,
        "memory": vars(memory),
        "fits": None if room is None else memory.total <= room,
        "largest_microbatch": None if room is None else work.largest(room, precision, kind, devices),
    }
