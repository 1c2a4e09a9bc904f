"""One function for each kind of task: gold and predicted answers in, `Scores` out, guessing's figures beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from bertworks.errors import InputError

from . import answering, classification, entities, regression, retrieval
from .details import class_details, finite, first_of, matching, named, undefined, with_classes
from .intervals import RESAMPLES, Floats, Seed, Statistic, bootstrap, merged, of_sums, once
from .scores import Scores
from .scoring_classes import score_classify

__all__ = [
    "score_answer",
    "score_choose",
    "score_classify",
    "score_embed",
    "score_regress",
    "score_retrieve",
    "score_tag",
]

POINTS = 2000  # as many points as a scatter shows


def score_regress(gold: ArrayLike, predicted: ArrayLike, seed: Seed = 0, resamples: int = RESAMPLES) -> Scores:
    """Numbers against numbers, both (examples,). `mean` among the baselines predicts gold's mean for every text."""
    one, two = np.asarray(gold, np.float64), np.asarray(predicted, np.float64)
    matching(one, two, "predicted numbers")
    finite(one, "gold number")
    finite(two, "predicted number")
    alike = regression.correlation_statistic(one, two)
    apart = of_sums(regression.error_rows(one, two), regression.error_figures)

    def statistic(counts: Floats) -> dict[str, Floats]:
        return alike(counts) | apart(counts)

    ones = np.ones(len(one), np.int64)
    metrics = once(statistic, ones)
    spans = bootstrap(statistic, ones, seed, resamples)
    metrics = {
        **{name: metrics[name] for name in ("pearson", "spearman")},
        "kendall": regression.kendall(one, two),
    } | metrics
    flat = np.full_like(one, one.mean())
    mean = once(of_sums(regression.error_rows(one, flat), regression.error_figures), ones)
    pick = np.linspace(0, len(one) - 1, min(len(one), POINTS)).astype(np.int64)
    return Scores(
        metrics,
        spans,
        len(one),
        {"chance": {"pearson": 0.0, "spearman": 0.0, "kendall": 0.0}, "mean": mean},
        {"points": np.stack([one[pick], two[pick]], 1).tolist()},
        undefined(metrics, "pearson", "spearman", "kendall"),
    )


def score_tag(
    gold: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    scheme: entities.Scheme = "lenient",
    seed: Seed = 0,
    resamples: int = RESAMPLES,
) -> Scores:
    """Sequences of tags. Where tags mark entities (`B-PER`, `O`), entity figures; else figures of the tags alone.

    `majority` gives every token the commonest tag, `chance` any tag of gold's.
    """
    matching(gold, predicted, "predicted sequences")
    entities.same_lengths(gold, predicted)
    tally = Counter(tag for row in gold for tag in row)
    if not tally:
        raise InputError("no tokens to score", "every sequence is empty")
    marks = entities.names_entities([*tally, *{tag for row in predicted for tag in row}])
    random = np.random.default_rng(seed)
    tags = sorted(tally)
    guesses = {
        "chance": [[tags[at] for at in random.integers(0, len(tags), len(row))] for row in gold],
        "majority": [[tally.most_common(1)[0][0]] * len(row) for row in gold],
    }

    def rows_of(guess: Sequence[Sequence[str]]) -> tuple[Floats, tuple[str, ...]]:
        return entities.entity_rows(gold, guess, scheme) if marks else _token_rows(gold, guess)

    figures = entities.entity_figures if marks else _token_figures
    rows, types = rows_of(predicted)
    kinds, counts = merged(rows)
    metrics = once(of_sums(kinds, figures), counts)
    spans = bootstrap(of_sums(kinds, with_classes(figures, 2)), counts, random, resamples)
    baselines = {name: first_of(figures(rows_of(guess)[0].sum(0)[None])) for name, guess in guesses.items()}
    details = class_details(kinds[:, :-2].reshape(len(kinds), 3, -1), counts, types, spans) if types else {}
    return Scores(metrics, named(spans), len(gold), baselines, details, ())


def _token_rows(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> tuple[Floats, tuple[str, ...]]:
    """The shape of `entity_rows`, for tags that mark no entities: each token is one."""
    tags = tuple(sorted({tag for row in (*gold, *predicted) for tag in row}))
    number = {tag: at for at, tag in enumerate(tags)}
    rows = np.zeros((len(gold), 3 * len(tags) + 2))
    for at, (one, two) in enumerate(zip(gold, predicted, strict=True)):
        left, right = [number[tag] for tag in one], [number[tag] for tag in two]
        pairs = classification.pair_rows(left, right, len(tags)).sum(0)
        rows[at] = [*pairs, pairs[: len(tags)].sum(), len(one)]
    return rows, tags


def _token_figures(sums: Floats) -> dict[str, Floats]:
    found = classification.class_figures(sums[:, :-2])
    return {name: found[name] for name in ("accuracy", "f1_macro", "f1_weighted")}


def score_answer(
    gold: Sequence[Sequence[str]],
    predicted: Sequence[str],
    no_answer: ArrayLike | None = None,
    rule: answering.Rule = "squad",
    contexts: Sequence[str] | None = None,
    threshold: float | None = None,
    seed: Seed = 0,
    resamples: int = RESAMPLES,
) -> Scores:
    """Answers by the rules of SQuAD 2.0 (`squad`), SQuAD 1.1 (`squad1`) or CMRC 2018 (`cmrc`); figures are shares.

    gold: the answers of each question, none if there is none; predicted: one each, empty for none.
    no_answer: (questions,) how likely there is none; then the best threshold is looked for, and `threshold` applied.
    contexts: if given, `chance` is a random stretch of each, as long as its answers are in the middle.
    """
    matching(gold, predicted, "predicted answers")
    random = np.random.default_rng(seed)
    known = np.array([answering.answerable(one) for one in gold])
    raw = answering.answer_scores(gold, predicted, rule)
    scores = raw if threshold is None or no_answer is None else answering.without(raw, known, no_answer, threshold)
    kinds, counts = merged(answering.answer_rows(scores, known))
    statistic = of_sums(kinds, answering.answer_figures)
    metrics = once(statistic, counts)
    spans = bootstrap(statistic, counts, random, resamples)
    if no_answer is not None and not known.all():
        for at, name in enumerate(("exact", "f1")):
            best = answering.best_threshold(raw[:, at], known, no_answer, predicted)
            metrics[f"best_{name}"], metrics[f"best_{name}_threshold"] = best
    guesses = {} if contexts is None else {"chance": _stretches(gold, contexts, rule, random)}
    guesses["majority"] = [""] * len(gold)
    baselines = {
        name: first_of(
            answering.answer_figures(
                answering.answer_rows(answering.answer_scores(gold, guess, rule), known).sum(0)[None]
            )
        )
        for name, guess in guesses.items()
    }
    return Scores(metrics, spans, len(gold), baselines)


def _stretches(
    gold: Sequence[Sequence[str]], contexts: Sequence[str], rule: answering.Rule, random: np.random.Generator
) -> list[str]:
    cut = list if rule == "cmrc" else str.split
    lengths = [len(cut(row[0])) for row in gold if answering.answerable(row)]
    size = max(1, int(np.median(lengths))) if lengths else 1
    found = []
    for context in contexts:
        units = cut(context)
        first = int(random.integers(0, max(len(units) - size, 0) + 1))
        found.append(("" if rule == "cmrc" else " ").join(units[first : first + size]))
    return found


def score_choose(
    gold: ArrayLike, scores: Sequence[Sequence[float]], seed: Seed = 0, resamples: int = RESAMPLES
) -> Scores:
    """One choice among a few, as many as each question has. gold: (questions,) numbers from 0; scores: one a choice."""
    matching(gold, scores, "rows of scores")
    answers = np.asarray(gold, np.int64)
    sizes = np.array([len(row) for row in scores])
    wrong = np.flatnonzero((answers < 0) | (answers >= sizes))
    if len(wrong):
        at = int(wrong[0])
        raise InputError(
            f"choice {int(answers[at])} of question {at + 1} is not among its {int(sizes[at])} choices",
            "choices are numbered from 0",
        )
    predicted = np.array([int(np.argmax(row)) for row in scores])
    position = int(np.bincount(answers).argmax())
    rows = np.stack([predicted == answers, np.ones(len(answers))], 1)
    kinds, counts = merged(rows)
    statistic = of_sums(kinds, lambda sums: {"accuracy": sums[:, 0] / sums[:, 1]})
    return Scores(
        once(statistic, counts),
        bootstrap(statistic, counts, seed, resamples),
        len(answers),
        {"chance": {"accuracy": float((1 / sizes).mean())},
         "majority": {"accuracy": float((answers == position).mean())}},
    )  # fmt: skip


def score_embed(
    gold: ArrayLike, left: ArrayLike, right: ArrayLike, seed: Seed = 0, resamples: int = RESAMPLES
) -> Scores:
    """Cosines of pairs of vectors, both (pairs, width), against their gold scores (pairs,)."""
    matching(gold, left, "vectors")
    found = score_regress(gold, retrieval.cosines(left, right), seed, resamples)
    kept = ("pearson", "spearman", "kendall")  # a cosine has no scale in common with the scores
    return Scores(
        {name: found.metrics[name] for name in kept},
        {name: span for name, span in found.intervals.items() if name in kept},
        found.examples,
        {"chance": found.baselines["chance"]},
        found.details,
        found.remarks,
    )


def score_retrieve(
    queries: ArrayLike,
    documents: ArrayLike,
    relevant: Sequence[Sequence[int]] | None = None,
    seed: Seed = 0,
    resamples: int = RESAMPLES,
) -> Scores:
    """Vectors of queries and of documents; relevant: each query's documents; without it, the one at its own place."""
    wanted = [[at] for at in range(len(np.asarray(queries)))] if relevant is None else relevant
    matching(wanted, queries, "queries")
    kinds, counts = merged(retrieval.retrieval_rows(queries, documents, wanted))
    statistic: Statistic = of_sums(kinds, retrieval.retrieval_figures)
    return Scores(
        once(statistic, counts),
        bootstrap(statistic, counts, seed, resamples),
        len(wanted),
        {"chance": retrieval.retrieval_chance(len(np.asarray(documents)), wanted)},
    )
