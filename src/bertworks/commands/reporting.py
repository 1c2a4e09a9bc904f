"""What every verb shares: --json, --quiet, --seed, --debug; results to stdout, everything else to stderr."""

from __future__ import annotations

import json
import os
import sys
import time
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from bertworks.errors import BertworksError, BertworksWarning

SEEDS = (1 << 63) - 1  # NumPy and PyTorch keep a seed in 64 bits, with a sign

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Report:
    """How a verb talks: its result once to stdout, its remarks to stderr."""

    as_json: bool
    quiet: bool
    seed: int

    def result(self, value: Any, text: Callable[[], str]) -> None:
        """The result, as one JSON object or as text for a person."""
        click.echo(json.dumps(value, ensure_ascii=False) if self.as_json else text())

    def remark(self, line: str) -> None:
        if not self.quiet:
            click.echo(line, err=True)


def cells(text: str) -> int:
    """The columns a text takes in a terminal: Chinese characters take two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def counted(count: int, noun: str) -> str:
    """A number and its noun: 1 document, 1,540 documents."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def given(parameter: str) -> bool:
    """Whether an option is on the command line itself; from the environment it is a wish for wherever it matters."""
    return click.get_current_context().get_parameter_source(parameter) is ParameterSource.COMMANDLINE


def misused(message: str) -> click.UsageError:
    """What is wrong between two options, which click does not see; exit 2."""
    return click.UsageError(message, click.get_current_context())


class Counter:
    """How many are done and how fast, on stderr: one line rewritten in a terminal, else a line every ten seconds."""

    def __init__(self, report: Report, what: str) -> None:
        self.report, self.what = report, what
        self.done, self.start = 0, time.monotonic()
        self.live = sys.stderr.isatty() and not report.quiet
        self.shown = self.start

    def add(self, count: int) -> None:
        self.done += count
        now = time.monotonic()
        if now - self.shown < (0.2 if self.live else 10):
            return
        self.shown = now
        if self.live:
            click.echo(f"\r{self._line()}", err=True, nl=False)
        else:
            self.report.remark(self._line())

    def end(self) -> None:
        if self.live:
            click.echo("\r", err=True, nl=False)
        self.report.remark(self._line())

    def _line(self) -> str:
        seconds = max(time.monotonic() - self.start, 1e-9)
        done = counted(self.done, self.what.removesuffix("s"))
        return f"{done} in {seconds:.1f} s ({self.done / seconds:,.0f} a second)"


def verb(function: F) -> Any:
    """Make a click command of a function that takes a Report first."""

    @click.option("--json", "as_json", is_flag=True, help="The result as one JSON object.")
    @click.option("--quiet", "-q", is_flag=True, help="No remarks, no progress.")
    @click.option("--seed", type=click.IntRange(0, SEEDS), default=0, show_default=True, help="For whatever is drawn.")
    @click.option("--debug", is_flag=True, help="A traceback when something fails.")
    @wraps(function)
    def run(as_json: bool, quiet: bool, seed: int, debug: bool, **options: Any) -> None:
        report = Report(as_json, quiet, seed)
        telling = click.get_current_context().find_object(Telling)
        if telling is not None:
            telling.debug |= debug  # it may come from the environment, which is not read before now
        with warnings.catch_warnings():
            warnings.simplefilter("always", BertworksWarning)
            shown = warnings.showwarning

            def show(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
                if issubclass(category, BertworksWarning):
                    report.remark(f"note: {message}")
                elif not quiet:
                    shown(message, category, *rest, **more)

            warnings.showwarning = show
            function(report, **options)

    return run


def device_options(function: F) -> F:
    """--device and --dtype, for verbs that run a model."""
    function = click.option(
        "--dtype",
        type=click.Choice(["auto", "fp32", "bf16", "fp16"]),
        default="auto",
        show_default=True,
        help="auto: bf16 where the machine computes it natively (fast, about 3 digits), else fp32 (exact).",
    )(function)
    return click.option(
        "--device",
        default="auto",
        show_default=True,
        help="auto, cpu, cuda or cuda:N; auto takes a GPU where there is one.",
    )(function)


PICKLE_OPTION = click.option(
    "--allow-pickle",
    is_flag=True,
    help="Read a pytorch_model.bin where there is no safetensors file (weights only).",
)


@dataclass
class Telling:
    """How errors are told."""

    debug: bool


@contextmanager
def errors_told(debug: bool = False) -> Iterator[Telling]:
    """Errors in a line or two on stderr, and the contract's exit codes."""
    telling = Telling(debug)
    try:
        yield telling
    except (click.exceptions.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(130)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as misuse:
        misuse.show()
        sys.exit(misuse.exit_code)
    except BrokenPipeError:
        # Whoever read our output has closed it: not an error, but nothing more can be said there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except BertworksError as error:
        if telling.debug:
            raise
        _fail(error.message, error.way_out)
    except MemoryError:
        _fail("out of memory", "use a smaller model or fewer texts at once")
    except OSError as error:
        if telling.debug:
            raise
        _fail(f"{error.filename or 'the system'}: {error.strerror or error}", "")
    except Exception as error:
        if telling.debug:
            raise
        _fail(
            f"unexpected {type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}",
            "run again with --debug for the whole story",
        )


def _fail(message: str, way_out: str) -> None:
    click.echo(f"error: {message}" + (f"\n  {way_out}" if way_out else ""), err=True)
    sys.exit(1)
