"""A report as one HTML file: style and drawings inside, no script, nothing fetched.

Whatever came from data or from a command line passes `safe`; the page's own policy forbids scripts besides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from itertools import pairwise
from typing import Any

from . import plots
from .contents import UNBOUNDED, Mistake, Report, Span, called, visible, written
from .style import STYLE

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
MATRIX = 12  # classes that are shown with their counts
CLASSES = 60
CONFUSIONS = 8
MISTAKES = 50
LONGEST = 700  # characters of a mistake's text, around what it is about


def html(report: Report) -> str:
    """The whole file."""
    sections = [
        _header(report),
        _figures(report),
        _classes(report),
        _side_by_side(_plots(report), _confusion(report)),
        _mistakes(report),
        _curves(report),
        _origin(report),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f"<title>{safe(report.model)}: {safe(report.task)}</title>\n<style>{STYLE}</style></head>\n<body><main>\n"
        + "\n".join(section for section in sections if section)
        + "\n</main></body></html>\n"
    )


def safe(value: Any) -> str:
    """Anything as text that means only itself in HTML."""
    return escape(visible(str(value)))


def _header(report: Report) -> str:
    scores, name = report.scores, report.headline
    place = f" on {safe(report.data)}" if report.data else ""
    parts = [
        f'<header><p class="eyebrow">{safe(report.task)} · evaluation</p><h1>{safe(report.model)}</h1>',
        f'<p class="dim">{scores.examples:,} examples{place}</p>',
    ]
    if name:
        low, high = scores.intervals.get(name, (None, None))
        facts = [("95 % interval", f"{written(low)} – {written(high)}")] if low is not None else []
        facts += [(guess, written(one[name])) for guess, one in scores.baselines.items() if name in one]
        parts.append(f'<div class="head"><div><span class="big fact">{written(scores.metrics[name])}</span>')
        parts.append(f'<span class="dim">{safe(called(name))}</span></div>')
        parts += [f'<div class="fact"><b>{value}</b><span>{safe(what)}</span></div>' for what, value in facts]
        parts.append("</div>")
    parts += [f'<p class="note">{safe(one)}</p>' for one in report.every_remark]
    return "".join(parts) + "</header>"


def _figures(report: Report) -> str:
    scores = report.scores
    rows = []
    for name, value in scores.metrics.items():
        low, high = scores.intervals.get(name, (math.nan, math.nan))
        span = f"{written(low)} – {written(high)}" if low == low else ""
        guesses = [one.get(name) for one in scores.baselines.values()]
        track = "" if name in UNBOUNDED else _track(value, low, high, [one for one in guesses if one is not None])
        rows.append(
            f'<tr><td>{safe(called(name))}</td><td class="value">{written(value)}</td><td class="dim">{span}</td>'
            f'<td class="wide">{track}</td>'
            + "".join(f'<td class="dim">{"" if one is None else written(one)}</td>' for one in guesses)
            + "</tr>"
        )
    guessers = "".join(f"<th>{safe(name)}</th>" for name in scores.baselines)
    bounds = '<th></th><th>95 % interval</th><th class="wide"></th>'
    return (
        f'<section><h2>Figures</h2><div class="scroll"><table class="figures"><thead><tr><th></th>{bounds}{guessers}'
        f"</tr></thead><tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def _track(value: float, low: float, high: float, marks: Sequence[float] = ()) -> str:
    """A line from 0 to 1 with a dot, its interval and marks where guessing is; a number below 0 stands at 0."""
    if not math.isfinite(value):
        return ""
    parts = [f'<i style="width:{_percent(value)}"></i>']
    if low == low:
        parts.append(f'<b style="left:{_percent(low)};width:{_percent(min(high, 1) - max(low, 0))}"></b>')
    parts += [f'<u style="left:{_percent(mark)}"></u>' for mark in marks if math.isfinite(mark)]
    parts.append(f'<s style="left:{_percent(value)}"></s>')
    return f'<div class="track">{"".join(parts)}</div>'


def _percent(share: float) -> str:
    return f"{100 * min(max(share, 0.0), 1.0):.2f}%"


def _side_by_side(*sections: str) -> str:
    there = "".join(sections)
    return f'<div class="plots">{there}</div>' if there else ""


def _plots(report: Report) -> str:
    details = report.scores.details
    figures = []
    if details.get("bins"):
        says = "Share right over confidence; on the dashed line a probability means what it says. Beneath: how many."
        figures.append(("Calibration", plots.calibration(details["bins"]), says))
    if details.get("points"):
        same = report.task == "regress"
        says = "Predicted over gold" + ("; on the dashed line they agree." if same else ".")
        figures.append(("Predictions", plots.scatter(details["points"], same), says))
    return "".join(
        f'<section><h2>{name}</h2><figure style="max-width:32rem">{drawn}<figcaption>{says}</figcaption></figure>'
        "</section>"
        for name, drawn, says in figures
    )


def _classes(report: Report) -> str:
    lines: list[dict[str, Any]] = report.scores.details.get("classes", [])
    if not lines:
        return ""
    shown = sorted(lines, key=lambda line: -line["support"])[:CLASSES]
    rows = "".join(
        f'<tr><td>{safe(one["label"])}</td><td class="wide">{_track(one["f1"], one["f1_low"], one["f1_high"])}</td>'
        f'<td class="value">{written(one["f1"])}</td>'
        f'<td class="dim slim">{written(one["f1_low"])} – {written(one["f1_high"])}</td>'
        f"<td>{written(one['precision'])}</td><td>{written(one['recall'])}</td>"
        f'<td class="dim">{one["support"]:,}</td></tr>'
        for one in shown
    )
    more = f'<p class="dim">… and {len(lines) - CLASSES} more</p>' if len(lines) > CLASSES else ""
    return (
        '<section><h2>By label</h2><div class="scroll"><table class="classes"><thead><tr><th></th>'
        '<th class="wide"></th>'
        '<th>F1</th><th class="slim">95 % interval</th><th>precision</th><th>recall</th><th>gold</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{more}</section>"
    )


def _confusion(report: Report) -> str:
    matrix = report.scores.details.get("confusion")
    if not matrix:
        return ""
    labels = report.scores.details["labels"]
    if len(matrix) <= MATRIX:
        head = "".join(f'<th title="{safe(one)}">{safe(one)}</th>' for one in labels)
        rows = "".join(
            f'<tr><th title="{safe(labels[at])}">{safe(labels[at])}</th>{_cells(row, at)}</tr>'
            for at, row in enumerate(matrix)
        )
        drawn = f'<table class="matrix"><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table>'
    else:
        drawn = f'<figure style="max-width:40rem">{plots.heat(matrix, labels)}</figure>'
    says = "Gold down, predicted across; shaded by the share of each row."
    return (
        f'<section><h2>Confusions</h2><div class="scroll">{drawn}</div><p class="dim legend">{says}</p>'
        f"{_frequent(matrix, labels) if len(matrix) > MATRIX else ''}</section>"
    )


def _cells(row: Sequence[int], at: int) -> str:
    total = max(sum(row), 1)
    return "".join(
        f'<td style="background:{plots.shade(count / total, column == at)}">{count:,}</td>'
        for column, count in enumerate(row)
    )


def _frequent(matrix: Sequence[Sequence[int]], labels: Sequence[str]) -> str:
    pairs = [(count, a, b) for a, row in enumerate(matrix) for b, count in enumerate(row) if count and a != b]
    rows = "".join(
        f"<tr><td>{safe(labels[a])}</td><td>{safe(labels[b])}</td><td>{count:,}</td>"
        f'<td class="dim">{count / sum(matrix[a]):.0%}</td></tr>'
        for count, a, b in sorted(pairs, reverse=True)[:CONFUSIONS]
    )
    head = "<tr><th>gold</th><th>taken for</th><th></th><th>of gold</th></tr>"
    return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>"


def _mistakes(report: Report) -> str:
    if not report.mistakes:
        return ""
    legend = ""
    if any(one.spans for one in report.mistakes):
        marks = '<mark class="g">underlined</mark> is gold, <mark class="p">tinted</mark> is predicted'
        legend = f'<p class="legend">{marks}</p>'
    cards = "".join(map(_mistake, report.mistakes[:MISTAKES]))
    return f"<section><h2>Worst mistakes</h2>{legend}{cards}</section>"


def _mistake(one: Mistake) -> str:
    second = f'<p class="text second" dir="auto">{safe(clipped(one.text_b))}</p>' if one.text_b else ""
    facts = [
        f'<span>gold <span class="g" dir="auto">{safe(one.gold) or "nothing"}</span></span>',
        f'<span>predicted <span class="p" dir="auto">{safe(one.predicted) or "nothing"}</span></span>',
    ]
    if one.probability is not None:
        facts.append(f'<span class="fact">{one.probability:.1%} sure</span>')
    if one.line is not None:
        facts.append(f'<span class="fact">line {one.line:,}</span>')
    return (
        f'<div class="mistake"><p class="text" dir="auto">{_marked(one.text, one.spans)}</p>{second}'
        f'<div class="verdict">{"".join(facts)}</div></div>'
    )


def clipped(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


def _marked(text: str, spans: Sequence[Span]) -> str:
    """The text with its spans marked; long ones are cut around the first span."""
    inside = [one for one in spans if 0 <= one.start < one.end <= len(text)]
    centre = min((one.start for one in inside), default=0)
    first = 0 if len(text) <= LONGEST else max(0, min(centre - LONGEST // 3, len(text) - LONGEST))
    last = min(len(text), first + LONGEST)
    edges = sorted({first, last, *(at for one in inside for at in (one.start, one.end) if first < at < last)})
    parts = ["…" if first else ""]
    for start, end in pairwise(edges):
        over = [one for one in inside if one.start <= start and end <= one.end]
        kinds = " ".join(sorted({one.whose[0] for one in over}))
        ends = "".join(
            f'<small class="{one.whose[0]}">{safe(one.label)}</small>'
            for one in over
            if one.end == end and one.label and not (one.whose == "predicted" and replace(one, whose="gold") in over)
        )
        piece = safe(text[start:end])
        parts.append(f'<mark class="{kinds}">{piece}{ends}</mark>' if over else piece)
    parts.append("…" if last < len(text) else "")
    return "".join(parts)


def _curves(report: Report) -> str:
    drawn = {
        name: kept
        for name, points in report.curve.items()
        if (kept := [one for one in points if math.isfinite(one[0]) and math.isfinite(one[1])])
    }
    figures = "".join(
        f"<figure>{plots.curve(name, points)}<figcaption>{safe(name)} by step</figcaption></figure>"
        for name, points in drawn.items()
    )
    return f'<section><h2>Training</h2><div class="plots">{figures}</div></section>' if figures else ""


def _origin(report: Report) -> str:
    sizes = " · ".join(f"{safe(name)} {size:,}" for name, size in report.sizes.items())
    parts = [f'<p class="dim fact">{sizes}</p>' if sizes else ""]
    parts.append(f"<pre>{safe(report.command)}</pre>" if report.command else "")
    body = "".join(parts)
    foot = (
        "<footer>Intervals are percentiles of a bootstrap over examples. Marks on the lines are what guessing reaches."
        "</footer>"
    )
    return (f"<section><h2>Where it comes from</h2>{body}</section>" if body else "") + foot
