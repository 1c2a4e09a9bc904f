"""What a person sees of a training: a live display, metrics.jsonl, TensorBoard, and a warning when it goes wrong.

It is handed plain numbers and knows nothing of models. Whatever it keeps, it keeps in windows of fixed size, so a
million steps take no more memory than a thousand; whatever it cannot write, it says once, and training goes on.
"""

from __future__ import annotations

import errno
import io
import json
import math
import mmap
import os
import re
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import fmean, median
from typing import Any, ClassVar, Literal, TextIO

from bertworks.folders import flush

Row = Mapping[str, float | int]


@dataclass(frozen=True)
class Total:
    """The budget, as the display names it."""

    kind: Literal["steps", "tokens", "epochs", "minutes"]
    amount: float

    def __str__(self) -> str:
        return f"{self.amount:,.15g} {self.kind if self.amount != 1 else self.kind[:-1]}"


class Watch:
    """Told of every step by the loop. Prints through the `say` it is given; whoever else has a line to say meanwhile
    says it through Watch.say, or the display overwrites it. plateau: nats of a model that knows word frequencies only.
    """

    def __init__(
        self,
        run: Path,
        *,
        total: Total,
        say: Callable[[str], None],
        live: bool,
        flops_per_token: float = 0,
        peak_flops: float = 0,
        plateau: float | None = None,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total, self._say, self._clock = total, say, clock
        self._cost = flops_per_token / peak_flops if peak_flops else 0.0
        self._lines, self._board = _Lines(run / "metrics.jsonl"), _Board(run / "tensorboard")
        self._failed: set[object] = set()
        self._screen = _Screen(stream or sys.stderr) if live else None
        self._turn = threading.RLock()  # a checkpoint's thread has things to say too
        self._recent, self._alarms = _Recent(self._cost), _Alarms(plateau)
        self._begun = False
        self._tokens: float | None = None  # seen before this step; None where nobody knows
        self._shown = -math.inf

    def step(self, row: Row) -> None:
        """After each optimiser step; for the keys see `_Recent` and `_Alarms`."""
        if not self._begun:  # a run killed before its first checkpoint begins again, on top of what it wrote
            self.resumed(int(row["step"]) - 1)
        told = {**row, **self._speed(row)}
        self._tokens = row["tokens"]
        self._write(told)
        self._recent.add(told)
        for warning in self._alarms.heard(row):
            self._write({"step": row["step"], "warning": warning})
            self.say(f"warning: step {row['step']:,}: {warning}")
        now = self._clock()
        if now - self._shown >= (0.2 if self._screen else 10):
            self._shown = now
            self._show()

    def evaluated(self, row: Row) -> None:
        """After a look at held-out text: step, dev_loss, dev_accuracy and the like."""
        self._write(row)
        figures = [_figure(name.replace("_", " "), value) for name, value in row.items() if name != "step"]
        self.say(f"step {row['step']:,}: {', '.join(figures)}")

    def resumed(self, step: int) -> None:
        """Forget what was written of later steps: they are done again."""
        self._begun = True
        self._tokens = self._lines.cut(step)
        self._board.cut(step)

    def say(self, line: str) -> None:
        """A line that stays; the display goes on below it."""
        with self._turn:
            if self._screen is None:
                self._say(line)
                return
            self._screen.erase()
            self._say(line)
            self._show()

    def end(self, outcome: str) -> None:
        """The last line, such as `end("finished")`."""
        self.close()
        self._say(self._recent.last(outcome, self._total))

    def close(self) -> None:
        """Leave the terminal and the files in order, also where training failed."""
        with self._turn:
            if self._screen is not None:
                self._screen.erase()
            self._screen = None
        self._lines.close()
        self._board.close()

    def _speed(self, row: Row) -> dict[str, float]:
        fresh = row["tokens"] - self._tokens if self._tokens is not None else row["tokens"] / max(row["step"], 1)
        rate = fresh / max(row["seconds"], 1e-9)
        speed = {"tokens_per_second": round(rate, 1)}
        return {**speed, "peak_share": round(rate * self._cost, 4)} if self._cost else speed

    def _write(self, row: Mapping[str, Any]) -> None:
        # A full disk costs figures, never the training.
        for file in (self._lines, self._board):
            try:
                file.add(row)
                self._failed.discard(file)
            except OSError as error:
                if file not in self._failed:
                    self.say(f"warning: {file.path} cannot be written: {error.strerror or error}; training goes on")
                self._failed.add(file)

    def _show(self) -> None:
        if not self._recent.row:
            return
        with self._turn:
            if self._screen is not None:
                self._screen.draw(self._recent.block(self._total, self._screen.columns()))
            else:
                self._say(self._recent.line())


class Unseen:
    """Watches for the ranks that do not lead: nothing is shown or written."""

    def step(self, row: Row) -> None: ...
    def evaluated(self, row: Row) -> None: ...
    def resumed(self, step: int) -> None: ...
    def end(self, outcome: str) -> None: ...
    def close(self) -> None: ...
    def say(self, line: str) -> None: ...


class _Lines:
    """metrics.jsonl, written past any buffer: a kill costs the line being written at most."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: io.FileIO | None = None

    def add(self, row: Mapping[str, Any]) -> None:
        finite = {name: value if _told(value) else None for name, value in row.items()}  # JSON has no NaN
        line = (json.dumps(finite, ensure_ascii=False, allow_nan=False) + "\n").encode()
        if self.file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.file = self.path.open("ab", buffering=0)
        start = self.file.seek(0, os.SEEK_END)
        try:
            if self.file.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        except OSError:
            self.file.truncate(start)  # half a line would spoil the next one
            raise

    def cut(self, step: int) -> float | None:
        """Drop the lines of later steps and a torn one; the tokens seen at the last one left.

        Read from the end, so it takes as long as what is dropped; truncated in place, which is one act of the file
        system, needs no space on a full disk, and leaves whoever follows the file where he is.
        """
        self.close()
        if not self.path.exists() or not self.path.stat().st_size:
            return None
        tokens, keep = None, 0
        with self.path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            end = data.rfind(b"\n") + 1
            while end and tokens is None:
                start = data.rfind(b"\n", 0, end - 1) + 1
                row = _row(data[start:end])
                if row.get("step", math.inf) <= step:
                    keep, tokens = keep or end, row.get("tokens")
                end = start
        os.truncate(self.path, keep)
        flush(self.path)
        return tokens

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
        self.file = None


class _Board:
    """TensorBoard's event files, where its package is installed. Its plain record writer is used: the ways above it
    (torch's among them) import all of TensorFlow where that is installed too.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: Any = None
        self.proto: Any = None
        self.missing = False
        self.resumed = 0
        self.flushed = 0.0

    def add(self, row: Mapping[str, Any]) -> None:
        held_out = not row.keys() & {"loss", "warning"}
        values = {
            f"dev/{name.removeprefix('dev_')}" if held_out else f"train/{name}": float(value)
            for name, value in row.items()
            if name != "step" and not isinstance(value, str)
        }
        if not values or not self._opened():
            return
        self._put(step=int(row["step"]), summary={"value": [{"tag": t, "simple_value": v} for t, v in values.items()]})
        if time.monotonic() - self.flushed > 10:
            self.flushed = time.monotonic()
            self.records.flush()

    def cut(self, step: int) -> None:
        self.close()
        self.resumed = step + 1

    def close(self) -> None:
        if self.records is not None:
            with suppress(OSError):  # a full disk, said when it was written to
                self.records.close()
        self.records = None

    def _opened(self) -> bool:
        if self.missing or self.records is not None:
            return not self.missing
        try:
            writer = import_module("tensorboard.summary.writer.record_writer")
            self.proto = import_module("tensorboard.compat.proto.event_pb2")
        except ImportError:
            self.missing = True
            return False
        self.path.mkdir(parents=True, exist_ok=True)
        # Read in the order of their names, so the time comes first.
        name = f"events.out.tfevents.{time.time():017.6f}.{socket.gethostname()}.{os.getpid()}"
        self.records = writer.RecordWriter((self.path / name).open("wb"))
        self._put(file_version="brain.Event:2")
        if self.resumed:  # has the reader drop what it read of this step and later ones
            self._put(step=self.resumed, session_log={"status": self.proto.SessionLog.START})
        return True

    def _put(self, **fields: Any) -> None:
        event = self.proto.Event(wall_time=time.time())
        for name, value in fields.items():
            if isinstance(value, dict):
                part = getattr(event, name)
                part.MergeFrom(type(part)(**value))
            else:
                setattr(event, name, value)
        self.records.write(event.SerializeToString())


class _Alarms:
    """What goes wrong, told once an event: an event is over when it has not been seen for 1,000 steps.

    Reads step, loss, grad_norm, seconds and data_seconds of a row.
    """

    def __init__(self, plateau: float | None) -> None:
        self.plateau = plateau
        self.block: list[float] = []
        self.blocks: deque[float] = deque(maxlen=10)  # means of 50 losses: single ones are too noisy to judge by
        self.norms: deque[float] = deque(maxlen=100)
        self.waits: deque[tuple[float, float]] = deque(maxlen=50)
        self.seen: dict[str, float] = {}

    def heard(self, row: Row) -> Iterator[str]:
        for check in (self._flat, self._exploding, self._starving):
            warning = check(row)
            if not warning:
                continue
            before = self.seen.get(check.__name__, -math.inf)
            self.seen[check.__name__] = row["step"]
            if row["step"] - before > 1000:
                yield warning

    def _flat(self, row: Row) -> str:
        if self.plateau is None or not math.isfinite(row["loss"]):
            return ""
        self.block.append(row["loss"])
        if len(self.block) < 50:
            return ""
        self.blocks.append(fmean(self.block))
        self.block.clear()
        means = list(self.blocks)
        if len(means) < 10 or any(abs(mean - self.plateau) > 0.05 for mean in means):
            return ""
        if fmean(means[:5]) - fmean(means[5:]) > 0.02:  # it is falling, and only passes by
            return ""
        return (
            f"the loss sits at the unigram entropy {self.plateau:.2f}: the model knows word frequencies only; "
            "more steps, a higher lr, or warm-up"
        )

    def _exploding(self, row: Row) -> str:
        norm, usual = row["grad_norm"], median(self.norms) if len(self.norms) >= 20 else 0.0
        if math.isfinite(norm):
            self.norms.append(norm)
        if usual <= 0 or norm <= 20 * usual:
            return ""
        return f"gradients explode: norm {norm:.3g}, usually {usual:.3g}; a lower lr, more warm-up, or optimizer.clip"

    def _starving(self, row: Row) -> str:
        self.waits.append((row["data_seconds"], row["seconds"]))
        waited, whole = (sum(column) for column in zip(*self.waits, strict=True))
        if len(self.waits) < 50 or waited <= 0.2 * whole:
            return ""
        return f"data starves the step: {waited / whole:.0%} of the last 50 steps went by waiting for batches"


class _Recent:
    """The last figures, smoothed: the loss over 50 steps, accuracies (which not every step has) over 20, the speed over
    some five seconds, the time left by the last minutes' progress. cost: seconds a token would take at the peak.
    """

    WINDOWS: ClassVar = {"loss": 50, "masked_accuracy": 20, "pair_accuracy": 20}

    def __init__(self, cost: float) -> None:
        self.cost = cost
        self.row: dict[str, float | int] = {}
        self.windows: dict[str, deque[float]] = {name: deque(maxlen=size) for name, size in self.WINDOWS.items()}
        self.marks: deque[tuple[float, float]] = deque(maxlen=60)
        self.tokens = self.seconds = 0.0
        self.steps = 0

    def add(self, row: Row) -> None:
        self.row, self.steps = dict(row), self.steps + 1
        for name, window in self.windows.items():
            if math.isfinite(row.get(name, math.nan)):
                window.append(row[name])
        # The first step compiles: the speed is not its.
        fading = math.exp(-row["seconds"] / 5) if self.steps > 2 else 0.0
        self.tokens = self.tokens * fading + row["tokens_per_second"] * row["seconds"]
        self.seconds = self.seconds * fading + row["seconds"]
        if not self.marks or row["minutes"] - self.marks[-1][0] >= 5 / 60:
            self.marks.append((row["minutes"], row["share"]))

    def block(self, total: Total, columns: int) -> list[str]:
        """Three lines of fewer than `columns`."""
        columns -= 1  # a terminal may wrap behind its last column
        start, end = f"step {self.row['step']:,}  [", f"] {self.row['share']:>6.1%} of {total}"
        width = max(columns - len(start) - len(end), 0)
        done = int(width * min(max(self.row["share"], 0), 1))
        lines = (
            start + "#" * done + "." * (width - done) + end,
            "  ".join(self._learning()),
            "  ".join([*self._machine(), *self._times()]),
        )
        return [line[:columns] for line in lines]

    def line(self) -> str:
        start = f"step {self.row['step']:,}  {self.row['share']:.1%}"
        return "  ".join([start, *self._learning(), *self._machine(), *self._times()])

    def last(self, outcome: str, total: Total) -> str:
        if not self.row:
            return outcome
        start = f"{outcome}: step {self.row['step']:,}, {self.row['share']:.1%} of {total}"
        return "  ".join([start, *self._learning(), *self._machine(), *self._times()[:1]])

    def _learning(self) -> list[str]:
        means = {name: fmean(window) for name, window in self.windows.items() if window}
        said = {"masked_accuracy": "masked", "pair_accuracy": "pair"}
        return [
            f"loss {means['loss']:.3f}" if "loss" in means else "loss not finite",
            *(f"{word} {means[name]:.1%}" for name, word in said.items() if name in means),
            f"lr {self.row['lr']:.2e}",
            f"gradient {self.row['grad_norm']:.3g}",
        ]

    def _machine(self) -> list[str]:
        rate = self.tokens / max(self.seconds, 1e-9)
        return [f"{rate:,.0f} tokens/s", *([f"{rate * self.cost:.0%} of peak"] if self.cost else [])]

    def _times(self) -> list[str]:
        elapsed, share = self.row["minutes"], self.row["share"]
        before, share_before = self.marks[0]
        parts = [f"{_clock(elapsed)} elapsed"]
        if share > share_before:
            parts.append(f"{_clock((1 - min(share, 1)) * (elapsed - before) / (share - share_before))} left")
        return parts


class _Screen:
    """A few lines rewritten in place. Plain ASCII, and no colour where NO_COLOR asks for none."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.height = 0
        self.coloured = not os.environ.get("NO_COLOR")

    def columns(self) -> int:
        try:
            return min(os.get_terminal_size(self.stream.fileno()).columns or 80, 80)
        except (OSError, ValueError):  # no terminal that could be asked
            return 80

    def draw(self, lines: list[str]) -> None:
        text = "\x1b[K\n".join(lines)
        if self.coloured:
            text = re.sub("#+", "\x1b[32m\\g<0>\x1b[0m", text)
        self.stream.write(f"{self._home()}{text}\x1b[J")
        self.stream.flush()
        self.height = len(lines)

    def erase(self) -> None:
        if self.height:
            self.stream.write(f"{self._home()}\x1b[J")
            self.stream.flush()
        self.height = 0

    def _home(self) -> str:
        return f"\r\x1b[{self.height - 1}A" if self.height > 1 else "\r"


def metrics(run: Path) -> Iterator[dict[str, Any]]:
    """The rows of a run's metrics.jsonl, but for lines that cannot be read."""
    path = run / "metrics.jsonl"
    if path.exists():
        with path.open("rb") as file:
            yield from filter(None, map(_row, file))


def _row(line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        return {}
    return row if isinstance(row, dict) and isinstance(row.get("step"), int) else {}


def _told(value: float | str) -> bool:
    return isinstance(value, str) or math.isfinite(value)


def _figure(name: str, value: float) -> str:
    return f"{name} {value:.1%}" if name.endswith("accuracy") else f"{name} {value:,.4g}"


def _clock(minutes: float) -> str:
    seconds = round(minutes * 60)
    hours, rest = divmod(seconds, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"
