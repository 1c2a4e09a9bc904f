"""What is wrong with a row, and how often what happened to rows."""

from __future__ import annotations

from collections.abc import Iterable

from bertworks.errors import InputError

FIRST = 5  # lines that are named before "…"


class RowError(InputError):
    """A row that a task cannot learn from. `kind` is a short stable name; `line` is where it stands."""

    def __init__(self, kind: str, place: str, line: int, said: str, way_out: str = "") -> None:
        super().__init__(f"{place}: {said}", way_out)
        self.kind, self.line, self.said = kind, line, said


class Noted:
    """How often each thing happened, by stable names, and where first. Nothing in it grows with the file."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.lines: dict[str, list[int]] = {}

    def add(self, kind: str, line: int, n: int = 1) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + n
        first = self.lines.setdefault(kind, [])
        if len(first) < FIRST and line and line not in first:
            first.append(line)

    def where(self, kind: str) -> str:
        """`line 4`, `lines 4, 9 and 12`, `lines 4, 9, 12, 20, 31 …`; empty where no line is known."""
        return named_lines(self.lines.get(kind, ()), self.counts.get(kind, 0))


def named_lines(lines: Iterable[int], count: int) -> str:
    told = [f"{line:,}" for line in lines]
    if not told:
        return ""
    if len(told) == 1:
        return f"line {told[0]}" + (" …" if count > 1 else "")
    if count > len(told):
        return f"lines {', '.join(told)} …"
    return f"lines {', '.join(told[:-1])} and {told[-1]}"
