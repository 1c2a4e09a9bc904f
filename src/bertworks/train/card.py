"""A run's README.md: what the model learned from, how well, and how to use it, told from the run's files."""

from __future__ import annotations

import json
import tomllib
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from math import ceil, floor, log10
from pathlib import Path
from typing import Any

from bertworks.folders import written

from .watch import metrics

CURVE = "curve.svg"
WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 32, 32, 48  # the margins around the plot
BUCKETS = 400  # points of a curve at most
LAST = 100  # steps that "at the end" means

# Facts that have their own place in the card; all others are rows of "What it learned from".
PLACED = ("name", "tags", "language", "license", "mask_token", "plateau")


def model_card(run: Path, facts: Mapping[str, object]) -> str:
    """The card as Markdown; its curve is written beside it, as curve.svg.

    facts: name (the run's by default), language, license, tags, mask_token, plateau (nats of a model that knows word
    frequencies only, drawn as a line); and what to tell of the training: data, documents, tokens, objective, recipe, ….
    Settings are read from the run's recipe.toml, figures from its metrics.jsonl.
    """
    told = _History.of(run)
    plateau = facts.get("plateau")
    with written(run / CURVE) as file:
        file.write(curve(told, plateau if isinstance(plateau, float | int) else None).encode())
    name = str(facts.get("name", run.name))
    parts = [
        _front_matter(facts),
        f"# {name}",
        "A masked language model, trained with bertworks.",
        "## How to use it",
        _usage(run, facts),
        "## What it learned from",
        _table({key.replace("_", " "): value for key, value in facts.items() if key not in PLACED}),
        "## How it learned",
        f"![The loss, step by step]({CURVE})",
        _table(told.figures()),
        *(["The training warned:", "\n".join(f"- {_cell(line)}" for line in told.warnings)] if told.warnings else []),
        "## Settings",
        _table(_settings(run)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


@dataclass
class _History:
    """What metrics.jsonl tells, thinned as it is read."""

    training: _Thinned = field(default_factory=lambda: _Thinned())
    held_out: list[tuple[float, float]] = field(default_factory=list)
    last: dict[str, Any] = field(default_factory=dict)  # the last step's row
    looked: dict[str, Any] = field(default_factory=dict)  # the last look at held-out text
    ends: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=LAST))  # the rows of the last steps
    warnings: deque[str] = field(default_factory=lambda: deque(maxlen=10))

    @classmethod
    def of(cls, run: Path) -> _History:
        told = cls()
        for row in metrics(run):
            if "warning" in row:
                told.warnings.append(f"step {row['step']:,}: {row['warning']}")
            elif "loss" in row:
                told.last = row
                told.ends.append(row)
                told.training.add(row["step"], row["loss"])
            else:
                told.looked = row
                if row.get("dev_loss") is not None:
                    told.held_out.append((row["step"], row["dev_loss"]))
        return told

    def figures(self) -> dict[str, object]:
        if not self.last:
            return {}
        found: dict[str, object] = {"steps": self.last["step"], "tokens seen": self.last.get("tokens")}
        found["minutes"] = round(self.last.get("minutes") or 0, 1)
        for name in ("loss", "masked_accuracy", "pair_loss", "pair_accuracy", "tokens_per_second", "peak_share"):
            values = [row[name] for row in self.ends if row.get(name) is not None]
            if values:
                found[f"{_plain(name)}, mean of the last {len(self.ends)} steps"] = _figure(
                    name, sum(values) / len(values)
                )
        for name, value in self.looked.items():
            if name != "step" and value is not None:
                found[f"held-out {_plain(name.removeprefix('dev_'))}, step {self.looked['step']:,}"] = _figure(
                    name, value
                )
        if self.held_out:
            step, loss = min(self.held_out, key=lambda point: point[1])
            found[f"lowest held-out loss, step {step:,}"] = f"{loss:.3f}"
        return found


class _Thinned:
    """Means over equal stretches of steps, wider ones as more come: a long run's curve in a few hundred points."""

    def __init__(self) -> None:
        self.width = 1
        self.sums: dict[int, tuple[float, float, int]] = {}

    def add(self, step: int, value: float | None) -> None:
        if value is None:
            return
        self._put(step // self.width, (step, value, 1))
        if len(self.sums) > BUCKETS:
            old, self.sums, self.width = self.sums, {}, self.width * 2
            for place, sums in old.items():
                self._put(place // 2, sums)

    def _put(self, place: int, sums: tuple[float, float, int]) -> None:
        steps, values, count = self.sums.get(place, (0, 0.0, 0))
        self.sums[place] = (steps + sums[0], values + sums[1], count + sums[2])

    def points(self) -> list[tuple[float, float]]:
        """(the mean step, the mean value) of each stretch, in order."""
        return [(steps / count, values / count) for steps, values, count in self.sums.values()]


# -- the curve -----------------------------------------------------------------------------------------------


def curve(told: _History, plateau: float | None = None) -> str:
    """The losses over the steps as SVG, axes from the least to the greatest."""
    lines = [("training", "#1f6feb", told.training.points()), ("held out", "#d1242f", told.held_out)]
    points = [point for _, _, some in lines for point in some]
    if not points:
        return _svg(f'<text x="{WIDTH / 2}" y="{HEIGHT / 2}" text-anchor="middle">no steps</text>')
    across = _Axis.over([0.0, *(x for x, _ in points)], LEFT, WIDTH - RIGHT)
    up = _Axis.over([*(y for _, y in points), *([plateau] if plateau else [])], HEIGHT - BOTTOM, TOP)
    parts = [*_axes(across, up)]
    if plateau:
        y = up.place(plateau)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#8b949e" stroke-dasharray="5 4"/>')
        parts.append(f'<text x="{WIDTH - RIGHT - 4}" y="{y - 4:.1f}" text-anchor="end">word frequencies alone</text>')
    for number, (name, colour, some) in enumerate(line for line in lines if line[2]):
        places = " ".join(f"{across.place(x):.1f},{up.place(y):.1f}" for x, y in some)
        parts.append(f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        if len(some) <= 40:  # few points are marked, so that a single one is seen at all
            parts += [
                f'<circle cx="{across.place(x):.1f}" cy="{up.place(y):.1f}" r="2.5" fill="{colour}"/>' for x, y in some
            ]
        x = LEFT + 12 + 110 * number
        parts.append(
            f'<path d="M{x} 18h20" stroke="{colour}" stroke-width="2"/><text x="{x + 26}" y="22">{name}</text>'
        )
    return _svg("\n".join(parts))


@dataclass(frozen=True)
class _Axis:
    """Numbers from `low` to `high`, drawn from `start` to `end`, with a tick every `step`."""

    low: float
    high: float
    step: float
    start: float
    end: float

    @classmethod
    def over(cls, values: list[float], start: float, end: float) -> _Axis:
        """An axis that holds the values, from a tick to a tick, some five of them at 1, 2 or 5 times a power of 10."""
        low, high = min(values), max(values)
        if high - low < 1e-6:
            low, high = low - 0.5, high + 0.5
        rough = (high - low) / 5
        power = 10 ** floor(log10(rough))
        step = power * next(size for size in (1, 2, 5, 10) if size * power >= rough * 0.999)
        return cls(floor(low / step) * step, ceil(high / step) * step, step, start, end)

    def place(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> Iterator[tuple[float, str]]:
        for number in range(round((self.high - self.low) / self.step) + 1):
            value = self.low + number * self.step
            yield self.place(value), f"{round(value, 6):,.6g}" if self.step < 1 or value < 1e6 else f"{value / 1e6:g} M"


def _axes(across: _Axis, up: _Axis) -> Iterator[str]:
    for y, label in up.ticks():
        yield f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#eaeef2"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
    for x, label in across.ticks():
        yield f'<path d="M{x:.1f} {HEIGHT - BOTTOM}v5" stroke="#57606a"/>'
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{label}</text>'
    yield f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" stroke="#57606a"/>'
    middle = (TOP + HEIGHT - BOTTOM) / 2
    yield f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">steps</text>'
    yield f'<text transform="translate(16 {middle}) rotate(-90)" text-anchor="middle">masked loss, nats</text>'


def _svg(inside: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'role="img" font-family="sans-serif" font-size="12" fill="#24292f">\n'
        "<title>The masked loss, step by step</title>\n"
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>\n{inside}\n</svg>\n'
    )


# -- the words -----------------------------------------------------------------------------------------------


def _front_matter(facts: Mapping[str, object]) -> str:
    tags = facts.get("tags", ())
    more = [str(tag) for tag in tags] if isinstance(tags, list | tuple) else [str(tags)]
    lines = {key: facts[key] for key in ("language", "license") if key in facts}
    lines |= {"library_name": "transformers", "pipeline_tag": "fill-mask", "tags": ["bertworks", "fill-mask", *more]}
    # What JSON writes is YAML too, quotes and all.
    return "\n".join(
        ["---", *(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in lines.items()), "---"]
    )


def _usage(run: Path, facts: Mapping[str, object]) -> str:
    mask = facts.get("mask_token", "[MASK]")
    text = f"今天天气很{mask}。" if facts.get("language") == "zh" else f"Paris is the {mask} of France."
    return (
        f'```sh\nbertworks fill {run.name} "{text}"\n```\n\n'
        "```python\n"
        "from transformers import AutoModelForMaskedLM, AutoTokenizer\n\n"
        f'tokenizer = AutoTokenizer.from_pretrained("{run.name}/model")\n'
        f'model = AutoModelForMaskedLM.from_pretrained("{run.name}/model")\n'
        "```"
    )


def _settings(run: Path) -> dict[str, object]:
    """The resolved recipe, as a.b = value."""
    path = run / "recipe.toml"
    if not path.exists():
        return {}
    return {
        key: f"`{json.dumps(value, ensure_ascii=False, default=str)}`"
        for key, value in _flat(tomllib.loads(path.read_text("utf8")))
    }


def _flat(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _table(rows: Mapping[str, object]) -> str:
    if not rows:
        return ""
    return "\n".join(["| | |", "| --- | --- |", *(f"| {_cell(key)} | {_cell(value)} |" for key, value in rows.items())])


def _cell(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_cell, value))
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return escape(" ".join(text.split()), quote=False).replace("|", "\\|")


def _plain(name: str) -> str:
    return {"peak_share": "share of the machine's matrix peak"}.get(name, name.replace("_", " "))


def _figure(name: str, value: float) -> str:
    if name.endswith(("accuracy", "share")):
        return f"{value:.1%}"
    return f"{value:,.0f}" if name == "tokens_per_second" else f"{value:,.3f}"
