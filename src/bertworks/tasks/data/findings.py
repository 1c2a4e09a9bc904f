"""What a check found: facts, and errors and warnings with their counts, their first lines and a way out."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from bertworks.tasks.data.problems import Noted, named_lines


@dataclass(frozen=True)
class Finding:
    """level: "error" or "warning"; kind: a short stable name; lines: the first of `count`."""

    level: str
    kind: str
    file: str
    count: int
    lines: tuple[int, ...]
    said: str
    advice: str
    of_dev: bool = False

    @property
    def where(self) -> str:
        return named_lines(self.lines, self.count)

    @property
    def line(self) -> str:
        """All of it in one line."""
        where = self.where
        return (
            f"{self.file}: {self.said}" + (f" ({where})" if where else "") + (f": {self.advice}" if self.advice else "")
        )


@dataclass
class Findings:
    facts: dict[str, Any] = field(default_factory=dict)
    found: list[Finding] = field(default_factory=list)
    of_dev: bool = False  # whether what is added is about the dev file

    def add(
        self, level: str, kind: str, file: str, said: str, advice: str, noted: Noted | None = None, name: str = ""
    ) -> None:
        """`noted` has the lines under `name`, or under the kind."""
        name = name or kind
        lines = tuple(noted.lines.get(name, ())) if noted else ()
        count = noted.counts.get(name, 0) if noted else 1
        self.found.append(Finding(level, kind, file, count, lines, said, advice, self.of_dev))

    @property
    def errors(self) -> list[Finding]:
        return [one for one in self.found if one.level == "error"]

    @property
    def warnings(self) -> list[Finding]:
        return [one for one in self.found if one.level == "warning"]

    def value(self) -> dict[str, Any]:
        """As `check --json` prints it."""
        return {
            **self.facts,
            "errors": [one.line for one in self.errors],
            "warnings": [one.line for one in self.warnings],
            "findings": [asdict(one) for one in self.found],
        }


def rows_said(count: int, one: str = "row") -> str:
    return f"{count:,} {one}" + ("" if count == 1 else "s")


def rows_that(count: int, verb: str, one: str = "row") -> str:
    """3 rows have, 1 row has: `verb` is that of many."""
    single = {"have": "has", "are": "is", "say": "says", "become": "becomes", "cannot": "cannot", "lack": "lacks"}
    return f"{rows_said(count, one)} {single[verb] if count == 1 else verb}"


def few(names: list[str]) -> str:
    return ", ".join(names[:6]) + (" …" if len(names) > 6 else "")
