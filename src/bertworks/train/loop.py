"""The loop: batches in order, gradients, a step, now and then a checkpoint. It knows neither model nor objective.

Everything it draws is keyed by (seed, step, microbatch), so the state to keep is small: weights, moments, and a few
numbers. A run that was killed and resumed ends with the very weights of one that was not (for budgets of steps, tokens
and epochs; minutes depend on the clock).
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from bertworks.errors import BertworksError, InputError
from bertworks.layers.dropout import Source, give_source
from bertworks.objectives.batches import Line, Place, TrainingBatch
from bertworks.objectives.draws import key

from . import checkpoint
from .masters import Masters
from .options import BatchOptions, BudgetOptions, OptimizerOptions, RunOptions, ScheduleOptions
from .schedule import rate

DROPOUT = 200  # what a key is for; apart from the purposes in objectives.draws and objectives.batches
MICROBATCH_TOKENS = 8192  # of one microbatch where the size is left to us: more gains nothing on a CPU
SMALLEST_BATCH = 1 / 8  # where a ramp begins
MOST_SKIPPED = 5  # steps in a row without a finite gradient before the last checkpoint is taken
MOST_ROLLBACKS = 3
ACCURACY_EVERY = 10


@dataclass(frozen=True)
class Settings:
    """A recipe's sections that concern the loop."""

    batch: BatchOptions
    optimizer: OptimizerOptions
    schedule: ScheduleOptions
    budget: BudgetOptions
    run: RunOptions


@dataclass
class State:
    """How far a run is; with the tensors, all that a resume needs."""

    step: int = 0
    tokens: int = 0
    epoch: int = 0
    position: int = 0
    minutes: float = 0.0
    microbatch: int = 0  # rows; kept, since another one would round differently
    skipped: int = 0
    finished: bool = False


@dataclass(frozen=True)
class Counts:
    """Of a whole global batch: what losses are divided by."""

    chosen: int
    pairs: int


@dataclass(frozen=True)
class Losses:
    """total: to go backward from, this microbatch's share of the global batch's loss. facts: sums to report."""

    total: Tensor
    facts: Mapping[str, float] = field(default_factory=dict)


class Loss(Protocol):
    def __call__(self, module: nn.Module, batch: TrainingBatch, counts: Counts, accuracy: bool) -> Losses: ...


class Watcher(Protocol):
    def step(self, row: Mapping[str, float | int]) -> None: ...
    def evaluated(self, row: Mapping[str, float | int]) -> None: ...
    def resumed(self, step: int) -> None: ...
    def end(self, outcome: str) -> None: ...


class Loop:
    """One training, from its first step or from its newest checkpoint."""

    def __init__(
        self,
        module: nn.Module,
        loss: Loss,
        examples: Line,
        settings: Settings,
        run: Path,
        *,
        dtype: torch.dtype,
        watch: Watcher,
        say: Callable[[str], None],
        evaluate: Callable[[nn.Module], Mapping[str, float]] | None = None,
    ) -> None:
        self.module, self.loss, self.examples, self.settings, self.run = module, loss, examples, settings, run
        self.watch, self.say, self.evaluate = watch, say, evaluate
        self.masters = Masters(module, settings.optimizer, dtype, settings.run.average)
        self.source = Source()
        give_source(module, self.source)
        self.state = State(microbatch=self._microbatch())
        self._stop: str | None = None
        self._writing: threading.Thread | None = None
        self._written = time.monotonic()
        self._in_a_row = self._rollbacks = 0
        self._fits = 0  # rows that have gone through the module at once

    def _microbatch(self) -> int:
        batch = self.settings.batch
        if isinstance(batch.microbatch, int):
            return min(batch.microbatch, batch.rows)
        return max(1, min(batch.rows, MICROBATCH_TOKENS // batch.length))

    # -- from where to where ---------------------------------------------------------------------------------

    def resume(self) -> bool:
        """Take up the newest whole checkpoint; False where there is none."""
        found = checkpoint.newest(self.run, self.say)
        if found is None:
            return False
        tensors, told = found
        if told["layout"] != self.masters.layout():
            raise InputError(f"{self.run} holds another model than its recipe describes", "begin a new run")
        self.masters.restore(tensors, told["optimizer_steps"])
        self.state = State(**told["state"])
        self._fits = self.state.microbatch
        self.watch.resumed(self.state.step)
        return True

    def share(self) -> float:
        """How much of the budget is spent."""
        budget, state = self.settings.budget, self.state
        if budget.steps is not None:
            return state.step / budget.steps
        if budget.tokens is not None:
            return state.tokens / budget.tokens
        if budget.minutes is not None:
            return state.minutes / budget.minutes
        return (state.epoch + state.position / self.examples.count(state.epoch)) / (budget.epochs or 1.0)

    def train(self) -> str:
        """Until the budget is spent ("finished") or a signal comes ("stopped"); either way a checkpoint is written."""
        self.module.train()
        with self._signals():
            while self.share() < 1 and self._stop is None:
                self._step()
                self._look()
                if time.monotonic() - self._written > 60 * self.settings.run.checkpoint_minutes:
                    self.save(wait=False)
            if self._stop is not None:
                self.say(f"{self._stop}: a checkpoint is written; once more to leave at once")
            self.state.finished = self.share() >= 1
            self.save(wait=True)
        outcome = "finished" if self.state.finished else "stopped"
        self.watch.end(outcome)
        return outcome

    # -- a step ----------------------------------------------------------------------------------------------

    def _step(self) -> None:
        started = time.monotonic()
        state, share = self.state, self.share()
        rows = self._rows(share)
        facts, place, fetched = self._gradients(rows)
        norm = self.masters.norm()
        lr = self.settings.optimizer.lr * rate(self.settings.schedule, share, state.step)
        state.epoch, state.position = place.epoch, place.position
        if math.isfinite(norm) and math.isfinite(facts["loss"]):
            self.masters.step(lr, norm)
            self._in_a_row = 0
        else:
            self._skip()
        state.step += 1
        state.tokens += rows * self.settings.batch.length
        seconds = time.monotonic() - started
        state.minutes += seconds / 60
        timing = {"seconds": seconds, "data_seconds": fetched, "share": self.share(), "minutes": state.minutes}
        told = {"step": state.step, "tokens": state.tokens, "epoch": state.epoch, "lr": lr, "grad_norm": norm}
        self.watch.step({**told, **facts, **timing})

    def _gradients(self, rows: int) -> tuple[dict[str, float], Place, float]:
        """Of the next global batch, with its facts, the place behind it and the seconds that making it took.

        Where the first one is too large for the memory, it is done again in smaller microbatches.
        """
        while True:
            started = time.monotonic()
            batches, place = self._batches(Place(self.state.epoch, self.state.position), rows)
            fetched = time.monotonic() - started
            try:
                facts = self._accumulated(batches)
            except (MemoryError, RuntimeError) as error:
                if not out_of_memory(error):
                    raise
                self._shrink(len(batches[0].ids), error)
            else:
                self._fits = max(self._fits, len(batches[0].ids))
                return facts, place, fetched
            if torch.cuda.is_available():  # here, where no traceback holds on to what was computed
                torch.cuda.empty_cache()

    def _accumulated(self, batches: list[TrainingBatch]) -> dict[str, float]:
        counts = Counts(
            sum(int((one.labels >= 0).sum()) for one in batches), sum(int((one.answers >= 0).sum()) for one in batches)
        )
        facts: dict[str, float] = {}
        measured = self.state.step % ACCURACY_EVERY == 0
        row = 0
        for batch in batches:
            self._seed(row, len(batch.ids))
            row += len(batch.ids)
            losses = self.loss(self.module, batch, counts, measured)
            losses.total.backward()  # type: ignore[no-untyped-call]
            self.masters.gather()
            for name, value in losses.facts.items():
                facts[name] = facts.get(name, 0.0) + value
        return facts

    def _shrink(self, rows: int, error: Exception) -> None:
        """Halve the microbatch that went out of memory with `rows`; an error where that size has gone well before."""
        if rows == 1 or rows <= self._fits:
            raise BertworksError(
                f"out of memory at step {self.state.step + 1}, in a microbatch of {counted(rows)}",
                f"go on with --resume where more memory is free, or begin a new run with batch.microbatch={rows // 2}"
                if rows > 1
                else "take a smaller model or a shorter batch.length",
            ) from error
        self.masters.drop()
        self.state.microbatch = rows // 2
        self.say(
            f"out of memory with microbatches of {counted(rows)}: going on with {self.state.microbatch} at a time, "
            f"the global batch stays; batch.microbatch={self.state.microbatch} spares the attempt"
        )

    def _rows(self, share: float) -> int:
        """Of this global batch."""
        whole, ramp = self.settings.batch.rows, self.settings.batch.ramp
        if share >= ramp:
            return whole
        return max(1, round(whole * (SMALLEST_BATCH + (1 - SMALLEST_BATCH) * share / ramp)))

    def _batches(self, place: Place, rows: int) -> tuple[list[TrainingBatch], Place]:
        """The global batch in microbatches: the line of examples is the same however it is cut."""
        made = []
        while rows:
            some = min(rows, self.state.microbatch)
            made.append(self.examples.batch(place, some))
            place, rows = self.examples.after(place, some), rows - some
        return made, place

    def _seed(self, first: int, rows: int) -> None:
        """By the rows' numbers in the global batch: what is dropped does not depend on how it was cut."""
        seeds = key(DROPOUT, self.settings.run.seed, self.state.step, np.arange(first, first + rows)) >> np.uint64(1)
        self.source.seed(seeds)
        torch.manual_seed(int(seeds[0]))

    def _skip(self) -> None:
        """A loss or gradient that is not finite: the weights stay; after several in a row, those of the checkpoint."""
        self.masters.drop()
        self.state.skipped += 1
        self._in_a_row += 1
        self.say(f"step {self.state.step + 1}: the gradient is not finite; the step is skipped")
        if self._in_a_row < MOST_SKIPPED:
            return
        found = checkpoint.newest(self.run, self.say)
        self._rollbacks += 1
        if found is None or self._rollbacks > MOST_ROLLBACKS:
            raise BertworksError(
                f"training has diverged: {self._in_a_row} gradients up to step {self.state.step + 1} are not finite",
                "lower optimizer.lr, lengthen schedule.warmup, or set run.precision=fp32",
            )
        self.masters.restore(found[0], found[1]["optimizer_steps"])
        self._in_a_row = 0
        self.say(f"the weights of step {found[1]['state']['step']} are taken again; training goes on with new data")

    def _look(self) -> None:
        """At the held-out text, where it is time."""
        every = self.settings.run.evaluate_every
        if self.evaluate and (self.share() >= 1 or (every and self.state.step % every == 0)):
            started = time.monotonic()
            self.module.eval()
            with torch.inference_mode():
                found = self.evaluate(self.module)
            self.module.train()
            self.watch.evaluated({"step": self.state.step, **found})
            self._written += time.monotonic() - started  # looking is not training: it does not bring a checkpoint on

    # -- what is kept ----------------------------------------------------------------------------------------

    def save(self, wait: bool) -> None:
        """A checkpoint, written beside the training unless waited for. A full disk is told, and training goes on."""
        if self._writing is not None:
            self._writing.join()
        tensors = self.masters.state()
        told: dict[str, Any] = {
            "format": checkpoint.FORMAT,
            "state": asdict(self.state),
            "optimizer_steps": self.masters.steps,
            "layout": self.masters.layout(),
        }

        def write() -> None:
            try:
                checkpoint.write(self.run, told["state"]["step"], tensors, told, self.settings.run.keep)
            except (BertworksError, OSError) as error:
                self.say(f"the checkpoint could not be written, the one before it stays: {str(error).splitlines()[0]}")

        self._written = time.monotonic()
        self._writing = threading.Thread(target=write, name="bertworks-checkpoint")
        self._writing.start()
        if wait:
            self._writing.join()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGTERM and Ctrl-C end the training after the step in hand; a second one ends it at once."""

        def stop(number: int, _: FrameType | None) -> None:
            if self._stop is not None:
                raise KeyboardInterrupt
            self._stop = signal.Signals(number).name  # said after the step: a handler may not print

        if threading.current_thread() is not threading.main_thread():
            yield
            return
        kept: dict[int, Any] = {one: signal.signal(one, stop) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in kept.items():
                signal.signal(number, handler)


NO_MEMORY = ("can't allocate memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")


def out_of_memory(error: Exception) -> bool:
    """Whether memory was short, which PyTorch sometimes says in words alone."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(one in str(error) for one in NO_MEMORY)


def counted(rows: int) -> str:
    return f"{rows} row" if rows == 1 else f"{rows} rows"
