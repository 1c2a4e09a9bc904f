"""The drawings of a report's page, as SVG text. Colours come from the page's style, so they follow light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from .contents import visible

WIDTH, HEIGHT = 360, 260
LEFT, BOTTOM, TOP = 34, 26, 8
TICKS = 5


def drawing(width: float, height: float, inside: str, says: str) -> str:
    """says: what it shows, for those who do not see it."""
    return f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(visible(says))}">{inside}</svg>'


def calibration(bins: Sequence[dict[str, Any]]) -> str:
    """Share right over confidence by bin, and beneath it how many decisions each bin holds."""
    strip = 42
    across, up = Scale(0, 1, LEFT, WIDTH - 8), Scale(0, 1, HEIGHT - BOTTOM, TOP)
    most = max(one["count"] for one in bins)
    parts = [_grid(across, up, [0, 0.25, 0.5, 0.75, 1], [0, 0.25, 0.5, 0.75, 1], strip)]
    for one in bins:
        first, last = across(one["low"]) + 1, across(one["high"]) - 1
        tip = f"{one['count']:,} decisions, {one['confidence']:.1%} sure, {one['accuracy']:.1%} right"
        parts.append(_box(first, up(one["accuracy"]), last, up(0), "bar", tip))
        tall = strip * 0.8 * one["count"] / most
        floor = HEIGHT - BOTTOM + strip
        parts.append(_box(first, floor - tall, last, floor, "count", tip))
    parts.append(f'<path class="ideal" d="M{across(0):.1f} {up(0):.1f}L{across(1):.1f} {up(1):.1f}"/>')
    parts += [
        f'<circle class="dot" cx="{across(one["confidence"]):.1f}" cy="{up(one["accuracy"]):.1f}" r="3"/>'
        for one in bins
    ]
    return drawing(WIDTH, HEIGHT + strip, "".join(parts), "Share of right decisions by confidence")


def scatter(points: Sequence[Sequence[float]], same_scale: bool) -> str:
    """Predicted over gold. same_scale: both are the same quantity, and the diagonal is where they agree."""
    gold, predicted = zip(*points, strict=True)
    lows, highs = [min(gold), min(predicted)], [max(gold), max(predicted)]
    if same_scale:
        lows, highs = [min(lows)] * 2, [max(highs)] * 2
    marks = [ticks(low, high) for low, high in zip(lows, highs, strict=True)]
    across = Scale(min(lows[0], marks[0][0]), max(highs[0], marks[0][-1]), LEFT + 6, WIDTH - 10)
    up = Scale(min(lows[1], marks[1][0]), max(highs[1], marks[1][-1]), HEIGHT - BOTTOM - 4, TOP + 4)
    parts = [_grid(across, up, marks[0], marks[1])]
    parts += [f'<circle class="point" cx="{across(x):.1f}" cy="{up(y):.1f}" r="2.6"/>' for x, y in points]
    if same_scale:
        low, high = lows[0], highs[0]
        parts.append(f'<path class="ideal" d="M{across(low):.1f} {up(low):.1f}L{across(high):.1f} {up(high):.1f}"/>')
    return drawing(WIDTH, HEIGHT, "".join(parts), "Predicted numbers over gold ones")


def curve(name: str, points: Sequence[tuple[float, float]]) -> str:
    """One series over steps."""
    steps, values = [one[0] for one in points], [one[1] for one in points]
    sides, levels = ticks(min(steps), max(steps), 4), ticks(min(values), max(values), 4)
    height = 150
    across = Scale(min(steps), max(steps), LEFT + 8, WIDTH - 12)
    up = Scale(min(*values, levels[0]), max(*values, levels[-1]), height - BOTTOM, TOP)
    path = "L".join(f"{across(x):.1f} {up(y):.1f}" for x, y in points)
    parts = [_grid(across, up, [one for one in sides if min(steps) <= one <= max(steps)], levels)]
    parts.append(f'<path class="curve" d="M{path}"/>')
    parts.append(f'<circle class="dot" cx="{across(steps[-1]):.1f}" cy="{up(values[-1]):.1f}" r="3"/>')
    return drawing(WIDTH, height, "".join(parts), f"{name} by step")


def heat(matrix: Sequence[Sequence[int]], labels: Sequence[str]) -> str:
    """A confusion matrix of many classes: shades alone, the counts on hovering."""
    number = len(matrix)
    side = max(4.0, min(18.0, 640 / number))
    parts = []
    for row, counts in enumerate(matrix):
        total = max(sum(counts), 1)
        for column, count in enumerate(counts):
            if not count:
                continue
            tint = shade(count / total, row == column)
            tip = f"{labels[row]} taken for {labels[column]}: {count:,}"
            parts.append(
                f'<rect x="{column * side:.1f}" y="{row * side:.1f}" width="{side - 1:.1f}" height="{side - 1:.1f}" '
                f'style="fill:{tint}"><title>{escape(visible(tip))}</title></rect>'
            )
    frame = f'<rect class="axis" x="-1" y="-1" width="{number * side + 1:.1f}" height="{number * side + 1:.1f}"/>'
    return drawing(
        number * side, number * side, frame + "".join(parts), "Confusion matrix: gold down, predicted across"
    )


def shade(share: float, right: bool) -> str:
    """A cell's colour by its share of the row: small shares of mistakes must show, so they grow by the root."""
    strength = 0.75 * (share if right else math.sqrt(share))
    return f"rgb(var(--{'good' if right else 'bad'}-rgb) / {strength:.3f})"


def ticks(low: float, high: float, about: int = TICKS) -> list[float]:
    """Round numbers that cover low to high.

    >>> ticks(0.03, 4.8)
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    """
    if high <= low:
        low, high = low - 0.5, high + 0.5
    raw = (high - low) / about
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= raw * 0.999)
    return [round(at * step, 12) for at in range(math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9) + 1)]


class Scale:
    """Numbers low to high as places first to last."""

    def __init__(self, low: float, high: float, first: float, last: float) -> None:
        self.low, self.first, self.last = low, first, last
        self.wide = (high - low) or 1.0

    def __call__(self, value: float) -> float:
        return self.first + (value - self.low) / self.wide * (self.last - self.first)


def _grid(across: Scale, up: Scale, sides: Sequence[float], levels: Sequence[float], below: float = 0) -> str:
    floor = up.first
    parts = [
        f'<path class="axis" d="M{across.first:.1f} {up(level):.1f}H{across.last:.1f}"/>'
        f'<text x="{LEFT - 6}" y="{up(level) + 4:.1f}" text-anchor="end">{_tick(level)}</text>'
        for level in levels
    ]
    parts += [
        f'<text x="{across(side):.1f}" y="{floor + below + 17:.1f}" text-anchor="middle">{_tick(side)}</text>'
        for side in sides
    ]
    return "".join(parts)


def _tick(value: float) -> str:
    return f"{value / 1000:g}k" if abs(value) >= 1000 else f"{value:g}"


def _box(left: float, top: float, right: float, bottom: float, kind: str, tip: str) -> str:
    return (
        f'<rect class="{kind}" x="{left:.1f}" y="{top:.1f}" width="{max(right - left, 0):.1f}" '
        f'height="{max(bottom - top, 0):.1f}"><title>{escape(visible(tip))}</title></rect>'
    )
