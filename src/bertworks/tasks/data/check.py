"""What in a file of examples would hurt a training, told before it begins. Rows are read once and not kept."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bertworks.errors import InputError
from bertworks.tasks.data.beside import Leaks, strangers
from bertworks.tasks.data.findings import Findings, few, rows_said, rows_that
from bertworks.tasks.data.fit import Fit
from bertworks.tasks.data.labels import ordered
from bertworks.tasks.data.problems import Noted
from bertworks.tasks.data.read import DONE, HINT, Reading, Source
from bertworks.tasks.data.shapes import Row
from bertworks.tasks.data.watch import Watch
from bertworks.text.records import one_file
from bertworks.text.tokenizer import Tokenizer

RARE = 5  # rows of a label, under which it is hardly learnt
UNEQUAL = 20  # times the rows of the rarest label
MOST = 0.8  # the share of one label
MANY_CUT = 0.01
MANY_UNKNOWN = 0.005
MANY_DUPLICATES = 0.001
MANY_LABELS = 50
SAID = {  # kinds of rows that cannot be read: what is said of many
    "unreadable": "cannot be read",
    "missing-column": "lack a column",
    "no-label": "have no label",
    "bad-label": "have a label that is none",
    "bad-text": "have a text that is none",
    "unequal": "have not as many tags as tokens",
    "bad-entity": "have an entity that is none",
    "bad-answer": "have an answer that is not in the context",
    "bad-choices": "have choices that are none",
}


def examine(
    path: str,
    how: Reading,
    *,
    dev: str | None = None,
    tokenizer: Tokenizer | None = None,
    length: int = 512,
    say: Callable[[str], None],
) -> Findings:
    """Everything about one file, and about a dev file beside it."""
    found = Findings()
    source, watch, fit = _watched(path, how, tokenizer, length, say)
    found.facts = {"file": source.file, "task": source.task, **_facts(source, watch, fit)}
    _problems(found, source.file, watch)
    _noted(found, source, watch)
    if watch.rows:
        _labelled(found, source, watch)
        _tagged(found, source.file, watch)
        _fitted(found, source.file, source.task, fit)
    if dev is not None:
        found.of_dev = True
        leaks = Leaks(watch)
        other, beside, fit = _watched(dev, replace(how, task=source.task), tokenizer, length, say, leaks.take)
        found.facts["dev"] = {"file": other.file, **_facts(other, beside, fit)}
        _problems(found, other.file, beside)
        _noted(found, other, beside)
        _tagged(found, other.file, beside)
        _fitted(found, other.file, other.task, fit)
        if watch.rows and beside.rows:
            leaks.told(found, source, other, beside.rows)
            strangers(found, source, watch, other, beside)
    return found


def _watched(
    path: str,
    how: Reading,
    tokenizer: Tokenizer | None,
    length: int,
    say: Callable[[str], None],
    also: Callable[[Row], None] | None = None,
) -> tuple[Source, Watch, Fit | None]:
    """A file read to its end."""
    watch = Watch()
    fit = Fit(tokenizer, length) if tokenizer is not None else None
    source = Source(one_file(path), replace(how, bad=watch.bad), say)
    for row in source:
        watch.take(row)
        if fit is not None:
            fit.take(row)
        if also is not None:
            also(row)
    if fit is not None:
        fit.end()
    return source, watch, fit


# -- what there is ---------------------------------------------------------------------------------------


def _facts(source: Source, watch: Watch, fit: Fit | None) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "rows": watch.rows,
        "bad_rows": sum(watch.noted.counts.get(one, 0) for one in watch.problems),
    }
    facts["columns"] = dict(source.columns.named) if source.columns else {}
    if not watch.rows:
        return facts
    facts["characters"] = _spread(watch.sizes)
    if fit is not None:
        facts["tokens"] = {**_spread(fit.sizes), "limit": fit.length}
        facts["cut_share"] = round(fit.noted.counts.get("cut", 0) / watch.rows, 4)
        facts["unknown_share"] = round(fit.unknown / max(fit.tokens, 1), 5)
    if source.task == "tag":
        facts["scheme"] = watch.finder.scheme if "tags" in facts["columns"] else "spans"
        if watch.by_type:
            facts["entities"] = {name: watch.types[name] for name in ordered(watch.types)}
    if source.task in ("classify", "prompt", "tag"):
        facts["labels"] = {name: watch.labels[name] for name in ordered(watch.labels)}
    if source.task == "choose":
        facts["choices"] = {str(count): rows for count, rows in sorted(watch.choices.items())}
    if source.task == "answer":
        facts["unanswerable"] = watch.unanswerable
        facts["contexts"] = len(watch.contexts)
    if watch.scores[0] <= watch.scores[1]:
        facts["scores"] = {"least": watch.scores[0], "most": watch.scores[1]}
    return facts


def _spread(sizes: array[int]) -> dict[str, int]:
    middle, most = np.percentile(np.frombuffer(sizes, np.uint32), [50, 90])
    return {"median": int(middle), "ninety_percent": int(most), "longest": max(sizes)}


# -- what is wrong ---------------------------------------------------------------------------------------


def _many(count: int, what: str) -> str:
    verb, _, rest = what.partition(" ")
    return f"{rows_that(count, verb)} {rest}"


def _problems(found: Findings, file: str, watch: Watch) -> None:
    """Rows that cannot be read."""
    for kind, first in watch.problems.items():
        count = watch.noted.counts[kind]
        told = first.said if count == 1 else f"{_many(count, SAID[kind])}, the first: {first.said}"
        found.add("error", kind, file, told, first.way_out, watch.noted)


def _noted(found: Findings, source: Source, watch: Watch) -> None:
    """Rows that can be read and are not what they should be."""
    file, noted, counts = source.file, watch.noted, watch.noted.counts
    if not watch.rows:
        found.add(
            "error",
            "no-rows",
            file,
            "no rows" + (" that can be read" if watch.problems else ""),
            HINT,
        )
    done = source.noted
    if count := done.counts.get("empty"):
        found.add("warning", "empty", file, f"{rows_said(count)} with an empty text", "take them out", done)
    for kind, what in DONE.items():
        if count := done.counts.get(kind):
            found.add("warning", kind, file, f"{count:,} {what}", "look whether that is right", done)
    if count := counts.get("conflict"):
        told = f"{rows_that(count, 'say')} what another says, labelled otherwise"
        found.add("warning", "conflict", file, told, "no model can learn both: settle on one", noted)
    again = counts.get("duplicate", 0)
    if again > MANY_DUPLICATES * watch.rows:
        told = f"{rows_said(again)} ({again / watch.rows:.1%}) there already"
        found.add("warning", "duplicate", file, told, "keep one of each, unless how often counts", noted)
    if count := counts.get("same-choices"):
        found.add(
            "warning", "same-choices", file, f"{rows_said(count)} with two choices alike", "which is right?", noted
        )
    _encoding(found, source, watch)


def _encoding(found: Findings, source: Source, watch: Watch) -> None:
    file, tally = source.file, source.tally.counts
    lost = tally.get("bad_utf8_lines", 0)
    if count := watch.noted.counts.get("replacement"):
        told = f"{rows_said(count)} with characters that were lost (U+FFFD)"
        told += f"; {rows_said(lost, 'line')} not UTF-8" if lost else ""
        found.add("warning", "replacement", file, told, "make the file again from its source, as UTF-8", watch.noted)
    elif lost:
        found.add("warning", "bad-utf8", file, f"{rows_said(lost, 'line')} not UTF-8", "make the file again as UTF-8")
    if count := watch.noted.counts.get("mojibake"):
        told = f"{rows_said(count)} with text that looks decoded wrongly, such as Ã© for é"
        found.add("warning", "mojibake", file, told, "mend the text: ftfy can", watch.noted)
    if count := tally.get("nul_characters"):
        found.add(
            "warning", "nul", file, f"{rows_said(count, 'NUL character')}, removed", "look at what wrote the file"
        )


def _labelled(found: Findings, source: Source, watch: Watch) -> None:
    """Whether the labels can be learnt."""
    file, noted = source.file, Noted()
    if source.task in ("classify", "prompt"):
        counts = watch.labels
        _classes(found, source, watch)
    elif source.task == "tag":
        counts = watch.types if watch.by_type else watch.labels
        if not counts:
            found.add("error", "one-label", file, "no row has an entity: every tag is O", "there is nothing to learn")
    else:
        counts = Counter()
    if source.task == "regress" and watch.scores[0] == watch.scores[1]:
        said = f"every row has the score {watch.scores[0]:g}"
        found.add("error", "one-label", file, said, "there is nothing to learn")
    rare = [name for name in ordered(counts) if counts[name] < RARE]
    for name in rare:
        noted.add("rare", (watch.first_type if counts is watch.types else watch.first).get(name, 0), counts[name])
    if rare:
        what = ("label", "labels") if source.task != "tag" else ("tag", "tags")
        told = f"{len(rare):,} {what[len(rare) > 1]} with fewer than {RARE} rows: {few(rare)}"
        found.add("warning", "rare", file, told, "find more of them, or join them to others", noted)


def _classes(found: Findings, source: Source, watch: Watch) -> None:
    file, counts = source.file, watch.labels
    if not counts and source.several:
        found.add("error", "one-label", file, "no row has a label", "is it the right column? data.label=COLUMN")
    elif len(counts) == 1 and not source.several:
        said = f"every row has the label {next(iter(counts))!r}"
        found.add("error", "one-label", file, said, "two labels at least are wanted to tell apart")
    elif len(counts) > MANY_LABELS and len(counts) * 2 > watch.rows:
        said = f"{len(counts):,} different labels in {watch.rows:,} rows"
        found.add("warning", "many-labels", file, said, "is it the right column? scores go with --task regress")
    elif counts:
        (most, many), (least, fewest) = counts.most_common()[0], counts.most_common()[-1]
        if many > MOST * watch.rows or many > UNEQUAL * fewest:
            said = f"label {most!r} has {many:,} of {watch.rows:,} rows, {least!r} {fewest:,}"
            found.add("warning", "imbalance", file, said, "weigh the classes, and look at F1 in place of accuracy")


def _tagged(found: Findings, file: str, watch: Watch) -> None:
    if not watch.finder.tags:
        return
    scheme = watch.finder.scheme
    name = watch.broken(scheme)
    if scheme != "plain" and (count := watch.noted.counts.get(name)):
        told = f"{rows_said(count, 'sentence')} whose tags break {scheme.upper()}"
        found.add("warning", "broken-tags", file, told, "they are read as conlleval does; mend them", watch.noted, name)


def _fitted(found: Findings, file: str, task: str, fit: Fit | None) -> None:
    if fit is None or not fit.sizes:
        return
    rows, noted, counts = len(fit.sizes), fit.noted, fit.noted.counts
    cut = counts.get("cut", 0)
    if cut > MANY_CUT * rows:
        told = f"{rows_said(cut)} ({cut / rows:.1%}) longer than {fit.length} tokens"
        advice = "they are read in windows" if task == "answer" else "their ends are cut: a larger length, or windows"
        found.add("warning", "cut", file, told, advice, noted)
    if fit.unknown > MANY_UNKNOWN * fit.tokens:
        told = f"{fit.unknown / fit.tokens:.1%} of the tokens are unknown to the tokenizer"
        found.add("warning", "unknown", file, told, "is it a model of another language or case?")
    for kind, what in {
        "word-nothing": "words become no token at all: their tags teach nothing",
        "word-unknown": "words are unknown to the tokenizer altogether",
    }.items():
        if count := counts.get(kind):
            shown = few([repr(word) for word in fit.lost])
            found.add("warning", kind, file, f"{count:,} {what}", f"such as {shown}", noted)
    for kind, what in {"row-nothing": "become no token at all", "row-unknown": "have unknown tokens only"}.items():
        if count := counts.get(kind):
            found.add("warning", kind, file, _many(count, what), "the model sees nothing of them", noted)
    if count := counts.get("unaligned"):
        told = f"{rows_said(count)} where an entity or answer begins or ends inside a token"
        found.add("warning", "unaligned", file, told, "the model can only give whole tokens", noted)


def guarded(path: str, error: InputError) -> Findings:
    """A file that cannot be read at all, as a finding."""
    found = Findings({"file": path, "rows": 0})
    found.add("error", "unreadable", path, error.message.removeprefix(f"{path}: "), error.way_out)
    return found
