"""A dev file beside its train file: rows that are in both, and labels that are in one."""

from __future__ import annotations

from bertworks.tasks.data.findings import Findings, few, rows_said
from bertworks.tasks.data.labels import ordered
from bertworks.tasks.data.problems import Noted
from bertworks.tasks.data.read import Source
from bertworks.tasks.data.shapes import Asked, Row
from bertworks.tasks.data.split import normalised, said
from bertworks.tasks.data.watch import ANSWER_BITS, Watch, answered, number


class Leaks:
    """Which rows of another file are in this one."""

    def __init__(self, train: Watch) -> None:
        self.train, self.noted = train, Noted()

    def take(self, row: Row) -> None:
        before = self.train.seen.get(number(said(row)))
        if before is not None:
            self.noted.add("leak", row.line)
            if before & ((1 << ANSWER_BITS) - 1) != number(answered(row)) & ((1 << ANSWER_BITS) - 1):
                self.noted.add("leak-conflict", row.line)
        elif isinstance(row, Asked) and number(normalised(row.context)) in self.train.contexts:
            self.noted.add("shared-context", row.line)

    def told(self, found: Findings, train: Source, dev: Source, rows: int) -> None:
        if count := self.noted.counts.get("leak"):
            other = self.noted.counts.get("leak-conflict", 0)
            told = f"{count:,} of {rows:,} rows ({count / rows:.1%}) are in {train.file} too"
            told += f", {other:,} of them with another label" if other else ""
            found.add("warning", "leak", dev.file, told, "scores will be too good: take them out of one", self.noted)
        if count := self.noted.counts.get("shared-context"):
            told = f"{rows_said(count, 'question')} about texts that {train.file} asks about too"
            found.add("warning", "shared-context", dev.file, told, "split by text, not by question", self.noted)


def strangers(found: Findings, train: Source, ours: Watch, dev: Source, theirs: Watch) -> None:
    """Labels that only one of the files has."""
    if train.task not in ("classify", "prompt", "tag"):
        return
    spans = train.task == "tag" and ours.by_type
    first, second = (ours.types, theirs.types) if spans else (ours.labels, theirs.labels)
    noted = Noted()
    what = "tag" if train.task == "tag" else "label"
    if new := [name for name in ordered(second) if name not in first]:
        for name in new:
            noted.add("unseen", (theirs.first_type if spans else theirs.first).get(name, 0), second[name])
        told = f"{rows_said(len(new), what)} that {train.file} has not: {few(new)}"
        advice = "they count as answered wrongly" if train.task == "tag" else "mend them, or add such rows to train"
        found.add("warning" if train.task == "tag" else "error", "unseen", dev.file, told, advice, noted)
    if gone := [name for name in ordered(first) if name not in second]:
        told = f"{rows_said(len(gone), what)} of {train.file} not met: {few(gone)}"
        found.add("warning", "not-met", dev.file, told, "the score says nothing about them")
