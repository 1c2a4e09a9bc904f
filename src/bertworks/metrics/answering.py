"""Exact match and F1 of answers, by the rules of SQuAD 1.1, SQuAD 2.0 and CMRC 2018 (which DRCD shares).

SQuAD compares words after dropping case, punctuation, articles and extra spaces. A question without an answer has
`[]` or `[""]` as its gold answers, and an empty prediction is right there.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from bertworks.errors import ConfigError, InputError, nearest

from . import chinese
from .classification import ratio
from .intervals import Floats

Rule = Literal["squad", "squad1", "cmrc"]
ARTICLES = re.compile(r"\b(?:a|an|the)\b")
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(text: str) -> str:
    """Lower case, no punctuation, no articles, single spaces.

    >>> normalised("The  Beatles' songs!")
    'beatles songs'
    """
    return " ".join(ARTICLES.sub(" ", text.lower().translate(NO_PUNCTUATION)).split())


def exact(gold: str, predicted: str) -> float:
    return float(normalised(gold) == normalised(predicted))


def overlap(gold: str, predicted: str) -> float:
    """F1 of the words; where either has none, whether both have none (SQuAD 2.0)."""
    one, two = normalised(gold).split(), normalised(predicted).split()
    if not one or not two:
        return float(one == two)
    return _f1(sum((Counter(one) & Counter(two)).values()), len(one), len(two))


def overlap_of_first(gold: str, predicted: str) -> float:
    """SQuAD 1.1 knows no empty answer: no word in common is 0, even of nothing and nothing."""
    one, two = normalised(gold).split(), normalised(predicted).split()
    return _f1(sum((Counter(one) & Counter(two)).values()), len(one), len(two))


def _f1(same: int, gold: int, predicted: int) -> float:
    if not same:
        return 0.0
    precision, recall = same / predicted, same / gold
    return 2 * precision * recall / (precision + recall)


RULES: dict[str, tuple[Callable[[str, str], float], Callable[[str, str], float]]] = {
    "squad": (exact, overlap),
    "squad1": (exact, overlap_of_first),
    "cmrc": (chinese.exact, chinese.overlap),
}


def answerable(answers: Sequence[str]) -> bool:
    """Whether a question has an answer."""
    return any(answers)


def answer_scores(gold: Sequence[Sequence[str]], predicted: Sequence[str], rule: Rule = "squad") -> Floats:
    """(questions, 2): exact match and F1, each the best over a question's gold answers."""
    if rule not in RULES:
        raise ConfigError(f"unknown rule {rule!r} for answers", nearest(rule, RULES) or f"known: {', '.join(RULES)}")
    if len(gold) != len(predicted):
        raise InputError(
            f"{len(gold)} questions with gold answers, {len(predicted)} predicted answers", "predict every question"
        )
    same, common = RULES[rule]
    rows = np.zeros((len(gold), 2))
    for at, (answers, guess) in enumerate(zip(gold, predicted, strict=True)):
        # SQuAD 2.0 passes over gold answers that are nothing but articles and punctuation.
        known = [one for one in answers if rule != "squad" or normalised(one)] or [""]
        rows[at] = max(same(one, guess) for one in known), max(common(one, guess) for one in known)
    return rows


def without(rows: Floats, has_answer: ArrayLike, no_answer: ArrayLike, threshold: float) -> Floats:
    """Scores when every question whose no-answer score is over the threshold is answered by nothing."""
    silent = np.asarray(no_answer, np.float64) > threshold
    right = ~np.asarray(has_answer, bool)
    return np.where(silent[:, None], right[:, None].astype(np.float64), rows)


def best_threshold(
    scores: ArrayLike, has_answer: ArrayLike, no_answer: ArrayLike, predicted: Sequence[str]
) -> tuple[float, float]:
    """The best mean score over all thresholds on the no-answer score, and the first threshold that reaches it.

    Over the threshold a question is left unanswered. As in SQuAD 2.0's own search, questions come in one by one in
    the order of their no-answer scores, equal ones too, so of ties the figure is an upper bound.
    """
    values, known, doubt = np.asarray(scores, np.float64), np.asarray(has_answer, bool), np.asarray(no_answer)
    if not len(values):
        return float("nan"), 0.0
    said = np.array([bool(one) for one in predicted], bool)
    order = np.argsort(doubt, kind="stable")
    gains = np.where(known, values, np.where(said, -1.0, 0.0))[order]
    totals = (~known).sum() + np.concatenate([[0.0], np.cumsum(gains)])
    best = int(np.argmax(totals))
    return float(totals[best] / len(values)), float(doubt[order[best - 1]]) if best else 0.0


def answer_rows(scores: Floats, has_answer: ArrayLike) -> Floats:
    """(questions, 6): exact, F1 and one, for questions with an answer and for those without."""
    known = np.asarray(has_answer, bool)[:, None]
    triple = np.concatenate([scores, np.ones((len(scores), 1))], 1)
    return np.concatenate([triple * known, triple * ~known], 1)


def answer_figures(sums: Floats) -> dict[str, Floats]:
    """Figures of (resamples, 6) sums: of all, and apart where both kinds of question are there."""
    with_, none = sums[:, :3], sums[:, 3:]
    whole = with_ + none
    found = {"exact": ratio(whole[:, 0], whole[:, 2]), "f1": ratio(whole[:, 1], whole[:, 2])}
    if none[:, 2].any() and with_[:, 2].any():
        for name, part in (("has_answer", with_), ("no_answer", none)):
            number = np.where(part[:, 2] > 0, part[:, 2], np.nan)
            found |= {f"{name}_exact": part[:, 0] / number, f"{name}_f1": part[:, 1] / number}
    return found
