"""`bertworks check FILE`: what is in a file of examples, for a person."""

from __future__ import annotations

import os
import re
import shlex
import textwrap
from typing import TYPE_CHECKING, Any

import click

from .reporting import Report, cells, counted, misused

if TYPE_CHECKING:
    from pathlib import Path

    from bertworks.tasks.data.findings import Finding, Findings

TASKS = ("classify", "regress", "tag", "answer", "choose", "embed", "prompt")
BAR = 24  # columns of the longest bar
SHOWN = 12  # labels
WIDTH = 120


def check_file(
    report: Report,
    data: str,
    dev: str | None,
    task: str | None,
    columns: tuple[str, ...],
    separator: str | None,
    model: str | None,
    length: int | None,
) -> None:
    from bertworks.errors import BertworksError, InputError
    from bertworks.tasks.data.check import examine, guarded
    from bertworks.tasks.data.read import Reading

    mapping = mapped(columns)
    tokenizer = None
    if model is not None:
        from bertworks.text.tokenizer import Tokenizer

        from .tokenizer import tokenizer_folder

        folder = tokenizer_folder(model)
        tokenizer = Tokenizer.load(folder)
        length = length or _longest(folder, tokenizer.max_length)
    elif length is not None:
        raise misused("--length counts a model's tokens: name it with --model")
    how = Reading(task, mapping, separator=separator)
    try:
        found = examine(data, how, dev=dev, tokenizer=tokenizer, length=length or 512, say=report.remark)
    except BertworksError as error:
        told = type(error)(_as_option(error.message), _as_option(error.way_out))
        if not report.as_json or not isinstance(told, InputError):
            raise told from None
        found = guarded(data, told)
    report.result(found.value(), lambda: _text(found, model, dev))
    if found.errors:
        raise click.exceptions.Exit(1)


def _as_option(said: str) -> str:
    """Errors name columns as a recipe does."""
    return re.sub(r"\bdata\.(\w+)=", r"--columns \1=", said)


def mapped(columns: tuple[str, ...]) -> dict[str, str]:
    """text=sentence, data.text=sentence, or several with commas between, as {"text": "sentence"}."""
    mapping = {}
    for one in (part for some in columns for part in some.split(",")):
        ours, equals, theirs = one.strip().removeprefix("data.").partition("=")
        if not equals or not ours or not theirs:
            raise misused(f"--columns {one}: write OURS=THEIRS, such as text=sentence")
        mapping[ours.strip()] = theirs.strip()
    return mapping


def _longest(folder: Path, told: int | None) -> int:
    """The tokens a model takes; where there is only a tokenizer, what it says."""
    from bertworks.models.folder import describe

    if not (folder / "config.json").exists():
        return told or 512
    most = int(describe(folder).config.max_length)
    return min(most, told or most)


def uncoloured(text: str) -> str:
    """Without colour where the person has set NO_COLOR; a pipe loses it in click."""
    return click.unstyle(text) if os.environ.get("NO_COLOR") else text


def _text(found: Findings, model: str | None, dev: str | None) -> str:
    facts = found.facts
    lines: list[str] = []
    for number, one in enumerate([facts, *([facts["dev"]] if "dev" in facts else [])]):
        here = [finding for finding in (*found.errors, *found.warnings) if finding.of_dev == bool(number)]
        lines += [*_file(one, facts["task"]), *(line for finding in here for line in _finding(finding)), ""]
    if not found.found:
        lines.append("nothing to complain of")
    if not found.errors and facts["rows"] and facts["task"] != "prompt":
        given = [shlex.quote(facts["file"]), *(["--dev", shlex.quote(dev)] if dev else [])]
        lines.append(
            f"next: bertworks finetune {facts['task']} --model {shlex.quote(model or 'MODEL')} "
            f"--train {' '.join(given)} --out run"
        )
    return uncoloured("\n".join(lines))


def _file(facts: dict[str, Any], task: str) -> list[str]:
    columns = ", ".join(ours if ours == theirs else f"{ours} = {theirs}" for ours, theirs in facts["columns"].items())
    head = f"{facts['file']}: {counted(facts['rows'], 'row')} for {task}"
    lines = [click.style(head, bold=True)]
    if columns:
        lines.append(f"  columns     {columns}")
    if "characters" in facts:
        lines.append(f"  length      {_sizes(facts['characters'], 'character')}")
    if "tokens" in facts:
        lines.append(f"  tokens      {_sizes(facts['tokens'], 'token')}; {_cut(facts)}")
    if "scores" in facts:
        lines.append(f"  scores      from {facts['scores']['least']:g} to {facts['scores']['most']:g}")
    if "contexts" in facts:
        share = facts["unanswerable"] / max(facts["rows"], 1)
        lines.append(f"  questions   about {counted(facts['contexts'], 'text')}; {share:.1%} have no answer")
    if "choices" in facts:
        told = ", ".join(f"{rows:,} of {count}" for count, rows in facts["choices"].items())
        lines.append(f"  choices     {told}")
    if "scheme" in facts:
        what = "entities" if "entities" in facts else "tags"
        scheme = facts["scheme"].upper() if facts["scheme"] not in ("plain", "spans") else facts["scheme"]
        lines += _bars(what, facts.get("entities", facts["labels"]), f" ({scheme})")
    elif "labels" in facts:
        lines += _bars("labels", facts["labels"], "")
    return lines


def _sizes(sizes: dict[str, int], what: str) -> str:
    return (
        f"median {counted(sizes['median'], what)}, nine of ten up to {sizes['ninety_percent']:,}, "
        f"longest {sizes['longest']:,}"
    )


def _cut(facts: dict[str, Any]) -> str:
    return f"{facts['cut_share']:.1%} over {facts['tokens']['limit']}; {facts['unknown_share']:.2%} unknown"


def _bars(what: str, counts: dict[str, int], tail: str) -> list[str]:
    """A bar a label, the most frequent first where there are more than can be shown."""
    if not counts:
        return [f"  {what:<11} none{tail}"]
    total = sum(counts.values())
    kept = dict(sorted(counts.items(), key=lambda one: -one[1])[:SHOWN]) if len(counts) > SHOWN else counts
    wide = max(cells(name[:30]) for name in kept)
    most = max(kept.values())
    lines = [f"  {what:<11} {len(counts):,}{tail}"]
    for name, count in kept.items():
        bar = "█" * max(1, round(BAR * count / most))
        padded = name[:30] + " " * (wide - cells(name[:30]))
        lines.append(f"    {padded}  {count:>9,}  {count / total:>6.1%}  {click.style(bar, fg='cyan')}")
    if len(kept) < len(counts):
        lines.append(f"    and {len(counts) - len(kept):,} more")
    return lines


def _finding(one: Finding) -> list[str]:
    """What is wrong and where, and below it what to do."""
    where = f" ({one.where})" if one.where else ""
    told = textwrap.wrap(one.said + where, WIDTH - 13, break_long_words=False, break_on_hyphens=False)
    if one.advice:
        told.append(click.style(_as_option(one.advice), dim=True))
    head = click.style(f"  {one.level:<9} ", fg="red" if one.level == "error" else "yellow")
    return [head + told[0], *(" " * 12 + line for line in told[1:])]
