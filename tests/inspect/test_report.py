"""A report in its three forms: what it says, that it means only what data says, that it needs nothing else."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from bertworks.inspect.report import Mistake, Report, Span, html, text, to_json
from bertworks.inspect.report.plots import ticks
from bertworks.inspect.report.text import columns, short
from bertworks.metrics.scores import Scores
from bertworks.metrics.scoring import (
    score_answer,
    score_choose,
    score_classify,
    score_embed,
    score_regress,
    score_retrieve,
    score_tag,
)

HOSTILE = "<script>alert('x')</script> & \"q\" \x1b[31m\x00\u202e\ud800"
VOID = {"meta", "br", "img", "input", "hr", "link"}


class Page(HTMLParser):
    """Its elements, its attributes and its text; unclosed or crossed tags are an error."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words = ""
        self.feed(source)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attributes

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def classified(classes: int = 3, labels: tuple[str, ...] | None = None) -> Scores:
    numbers = np.random.default_rng(0)
    gold = numbers.integers(0, classes, 300)
    table = numbers.dirichlet(np.ones(classes), 300)
    table[np.arange(300), gold] += 1
    return score_classify(gold, table / 2, labels or tuple(f"类{at}" for at in range(classes)), resamples=50)


def reports() -> dict[str, Report]:
    numbers = np.random.default_rng(0)
    gold, predicted = numbers.random(50), numbers.random(50)
    vectors = numbers.normal(size=(20, 4))
    tags = [["B-人", "I-人", "O"], ["O", "B-LOC"]]
    scores = {
        "classify": classified(),
        "many": classified(30),
        "labels": score_classify(numbers.integers(0, 2, (40, 3)), numbers.random((40, 3)), ("a", "b", "c")),
        "regress": score_regress(gold, predicted),
        "flat": score_regress(gold, np.ones(50)),
        "tag": score_tag(tags, [["B-人", "O", "O"], ["O", "B-LOC"]]),
        "pos": score_tag([["N", "V"]], [["N", "N"]]),
        "answer": score_answer([["x"], []], ["x", "y"], [0.1, 0.9], contexts=["x y", "z"]),
        "choose": score_choose([0, 1], [[0.9, 0.1], [0.8, 0.2]]),
        "embed": score_embed(gold[:20], vectors, numbers.normal(size=(20, 4))),
        "retrieve": score_retrieve(vectors, vectors),
        "bare": Scores({"accuracy": 0.5}, {}, 2),
        "nothing": Scores({}),
    }
    return {name: Report(name, "runs/x", one) for name, one in scores.items()}


FULL = replace(
    reports()["classify"],
    data="dev.tsv",
    command="bertworks evaluate runs/x --data 'dev.tsv'",
    sizes={"train": 67349, "dev": 872},
    mistakes=(Mistake("这部电影很好看", "类0", "类2", 0.987, 17, text_b="电影"),),
    curve={"loss": [(1, 2.0), (2, 1.5), (3, math.nan)], "flat": [(1, 0.5)]},
    remarks=("one text was cut",),
)


@pytest.mark.parametrize("report", [*reports().values(), FULL], ids=[*reports(), "full"])
def test_every_task_has_its_three_forms(report: Report) -> None:
    page = Page(html(report))
    lines = text(report)
    whole = to_json(report)
    json.dumps(whole, allow_nan=False)
    for name, value in report.scores.metrics.items():
        figure = f"{value:.3f}" if math.isfinite(value) else "–"
        assert figure in page.words
        assert figure in lines
        assert name in whole["metrics"]
    for remark in report.scores.remarks:
        assert remark in page.words
        assert remark in lines


def test_a_full_one_says_it_all() -> None:
    page, lines, whole = Page(html(FULL)).words, text(FULL), to_json(FULL)
    low, high = FULL.scores.intervals["accuracy"]
    for said in ("这部电影很好看", "类0", "17", "67,349", "one text was cut", FULL.command, f"{low:.3f} – {high:.3f}"):
        assert said in page, said
        assert said in lines, said
    assert "98.7% sure" in page
    assert whole["examples"] == 300
    assert whole["mistakes"][0]["text"] == "这部电影很好看"
    assert whole["curve"]["loss"][2] == [3, None]
    assert np.sum(whole["confusion"]) == 300


def test_data_means_only_itself() -> None:
    """Every place that data reaches is filled with markup, control characters and half a surrogate."""
    scores = classified(3, (HOSTILE, "b", "c"))
    scores = replace(scores, remarks=(HOSTILE,), baselines={HOSTILE: {"accuracy": 0.1}}, metrics={HOSTILE: 0.5})
    spans = (Span(0, 9, "gold", HOSTILE), Span(3, 12, "predicted", HOSTILE))
    mistake = Mistake(HOSTILE, HOSTILE, HOSTILE, 0.5, 1, HOSTILE, spans)
    report = Report(HOSTILE, HOSTILE, scores, HOSTILE, HOSTILE, {HOSTILE: 1}, (mistake,), {HOSTILE: [(1, 2), (2, 3)]})
    many = replace(report, scores=classified(20, (HOSTILE, *map(str, range(19)))))
    for one in (report, many):
        source = html(one)
        source.encode()
        page = Page(source)
        assert "script" not in page.tags
        assert not [name for name, _ in page.attributes if name.startswith("on")]
        assert "alert('x')" in page.words
        for hidden in "\x1b\x00\u202e":
            assert hidden not in source
            assert hidden not in text(one)
        text(one).encode()
        json.dumps(to_json(one), ensure_ascii=False).encode()


def test_it_needs_nothing_else() -> None:
    source = html(FULL)
    page = Page(source)
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert not [value for name, value in page.attributes if name in ("src", "href")]
    assert not re.search(r"https?:|url\(|@import", source)
    assert "default-src 'none'" in source
    assert "prefers-color-scheme: dark" in source


def test_spans_are_marked_where_they_are() -> None:
    words = "江泽民主席在北京会见了客人"
    spans = (
        Span(0, 3, "gold", "PER"),
        Span(0, 5, "predicted", "PER"),
        Span(6, 8, "gold", "LOC"),
        Span(6, 8, "predicted", "LOC"),
        Span(90, 99, "gold"),  # outside of the text: passed over
    )
    source = html(replace(FULL, mistakes=(Mistake(words, "", "PER", spans=spans),)))
    assert '<mark class="g p">江泽民<small class="g">PER</small></mark>' in source
    assert '<mark class="p">主席<small class="p">PER</small></mark>在' in source
    assert '<mark class="g p">北京<small class="g">LOC</small></mark>会见' in source  # right: told once
    assert "nothing" in source


def test_a_long_text_is_shown_around_its_span() -> None:
    words = "前" * 20_000 + "答案" + "后" * 20_000
    source = html(replace(FULL, mistakes=(Mistake(words, "答案", "前", spans=(Span(20_000, 20_002, "gold"),)),)))
    assert '<mark class="g">答案</mark>' in source
    assert len(source) < 40_000
    assert "…前" in source


def test_a_terminal_line_fits_in_its_columns() -> None:
    assert columns("中文 ab") == 7
    assert columns(short("中文" * 100, 20)) <= 20
    assert columns(short("a" * 100, 20)) == 20
    assert short("a\n b\t\x1b[0m", 20) == "a b ·[0m"
    rows = text(FULL).splitlines()
    at = next(number for number, row in enumerate(rows) if row.startswith("gold ↓"))
    assert len({columns(row) for row in rows[at : at + 4]}) == 1


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3.2, 4.4), (0.5, 0.5), (1e-9, 3e-9), (-1e6, 1e7), (99.5, 100.5)])
def test_ticks_are_round_and_cover(low: float, high: float) -> None:
    found: list[Any] = ticks(low, high)
    assert found[0] <= low
    assert found[-1] >= high
    assert 2 <= len(found) <= 8
