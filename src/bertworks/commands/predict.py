"""bertworks predict MODEL [FILE|-] [--out FILE --resume]"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from .reporting import PICKLE_OPTION, Counter, Report, device_options, misused, verb

if TYPE_CHECKING:
    from bertworks.runtime.predictor import Predictor
    from bertworks.tasks.data import Row

CHUNK = 2048  # rows held at a time: enough to sort by length, little enough to stay small


@click.command()
@click.argument("model")
@click.argument("file", default="-")
@click.option("--out", type=click.Path(dir_okay=False), help="Write to X.jsonl, X.csv or X.parquet.")
@click.option("--resume", is_flag=True, help="Go on with an --out that was interrupted.")
@click.option("--columns", metavar="OURS=THEIRS", multiple=True, help="A column's name, such as text=sentence.")
@device_options
@PICKLE_OPTION
@verb
def command(
    report: Report,
    model: str,
    file: str,
    out: str | None,
    resume: bool,
    columns: tuple[str, ...],
    device: str,
    dtype: str,
    allow_pickle: bool,
) -> None:
    """What a fine-tuned MODEL says of each row of FILE (- for standard input), in their order: a JSON object a line,
    the row's own columns and its `prediction`. Nothing grows with the file.

    FILE is plain text (a text a line), .jsonl, .csv, .tsv, .parquet or any other that `finetune` reads.

    \b
    echo "what a film" | bertworks predict run
    bertworks predict run reviews.csv --out predicted.jsonl
    """
    from bertworks.runtime.predictor import load
    from bertworks.tasks.data import rows
    from bertworks.tasks.data.read import Reading

    from .check_file import mapped
    from .predicted import Sink, finished

    if resume and (out is None or file == "-"):
        raise misused("--resume goes with --out and a FILE: standard input cannot be read again")
    if out is not None and resume and (count := finished(out)) is not None:
        report.result({"out": out, "count": count, "already": True}, lambda: f"{out} is finished: {count:,} rows")
        return
    sink = Sink(out, resume, {"model": model, "file": file})
    predictor = load(model, device=device, dtype=dtype, allow_pickle=allow_pickle, seed=report.seed)
    task = predictor.task
    found = rows(file, Reading(task.reads, mapped(columns), labelled=False, keep=True), report.remark)
    counter = Counter(report, "rows")
    with sink:
        for some in _chunks(islice(found, sink.count, None), file):
            said = _said(predictor, some)
            if out is None and report.as_json:
                sink.kept += said
            sink.write(said, quiet=report.as_json)
            counter.add(len(some))
    counter.end()
    if out is not None:
        report.result({"out": out, "count": sink.count}, lambda: f"{sink.count:,} rows in {out}")
    elif report.as_json:
        report.result({"count": sink.count, "predictions": sink.kept}, lambda: "")


def _said(predictor: Predictor, some: list[Row]) -> list[dict[str, Any]]:
    """Each row's own columns, and what is predicted."""
    predictions = predictor.predict(some)
    return [{**(row.record or {}), "prediction": one} for row, one in zip(some, predictions, strict=True)]


def _chunks(rows: Iterator[Row], file: str) -> Iterator[list[Row]]:
    """Who types wants an answer to each line."""
    size = 1 if file == "-" and sys.stdin.isatty() else CHUNK
    while some := list(islice(rows, size)):
        yield some
