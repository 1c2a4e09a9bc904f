"""bertworks evaluate MODEL --data FILE|STORE"""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .reporting import PICKLE_OPTION, Report, device_options, misused, verb

if TYPE_CHECKING:
    from bertworks.runtime.predictor import Predictor

ROWS = 64  # of a store's, at a time


@click.command()
@click.argument("model")
@click.option("--data", required=True, metavar="FILE|STORE", help="Labelled examples; or a store, for masked words.")
@click.option("--report", "page", metavar="FILE", help="Also write a report: X.html for a person, or X.json.")
@click.option("--columns", metavar="OURS=THEIRS", multiple=True, help="A column's name, such as text=sentence.")
@click.option("--separator", help="What stands between several labels in one text.")
@click.option("--length", type=click.IntRange(8), help="STORE: tokens of a row [128].")
@device_options
@PICKLE_OPTION
@verb
def command(
    report: Report,
    model: str,
    data: str,
    page: str | None,
    columns: tuple[str, ...],
    separator: str | None,
    length: int | None,
    device: str,
    dtype: str,
    allow_pickle: bool,
) -> None:
    """Measure a fine-tuned MODEL on labelled examples: figures with their intervals, beside what guessing reaches, and
    the worst mistakes. On a STORE, how well it fills masked words.

    \b
    bertworks evaluate run --data test.csv
    bertworks evaluate run --data test.csv --report report.html
    bertworks evaluate MODEL --data store
    """
    from bertworks.errors import InputError
    from bertworks.runtime.predictor import load

    if page is not None and Path(page).suffix not in (".html", ".json"):
        raise misused(f"--report {page}: its name ends in .html or .json")
    if Path(data).is_dir():
        for name, value in (("report", page), ("columns", columns), ("separator", separator)):
            if value:
                raise misused(f"--{name} is for a FILE of examples, and {data} is a folder")
        predictor = load(
            model, heads=["masked_lm"], device=device, dtype=dtype, allow_pickle=allow_pickle, seed=report.seed
        )
        _masked(report, predictor, model, data, length or min(128, predictor.max_length))
        return
    if length is not None:
        raise misused(f"--length is for a STORE, and {data} is not one: a model keeps its own")
    predictor = load(model, device=device, dtype=dtype, allow_pickle=allow_pickle, seed=report.seed)
    if not Path(data).exists() and data != "-":
        raise InputError(f"{data} is not a file", "name the file of examples, or a store")
    _examples(report, predictor, model, data, page, columns, separator)


def _examples(
    report: Report,
    predictor: Predictor,
    model: str,
    data: str,
    page: str | None,
    columns: tuple[str, ...],
    separator: str | None,
) -> None:
    from bertworks.inspect.report import text
    from bertworks.tasks.data import read
    from bertworks.tasks.predicting import predictions_of

    from .check_file import mapped
    from .evaluating import pages, report_of

    task = predictor.task
    table = read(data, task.reads, mapped(columns), separator=separator, say=report.remark)
    task.require(table, report.remark)
    predictions = predictions_of(task, predictor.model, predictor.tokenizer, table.rows)
    scores = task.score(table.rows, predictions, report.seed)
    shown = report_of(task, model, table.rows, predictions, scores)
    more = [part for one in columns for part in ("--columns", one)]
    shown = replace(shown, data=data, command=shlex.join(["bertworks", "evaluate", model, "--data", data, *more]))
    if page is not None:
        pages(shown, Path(page))
    report.result(scores.json(), lambda: text(shown))


def _masked(report: Report, predictor: Predictor, model: str, data: str, length: int) -> None:
    """The loss on masks that are always the same."""
    from bertworks.tasks.masked import masked_figures
    from bertworks.text.store import Store

    store = Store(data)
    store.require(predictor.tokenizer, model)
    figures, rows = masked_figures(predictor.model, predictor.config, store, length, report.remark)
    value: dict[str, Any] = {"metrics": figures, "intervals": {}, "examples": rows}
    told = [f"{model} on {data}: {rows:,} rows of {length} tokens, masks that never change"]
    told += [f"  {name.replace('_', ' '):<16} {figure:.4f}" for name, figure in figures.items()]
    report.result(value, lambda: "\n".join(told))
