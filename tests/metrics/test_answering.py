"""Answers by the rules of SQuAD and CMRC, on cases worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from bertworks.errors import ConfigError, InputError
from bertworks.metrics import answering, chinese
from bertworks.metrics.scoring import score_answer


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("The Beatles", "beatles"),
        ("  a  cat,\tan owl\nand the dog! ", "cat owl and dog"),
        ("U.S.A.", "usa"),
        ("theatre", "theatre"),
        ("the-end", "theend"),  # punctuation goes before articles do
        ("“A”", "“ ”"),  # curly quotes are not ASCII punctuation, and part words
        ("The", ""),
        ("北京。", "北京。"),
    ],
)
def test_normalising(text: str, wanted: str) -> None:
    assert answering.normalised(text) == wanted


@pytest.mark.parametrize(
    ("gold", "predicted", "exact", "f1"),
    [
        (["Denver Broncos"], "the Denver Broncos!", 1, 1),
        (["Denver Broncos"], "Denver", 0, 2 / 3),
        (["gold coin coin"], "coin coin coin", 0, 2 / 3),
        (["in 1066", "1066"], "1066", 1, 1),
        (["Paris"], "", 0, 0),
        ([], "", 1, 1),
        ([""], "", 1, 1),
        ([], "Paris", 0, 0),
        ([], "the", 1, 1),  # nothing is left of it
        (["the", "Paris"], "a", 0, 0),  # gold answers of articles alone are passed over
    ],
)
def test_squad_2(gold: list[str], predicted: str, exact: float, f1: float) -> None:
    assert answering.answer_scores([gold], [predicted]).tolist() == [[exact, pytest.approx(f1)]]


def test_squad_1_counts_no_common_word_as_nothing() -> None:
    assert answering.answer_scores([["the"]], ["a"], "squad1").tolist() == [[1, 0]]
    assert answering.answer_scores([["gold coin"]], ["coin"], "squad1").tolist() == [[0, pytest.approx(2 / 3)]]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("《iPhone 4》", ["iphone", "4"]),
        ("北京，2008年", ["北", "京", "2008", "年"]),
        ("a-b", ["ab"]),  # marks on the list go before words are cut
        ("約1,000元(3.14%)", ["約", "1,000", "元", "(", "3.14", "%", ")"]),
        ("好……吧", ["好", "……", "吧"]),  # its two dots never equal one character of the text, so it stays
        ("U.S.A. 队", ["u.s.a", ".", "队"]),
        ("six (hours)——约6", ["six", "(", "hours", ")", "—", "—", "约", "6"]),
        ("it's O'Neil's, don't", ["it", "'s", "o'neil", "'s", ",", "do", "n't"]),
        ("龦", ["龦"]),  # past U+9FA5: not Chinese by these rules, a word all the same
        ("", []),
    ],
)
def test_chinese_segments(text: str, wanted: list[str]) -> None:
    assert chinese.segments(text) == wanted


def test_punctuation_may_be_kept() -> None:
    assert chinese.segments("《A》-b。", punctuation=True) == ["《", "a", "》", "-", "b", "。"]


@pytest.mark.parametrize(
    ("gold", "predicted", "exact", "f1"),
    [
        (["北京大学"], "北京大学。", 1, 1),
        (["北京大学"], "《北京大学》", 1, 1),
        (["北京大学"], "在北京大学里", 0, 2 * (4 / 6) * 1 / (4 / 6 + 1)),
        (["甲乙丙丁"], "甲丙丁", 0, 2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4)),  # 丙丁: neighbours, not a subsequence
        (["Apple Inc"], "apple inc", 1, 1),
        (["Apple Inc"], "AppleInc", 0, 0),
        (["上海", "上海市"], "上海市", 1, 1),
        (["上海"], "北京", 0, 0),
        (["上海"], "", 0, 0),
        ([""], "", 1, 0),  # as published: no common run, no F1
        (["5(五)个"], "5（五）个", 0, 2 * (1 / 3) * (1 / 5) / (1 / 3 + 1 / 5)),
    ],
)
def test_cmrc(gold: list[str], predicted: str, exact: float, f1: float) -> None:
    assert answering.answer_scores([gold], [predicted], "cmrc").tolist() == [[exact, pytest.approx(f1)]]


@settings(deadline=None)
@given(some.lists(some.sampled_from("abc"), max_size=8), some.lists(some.sampled_from("abc"), max_size=8))
def test_longest_run_is_the_longest_common_stretch(one: list[str], two: list[str]) -> None:
    whole, other = "".join(one), "".join(two)
    wanted = max(
        (
            last - first
            for first in range(len(whole))
            for last in range(first, len(whole) + 1)
            if whole[first:last] in other
        ),
        default=0,
    )
    assert chinese.longest_run(one, two) == wanted


@settings(deadline=None)
@given(some.integers(0, 10**6), some.integers(1, 12))
def test_best_threshold_is_the_best_of_all(seed: int, questions: int) -> None:
    """Over the official rule: a question is unanswered where its no-answer score is over the threshold."""
    numbers = np.random.default_rng(seed)
    known = numbers.random(questions) < 0.6
    doubt = numbers.permutation(questions) / questions + 0.01
    predicted = ["x" if numbers.random() < 0.8 else "" for _ in range(questions)]
    scores = np.where(known, numbers.integers(0, 3, questions) / 2, [not one for one in predicted])
    best, at = answering.best_threshold(scores, known, doubt, predicted)

    def reached(threshold: float) -> float:
        return float(answering.without(scores[:, None], known, doubt, threshold)[:, 0].mean())

    assert best == pytest.approx(max(reached(cut) for cut in (0.0, *doubt)))
    assert reached(at) == pytest.approx(best)


def test_scores_of_both_kinds_of_questions() -> None:
    gold = [["Paris"], ["Rome"], [], []]
    scores = score_answer(gold, ["Paris", "Milan", "", "London"], no_answer=[0.1, 0.2, 0.9, 0.8])
    assert scores.metrics["exact"] == 0.5
    assert scores.metrics["has_answer_exact"] == scores.metrics["no_answer_f1"] == 0.5
    assert (scores.metrics["best_exact"], scores.metrics["best_exact_threshold"]) == (0.75, 0.1)
    assert score_answer(gold, ["Paris", "Milan", "", "London"], [0.1, 0.2, 0.9, 0.8], threshold=0.5).metrics[
        "exact"
    ] == pytest.approx(0.75)
    assert scores.baselines["majority"]["exact"] == 0.5
    low, high = scores.intervals["exact"]
    assert 0 <= low <= 0.5 <= high <= 1


def test_chance_is_a_stretch_of_the_context() -> None:
    gold = [["红"]] * 400
    scores = score_answer(gold, ["红"] * 400, rule="cmrc", contexts=["红黄蓝绿"] * 400)
    assert scores.baselines["chance"]["exact"] == pytest.approx(0.25, abs=0.1)
    assert "no_answer_f1" not in scores.metrics


def test_errors() -> None:
    with pytest.raises(ConfigError, match="did you mean 'squad'"):
        answering.answer_scores([["x"]], ["x"], "squat")
    with pytest.raises(InputError, match="2 gold answers, but 1"):
        score_answer([["x"], ["y"]], ["x"])
