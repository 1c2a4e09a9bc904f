"""Training: batch, loss, backward, step, and whatever keeps that going through the night.

The loop is handed a module, a loss, a line of examples and a place to write; it never asks what it trains. All that is
drawn in it is keyed by (seed, step, row), so a run that was stopped ends bit for bit where one that was not does, for
budgets of steps, tokens and epochs (minutes depend on the clock). Several ranks share each global batch: its rows are
the same however many there are.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from bertworks.errors import BertworksError, ConfigError, InputError
from bertworks.layers.dropout import Source, give_source
from bertworks.objectives.batches import Line, Place
from bertworks.objectives.draws import key

from . import checkpoint
from .comparing import compares, in_two_passes
from .compiling import compile_layers
from .contract import Best, Loss, Losses, Settings, State, Watcher
from .masters import Masters
from .memory import out_of_memory
from .ranks import Ranks
from .schedule import rate
from .sharding import release, shard
from .signals import Asked

DROPOUT = 200  # what a key is for; apart from the purposes in objectives.draws and objectives.batches
MICROBATCH_TOKENS = 8192  # of one microbatch where the size is left to us: more gains nothing on a CPU
SMALLEST_BATCH = 1 / 8  # where a ramp begins
MOST_SKIPPED = 5  # steps in a row without a finite gradient before the last checkpoint is taken
MOST_ROLLBACKS = 3
ACCURACY_EVERY = 10
LOSS_SCALE, SCALE_STEPS = 2.0**16, 2000  # of fp16, as PyTorch's own scaler begins, and how long before it doubles


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
        best: Best | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        self.module, self.loss, self.examples, self.settings, self.run = module, loss, examples, settings, run
        self.watch, self.say, self.evaluate, self.best = watch, say, evaluate, best
        self.ranks = ranks or Ranks()
        self.sharded = settings.run.parallel == "fsdp" and self.ranks.count > 1
        self._check_batch()
        if self.sharded:
            shard(module, self.ranks, dtype)
        self.masters = Masters(module, settings.optimizer, dtype, settings.run.average, self.ranks, self.sharded)
        self.source = Source()
        give_source(module, self.source)
        self.compiled = compile_layers(module, settings.run.compile, self.ranks.on)
        self.state = State(microbatch=self._microbatch(), loss_scale=LOSS_SCALE if dtype == torch.float16 else 1.0)
        self._asked = Asked()
        self._writing: threading.Thread | None = None
        self._written = time.monotonic()
        self._in_a_row = self._rollbacks = 0
        self._fits = 0  # rows that have gone through the module at once

    def _check_batch(self) -> None:
        batch, ranks = self.settings.batch, self.ranks.count
        if self.sharded and (batch.rows % ranks or batch.ramp):
            raise ConfigError(
                f"a batch of {batch.rows} rows cannot be shared evenly by {ranks} processes"
                if batch.rows % ranks
                else "batch.ramp gives batches that processes cannot share evenly",
                'choose batch.tokens so that it can, without a ramp, or set run.parallel="ddp"',
            )
        if self._rows(0.0) < ranks:
            raise ConfigError(
                f"{ranks} processes are more than the rows of a batch", "raise batch.tokens, or use fewer"
            )

    def _microbatch(self) -> int:
        batch = self.settings.batch
        most = -(-batch.rows // self.ranks.count)
        if isinstance(batch.microbatch, int):
            return min(batch.microbatch, most)
        # What is compared is computed twice where it is cut, so it is cut later.
        tokens = 2 * MICROBATCH_TOKENS if compares(self.loss) else MICROBATCH_TOKENS
        return max(1, min(most, tokens // batch.length))

    # -- from where to where ---------------------------------------------------------------------------------

    def resume(self) -> bool:
        """Take up the newest whole checkpoint; False where there is none."""
        folder = self._newest()
        if folder is None:
            return False
        told = checkpoint.state_of(folder)
        if told["layout"] != self.masters.layout():
            raise InputError(f"{self.run} holds another model than its recipe describes", "begin a new run")
        self._take(folder)
        self.state = State(**told["state"])
        self.state.microbatch = min(self.state.microbatch, -(-self.settings.batch.rows // self.ranks.count))
        self._fits = self.state.microbatch
        self.watch.resumed(self.state.step)
        return True

    def _newest(self) -> Path | None:
        """The newest whole checkpoint, found by the leading rank alone."""
        found = checkpoint.newest(self.run, self.say) if self.ranks.leads else None
        step = self.ranks.told(int(found.name.removeprefix("step-")) if found else -1)
        return None if step < 0 else self.run / checkpoint.FOLDER / checkpoint.name_of(step)

    def _take(self, folder: Path) -> None:
        tensors = checkpoint.tensors_of(folder, self.masters.state, self.sharded)
        self.masters.restore(tensors, checkpoint.state_of(folder)["optimizer_steps"])

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

    @property
    def done(self) -> bool:
        """Whether the budget is spent, or nothing better has come for so long that the run ends before."""
        patience = self.best.patience if self.best else 0
        return self.share() >= 1 or 0 < patience <= self.state.looks

    def train(self) -> str:
        """Until it is done ("finished") or a signal comes ("stopped"); either way a checkpoint is written."""
        self.module.train()
        stop = False
        with self._asked.listening():
            while not self.done and not stop:
                stop, due = self._step()
                self._look()
                if due:
                    self.save(wait=False)
                stop = stop or (self.ranks.count == 1 and self._asked.name is not None)
            if stop:
                self.say(f"{self._asked.name or 'a signal'}: a checkpoint is written; once more to leave at once")
            self.state.finished = self.done
            self.save(wait=True)
        outcome = "finished" if self.state.finished else "stopped"
        self.watch.end(outcome)
        return outcome

    # -- a step ----------------------------------------------------------------------------------------------

    def _step(self) -> tuple[bool, bool]:
        """One step; whether somebody asked to stop, and whether a checkpoint is due."""
        started = time.monotonic()
        state, share = self.state, self.share()
        rows = self._rows(share)
        facts, place, fetched, tokens = self._gradients(rows)
        self.masters.total(state.loss_scale)
        facts = self.ranks.sums(facts)
        norm = self.masters.norm()
        lr = self.settings.optimizer.lr * rate(self.settings.schedule, share, state.step)
        state.epoch, state.position = place.epoch, place.position
        if math.isfinite(norm) and math.isfinite(facts["loss"]):
            self.masters.step(lr, norm)
            self._in_a_row = 0
            self._raise_scale()
        else:
            self._skip(facts["loss"])
        state.step += 1
        state.tokens += tokens
        seconds, stop, due = self._agreed(time.monotonic() - started)
        state.minutes += seconds / 60
        timing = {"seconds": seconds, "data_seconds": fetched, "share": self.share(), "minutes": state.minutes}
        told = {"step": state.step, "tokens": state.tokens, "epoch": state.epoch, "lr": lr, "grad_norm": norm}
        self.watch.step({**told, **facts, **timing})
        return stop, due

    def _agreed(self, seconds: float) -> tuple[float, bool, bool]:
        """By the leading rank's clock, how long the step took; whether any rank was asked to stop; whether a checkpoint
        is due.
        """
        due = time.monotonic() - self._written > 60 * self.settings.run.checkpoint_minutes
        told = {"seconds": seconds, "due": float(due)} if self.ranks.leads else {"seconds": 0.0, "due": 0.0}
        agreed = self.ranks.sums({**told, "stop": float(self._asked.name is not None)})
        return agreed["seconds"], agreed["stop"] > 0, agreed["due"] > 0

    def _gradients(self, rows: int) -> tuple[dict[str, float], Place, float, int]:
        """Of the next global batch, with its facts, the place behind it, the seconds that making it took, its tokens.

        Where the first one is too large for the memory, it is done again in smaller microbatches.
        """
        while True:
            started = time.monotonic()
            place = Place(self.state.epoch, self.state.position)
            first, batches = self._batches(place, rows)
            fetched = time.monotonic() - started
            counts = self._counts(batches, rows)
            short: Exception | None = None
            try:
                facts = self._accumulated(first, batches, counts)
            except (MemoryError, RuntimeError) as error:
                if self.sharded or not out_of_memory(error):
                    raise
                short = error.with_traceback(None)  # a traceback holds on to what was computed
            size = min(self.state.microbatch, -(-rows // self.ranks.count))
            if size > self._fits and not self.sharded:  # not known to go well: all ranks shrink if one has to
                shrink = self.ranks.sums({"short": float(short is not None)})["short"] > 0
            else:
                shrink = short is not None
            if not shrink:
                self._fits = max(self._fits, size)
                return facts, self.examples.after(place, rows), fetched, counts["tokens"]
            self._shrink(size, short)
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

    def _batches(self, place: Place, rows: int) -> tuple[int, list[Any]]:
        """This rank's part of the global batch in microbatches, and where in the batch that part begins. The line of
        examples is the same however it is cut.
        """
        first, stop = self.ranks.part(rows)
        place = self.examples.after(place, first) if first else place
        made, left = [], stop - first
        while left:
            some = min(left, self.state.microbatch)
            made.append(self.examples.batch(place, some))
            place, left = self.examples.after(place, some), left - some
        return first, made

    def _counts(self, batches: list[Any], rows: int) -> dict[str, int]:
        """Of the whole global batch, all ranks' parts together."""
        counts: dict[str, int] = {}
        for batch in batches:
            for name, count in self.loss.counts(batch).items():
                counts[name] = counts.get(name, 0) + count
        whole = {name: int(count) for name, count in self.ranks.sums(counts).items()}
        return {"tokens": rows * self.settings.batch.length} | whole

    def _accumulated(self, row: int, batches: list[Any], counts: Mapping[str, int]) -> dict[str, float]:
        facts: dict[str, float] = {}
        measured = self.state.step % ACCURACY_EVERY == 0
        sizes = [len(batch.ids) for batch in batches]
        parts = [(batch, row + sum(sizes[:at])) for at, batch in enumerate(batches)]
        loss = self.loss
        if compares(loss) and (len(batches) > 1 or self.ranks.count > 1):
            loss = in_two_passes(loss, self.module, parts, measured, self._seed, self.ranks)
        for batch, first in parts:
            self._seed(first, len(batch.ids))
            losses = loss(self.module, batch, counts, measured)
            (losses.total * self.state.loss_scale).backward()  # type: ignore[no-untyped-call]
            self.masters.gather()
            for name, value in losses.facts.items():
                facts[name] = facts.get(name, 0.0) + value
        return facts

    def _seed(self, first: int, rows: int) -> None:
        """By the rows' numbers in the global batch: what is dropped does not depend on how it was cut."""
        seeds = key(DROPOUT, self.settings.run.seed, self.state.step, np.arange(first, first + rows)) >> np.uint64(1)
        self.source.seed(seeds)
        torch.manual_seed(int(seeds[0]))

    def _shrink(self, rows: int, error: Exception | None) -> None:
        """Halve the microbatch that went out of memory with `rows`; an error where that size has gone well before."""
        said = f"{rows} row" if rows == 1 else f"{rows} rows"
        if rows == 1 or rows <= self._fits:
            raise BertworksError(
                f"out of memory at step {self.state.step + 1}, in a microbatch of {said}",
                f"go on with --resume where more memory is free, or begin a new run with batch.microbatch={rows // 2}"
                if rows > 1
                else "take a smaller model or a shorter batch.length",
            ) from error
        self.masters.drop()
        self.state.microbatch = rows // 2
        self.say(
            f"out of memory with microbatches of {said}: going on with {self.state.microbatch} at a time, "
            f"the global batch stays; batch.microbatch={self.state.microbatch} spares the attempt"
        )

    def _rows(self, share: float) -> int:
        """Of this global batch."""
        whole, ramp = self.settings.batch.rows, self.settings.batch.ramp
        if share >= ramp:
            return whole
        return max(1, round(whole * (SMALLEST_BATCH + (1 - SMALLEST_BATCH) * share / ramp)))

    # -- what is not finite ----------------------------------------------------------------------------------

    def _raise_scale(self) -> None:
        """fp16's loss scale doubles when it has gone well for long."""
        state = self.state
        if state.loss_scale > 1:
            state.scale_steps += 1
            if state.scale_steps >= SCALE_STEPS:
                state.loss_scale, state.scale_steps = state.loss_scale * 2, 0

    def _skip(self, loss: float) -> None:
        """A loss or gradient that is not finite: the weights stay; after several in a row, those of the checkpoint."""
        state = self.state
        self.masters.drop()
        state.skipped += 1
        if state.loss_scale > 1 and math.isfinite(loss):  # fp16 ran over its range, as it now and then does
            state.loss_scale, state.scale_steps = state.loss_scale / 2, 0
            return
        self._in_a_row += 1
        self.say(f"step {state.step + 1}: the gradient is not finite; the step is skipped")
        if self._in_a_row < MOST_SKIPPED:
            return
        found = self._newest()
        self._rollbacks += 1
        if found is None or self._rollbacks > MOST_ROLLBACKS:
            raise BertworksError(
                f"training has diverged: {self._in_a_row} gradients up to step {state.step + 1} are not finite",
                "lower optimizer.lr, lengthen schedule.warmup, or set run.precision=fp32",
            )
        self._take(found)
        self._in_a_row = 0
        step = checkpoint.state_of(found)["state"]["step"]
        self.say(f"the weights of step {step} are taken again; training goes on with new data")

    # -- looks at held-out data ------------------------------------------------------------------------------

    def _look(self) -> None:
        """Where it is time."""
        every = self.settings.run.evaluate_every
        if not self.evaluate or not (self.share() >= 1 or (every and self.state.step % every == 0)):
            return
        started = time.monotonic()
        self.module.eval()
        with torch.no_grad() if self.sharded else torch.inference_mode():
            found = self.evaluate(self.module)
        if self.sharded:
            release(self.module)
        self.module.train()
        self.watch.evaluated({"step": self.state.step, **found})
        self._judge(found)
        self._written += time.monotonic() - started  # looking is not training: it does not bring a checkpoint on

    def _judge(self, found: Mapping[str, float]) -> None:
        """Keep the weights of a look that is better than all before it."""
        if self.best is None:
            return
        if self.best.metric not in found:
            raise ConfigError(f"no look gives {self.best.metric}", f"choose one of {', '.join(found)}")
        if not self.best.beats(found[self.best.metric], self.state.best):
            self.state.looks += 1
            return
        self.state.best, self.state.best_step, self.state.looks = found[self.best.metric], self.state.step, 0
        self._write(checkpoint.BEST, self._told())

    def hand_back(self) -> None:
        """Leave the module with plain fp32 weights of its own: those of the best look, where one was kept."""
        self._take_best()
        self.masters.hand_back()

    def whole(self) -> Mapping[str, torch.Tensor]:
        """The same weights by their names, where ranks hold shares of them; all ranks call it."""
        self._take_best()
        return self.masters.whole()

    def _take_best(self) -> None:
        folder = self.run / checkpoint.FOLDER / checkpoint.BEST
        if self.state.best is None or self.state.best_step == self.state.step:
            return
        broken = checkpoint.broken_in(folder)
        if broken is not None:
            self.say(f"the best weights, of step {self.state.best_step}, are not whole ({broken}): the last are taken")
            return
        self._take(folder)

    # -- what is kept ----------------------------------------------------------------------------------------

    def save(self, wait: bool) -> None:
        """A checkpoint, written beside the training unless waited for. A full disk is told, and training goes on."""
        if self._writing is not None:
            self._writing.join()
        told = self._told()
        self._written = time.monotonic()
        name = checkpoint.name_of(self.state.step)
        if self.sharded:
            self._write(name, told)
            self._prune()
        elif self.ranks.leads:
            tensors = self.masters.state()

            def write() -> None:
                if self._kept(lambda: checkpoint.write(self.run, name, tensors, told)):
                    self._prune()

            self._writing = threading.Thread(target=write, name="bertworks-checkpoint")
            self._writing.start()
            if wait:
                self._writing.join()
        if wait:
            self.ranks.wait()

    def _write(self, name: str, told: Mapping[str, Any]) -> None:
        if self.sharded:
            self._kept(lambda: checkpoint.write_shared(self.run, name, self.masters.state(), told, self.ranks))
        elif self.ranks.leads:
            self._kept(lambda: checkpoint.write(self.run, name, self.masters.state(), told))

    def _told(self) -> dict[str, Any]:
        return {
            "format": checkpoint.FORMAT,
            "state": asdict(self.state),
            "optimizer_steps": self.masters.steps,
            "layout": self.masters.layout(),
        }

    def _kept(self, write: Callable[[], object]) -> bool:
        try:
            write()
        except (BertworksError, OSError) as error:
            self.say(f"the checkpoint could not be written, the one before it stays: {str(error).splitlines()[0]}")
            return False
        return True

    def _prune(self) -> None:
        if self.ranks.leads:
            checkpoint.prune(self.run, self.settings.run.keep)


__all__ = ["Best", "Loop", "Loss", "Losses", "Settings", "State", "Watcher"]
