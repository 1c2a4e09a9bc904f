"""bertworks prepare SOURCE... --tokenizer MODEL --out STORE"""

from __future__ import annotations

import os
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .reporting import Report, counted, given, misused, verb

if TYPE_CHECKING:
    from bertworks.text.preparing import Progress
    from bertworks.text.store import Store


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--tokenizer", required=True, metavar="MODEL", help="A tokenizer, model, run or store folder, or a hub id."
)
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="The store to write.")
@click.option(
    "--documents",
    "how",
    type=click.Choice(["auto", "line", "blank", "file"]),
    default="auto",
    show_default=True,
    help="What a document of a text file is: a line, a stretch between blank lines, or the file.",
)
@click.option("--column", default="text", show_default=True, help="The column of JSONL, CSV, TSV and Parquet files.")
@click.option("--repair", is_flag=True, help="Mend text that was decoded wrongly (â€œ → “).")
@click.option("--controls", is_flag=True, help="Remove control and invisible characters.")
@click.option("--spaces", is_flag=True, help="Make runs of white space one space.")
@click.option("--shortest", type=click.IntRange(min=0), default=0, help="Drop documents of fewer characters.")
@click.option("--language", "languages", multiple=True, help="Keep documents in this language (en, zh, …); repeatable.")
@click.option(
    "--duplicates",
    type=click.Choice(["keep", "exact", "near"]),
    default="keep",
    show_default=True,
    help="Drop documents that are the same as an earlier one, or nearly so.",
)
@click.option(
    "--likeness", type=click.FloatRange(0, 1, min_open=True), default=0.8, show_default=True, help="What near means."
)
@click.option(
    "--no-segment", is_flag=True, help="Take the tokenizer's marks alone for words, Chinese characters apart."
)
@click.option("--workers", type=click.IntRange(min=1), help="Processes that encode [the cores granted].")
@verb
def command(
    report: Report,
    sources: tuple[str, ...],
    tokenizer: str,
    out: Path,
    how: str,
    column: str,
    no_segment: bool,
    workers: int | None,
    **cleaning: Any,
) -> None:
    """Tokenise SOURCEs once, into a store that training reads without loading it.

    SOURCE is a file, a folder, a pattern, - for standard input, or an address such as s3://…: plain text, .jsonl,
    .json, .csv, .tsv or .parquet, also .gz and .zst. Stopped or killed, the same command goes on where it was; the
    finished store is the same, byte for byte.

    \b
    bertworks prepare wiki.jsonl.zst --tokenizer tok --out store
    bertworks prepare texts/ --documents file --tokenizer tok --out store --duplicates near --language zh
    """
    if given("likeness") and cleaning["duplicates"] != "near":
        raise misused("--likeness goes with --duplicates near")
    from bertworks.system import cores_granted
    from bertworks.text.cleaning import Cleaning
    from bertworks.text.preparing import Plan, prepare

    from .tokenizer import tokenizer_folder

    plan = Plan(
        sources,
        tokenizer_folder(tokenizer),
        documents=how,
        column=column,
        cleaning=Cleaning(**cleaning),
        segment=not no_segment,
    )
    shown = _Shown(report)
    store = prepare(plan, out, workers=workers or cores_granted(), progress=shown)
    shown.end()
    value = _value(store, out, shown)
    report.result(value, lambda: _text(value))


class _Shown:
    """A line on stderr that says how far the preparation is."""

    def __init__(self, report: Report) -> None:
        self.report, self.start, self.last = report, time.monotonic(), 0.0
        self.live = os.isatty(2) and not report.quiet
        self.state: Progress | None = None

    def __call__(self, state: Progress) -> None:
        if self.state is None and state.resumed:
            self.report.remark(f"going on after {counted(state.resumed, 'document')} that an earlier run had stored")
        self.state = state
        now = time.monotonic()
        if now - self.last < (0.2 if self.live else 10):
            return
        self.last = now
        if self.live:
            click.echo(f"\r{self._line()}\x1b[K", err=True, nl=False)
        else:
            self.report.remark(self._line())

    def end(self) -> None:
        if self.live:
            click.echo("\r\x1b[K", err=True, nl=False)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.start

    def _line(self) -> str:
        if self.state is None:
            return ""
        fresh = self.state.documents - self.state.resumed
        return (
            f"{counted(self.state.documents, 'document')}, {self.state.tokens / 1e6:,.1f} M tokens "
            f"({fresh / max(self.seconds, 1e-9):,.0f} documents a second)"
        )


def _value(store: Store, out: Path, shown: _Shown) -> dict[str, Any]:
    facts = {name: store.manifest[name] for name in ("documents", "sentences", "tokens", "words", "unknown", "dtype")}
    return {
        "out": str(out),
        **facts,
        "shards": len(store.facts),
        "report": store.manifest["report"],
        "seconds": round(shown.seconds, 3),
    }


def _text(value: dict[str, Any]) -> str:
    lines = [
        f"{value['out']}: {counted(value['documents'], 'document')}, {counted(value['sentences'], 'sentence')}, "
        f"{counted(value['tokens'], 'token')} in {counted(value['shards'], 'shard')}, {value['seconds']:.1f} s",
        *report_lines(value["report"]),
        f"next: bertworks check {shlex.quote(value['out'])}",
    ]
    return "\n".join(lines)


def report_lines(report: dict[str, int]) -> list[str]:
    """What was read, mended and dropped, a line each."""
    return [f"  {name.replace('_', ' '):28}{count:>12,}" for name, count in report.items()]
