"""bertworks embed MODEL FILE|-"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import click

from .reporting import PICKLE_OPTION, Counter, Report, device_options, verb

CHUNK = 2048  # texts held at a time: enough to sort by length, little enough to stay small


@click.command()
@click.argument("model")
@click.argument("file")
@click.option("--out", type=click.Path(dir_okay=False), help="Write to X.npy, X.jsonl or X.parquet.")
@click.option("--column", default="text", show_default=True, help="The column of JSONL, CSV, TSV and Parquet files.")
@click.option(
    "--pooling", type=click.Choice(["cls", "mean", "max", "pooler"]), help="In place of the folder's own [mean]."
)
@click.option("--normalise/--no-normalise", default=None, help="Vectors of length 1, in place of the folder's own.")
@click.option("--max-length", type=click.IntRange(min=3), help="Cut texts at this many tokens.")
@device_options
@PICKLE_OPTION
@verb
def command(
    report: Report,
    model: str,
    file: str,
    out: str | None,
    column: str,
    pooling: str | None,
    normalise: bool | None,
    max_length: int | None,
    device: str,
    dtype: str,
    allow_pickle: bool,
) -> None:
    """Turn the texts of FILE (- for standard input) into vectors, one JSON line each, or into --out.

    FILE is plain text (a text a line), .jsonl, .csv, .tsv or .parquet, also .gz and .zst. Pooling, normalising and
    length are the model folder's own where it is a sentence encoder.

    \b
    echo "a sentence" | bertworks embed MODEL -
    bertworks embed MODEL reviews.jsonl --out vectors.npy
    """
    from bertworks.runtime.predictor import load
    from bertworks.text.rows import texts

    from .vectors import writer

    sink = writer(out, as_json=report.as_json)
    predictor = load(model, device=device, dtype=dtype, allow_pickle=allow_pickle, seed=report.seed)
    counter = Counter(report, "texts")
    with sink:
        for some in _chunks(texts(file, column), CHUNK):
            vectors = predictor.embed(
                some, pooling=pooling, normalise=normalise, max_length=max_length, progress=counter.add
            )
            sink.write(some, vectors)
    counter.end()
    if report.as_json or out is not None:
        result: dict[str, Any] = {
            "model": model,
            "count": sink.count,
            "dimensions": predictor.config.hidden_size,
        }
        result |= {"out": out} if out is not None else {"embeddings": sink.kept}
        report.result(result, lambda: f"{sink.count:,} vectors of {predictor.config.hidden_size} in {out}")


def _chunks(items: Iterator[str], size: int) -> Iterator[list[str]]:
    while some := list(islice(items, size)):
        yield some
