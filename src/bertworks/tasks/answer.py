"""Questions answered by a piece of a text, or by nothing where it says nothing of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from bertworks.errors import ConfigError, InputError, tell
from bertworks.metrics import Scores, answering
from bertworks.text.tokenizer import Tokenizer
from bertworks.text.words import ONE_HAN
from bertworks.train.contract import Loss, Losses

from .answer_spans import Spans, best_spans, targets
from .batches import FeatureBatch
from .data import Asked, Row, Table
from .data.read import Say
from .features import Features, encode
from .losses import on, scored, shared
from .tag_words import cuts
from .task import Output, Prediction, Task, Wrong

CANDIDATES = 20  # spans of a question that share its probability
NOWHERE = 1e4  # the no-answer score of a context that is empty
LONGEST = 30  # tokens of an answer at most, where no number is given and answers of training are short


@dataclass(frozen=True)
class Answer(Task):
    """The context is read in windows that share up to `overlap` tokens (a third of `length` at most), the question
    before each. Where a window does not hold the answer, its first token ([CLS]) is to be pointed at; so what speaks
    for a span is its score above [CLS], which is compared over all windows.

    max_answer_length: in tokens; 0 for 30, or more where answers of training are long. n_best: how many answers a
    prediction names. no_answer: questions may have none; so it is where training has such. threshold, tuned on dev:
    over it no answer is given. rule: how answers are compared (see metrics/answering); auto for cmrc in Chinese, squad1
    where all have answers.
    """

    name: ClassVar[str] = "answer"
    reads: ClassVar[str] = "answer"
    heads: ClassVar[tuple[str, ...]] = ("answer",)
    drawn: ClassVar[tuple[str, ...]] = ("length", "labels", "threshold")
    figure: ClassVar[str] = "f1"

    overlap: int = 128
    max_answer_length: int = 0
    n_best: int = 5
    no_answer: bool = False
    rule: Literal["auto", "squad", "squad1", "cmrc"] = "auto"
    threshold: float = 0.0

    def __post_init__(self) -> None:
        if self.overlap < 0 or self.max_answer_length < 0:
            raise ConfigError(
                f"task has overlap {self.overlap}, max_answer_length {self.max_answer_length}", "both are 0 or more"
            )
        if not 1 <= self.n_best <= CANDIDATES:
            raise ConfigError(f"task.n_best is {self.n_best}", f"it is from 1 to {CANDIDATES}")

    @property
    def outputs_named(self) -> tuple[str, ...]:
        return ("start", "end")

    def learning(self, train: Table) -> Self:
        asked = [cast(Asked, row) for row in train.rows]
        if not any(row.answers for row in asked):
            raise InputError(f"{train.file}: no question has an answer", "there is nothing to learn from")
        some = self.no_answer or not all(row.answers for row in asked)
        longest = self.max_answer_length or _longest(asked)
        return replace(self, no_answer=some, max_answer_length=longest)

    def require(self, table: Table, say: Say = tell) -> None:
        without = next((row for row in table.rows if not cast(Asked, row).answers), None)
        if without is not None and not self.no_answer:
            say(f"{without.place}: no answer, though all questions of training have one: it will be answered wrongly")

    # -- from rows to predictions ------------------------------------------------------------------------------

    def features(self, rows: Sequence[Row], tokenizer: Tokenizer, taught: bool) -> Features:
        asked = [cast(Asked, row) for row in rows]
        pairs = [(row.question, row.context) for row in asked]
        overlap = min(self.overlap, self.length // 3)
        found = encode(tokenizer, pairs, self.length, overlap=overlap, aligned=True).apart()
        if not taught:
            return found
        first = [row.answers[0] if row.answers else None for row in asked]
        starts, ends = targets(
            found, [None if one is None else (one.start, one.start + len(one.text)) for one in first]
        )
        return found.teaching(per_feature={"starts": starts, "ends": ends})

    def loss(self) -> Loss:
        return _Loss()

    def outputs(self, module: nn.Module, batch: FeatureBatch) -> list[Output]:
        scores = scored(module, batch, "answer").cpu().numpy()
        return [one[:length] for one, length in zip(scores, batch.lengths.tolist(), strict=True)]

    def decode(self, rows: Sequence[Row], features: Features, outputs: Sequence[Output]) -> list[Prediction]:
        spans = best_spans(features, outputs, CANDIDATES, self.max_answer_length or LONGEST)
        return [
            self._prediction(cast(Asked, row), _candidates(cast(Asked, row).context, spans, places))
            for row, places in zip(rows, features.of_rows(len(rows)), strict=True)
        ]

    def score(
        self, rows: Sequence[Row], predictions: Sequence[Prediction], seed: int = 0, resamples: int = 1000
    ) -> Scores:
        from bertworks.metrics.scoring import score_answer

        gold, contexts = _gold(rows), [cast(Asked, row).context for row in rows]
        doubts = [one["no_answer"] for one in predictions] if self.no_answer else None
        return score_answer(
            gold, _bare(predictions), doubts, self._rule(rows), contexts, self.threshold, seed, resamples
        )

    def fitted(self, rows: Sequence[Row], features: Features, outputs: Sequence[Output]) -> Self:
        gold = _gold(rows)
        known = [answering.answerable(one) for one in gold]
        if not self.no_answer or all(known):
            return self
        predictions = self.decode(rows, features, outputs)
        said, doubts = _bare(predictions), [one["no_answer"] for one in predictions]
        right = answering.answer_scores(gold, said, self._rule(rows))
        return replace(self, threshold=_threshold(right[:, 1], known, doubts, said))

    def mistakes(self, rows: Sequence[Row], predictions: Sequence[Prediction], most: int = 50) -> list[Wrong]:
        right = answering.answer_scores(_gold(rows), [one["answer"] for one in predictions], self._rule(rows))
        worst = [(-value[1], one["score"], at) for at, (value, one) in enumerate(zip(right, predictions, strict=True))]
        found = []
        for overlap, sure, at in sorted(worst, reverse=True)[:most]:
            if overlap == -1:
                break
            row, said = cast(Asked, rows[at]), predictions[at]
            spans = [(one.start, one.start + len(one.text), "gold", "") for one in dict.fromkeys(row.answers or ())]
            if said["answer"]:
                spans.append((said["start"], said["end"], "predicted", ""))
            gold = " / ".join(dict.fromkeys(one.text for one in row.answers or ()))
            found.append(Wrong(row.context, gold, said["answer"], sure, row.line, row.question, tuple(spans)))
        return found

    # -- in between --------------------------------------------------------------------------------------------

    def _rule(self, rows: Sequence[Row]) -> answering.Rule:
        if self.rule != "auto":
            return self.rule
        asked = [cast(Asked, row) for row in rows]
        if in_chinese(asked):
            return "cmrc"
        return "squad" if self.no_answer or not all(row.answers for row in asked) else "squad1"

    def _prediction(self, row: Asked, spans: Sequence[tuple[float, int, int]]) -> Prediction:
        """From the best spans of a question: margin, start, end. no_answer is how far the best is below no answer."""
        doubt = -spans[0][0] if spans else NOWHERE
        margins = np.array([one[0] for one in spans] + [0.0] * (self.no_answer or not spans))
        shares = np.exp(margins - margins.max())
        shares /= shares.sum()
        answers: list[Prediction] = [
            {"text": row.context[start:end], "start": start, "end": end, "score": float(share)}
            for (_, start, end), share in zip(spans[: self.n_best], shares, strict=False)
        ]
        if not answers or (self.no_answer and doubt > self.threshold):
            said: Prediction = {"answer": "", "start": None, "end": None, "score": float(shares[-1])}
        else:
            said = {"answer": answers[0]["text"], **{name: answers[0][name] for name in ("start", "end", "score")}}
        return {**said, "no_answer": doubt, "answers": answers}


class _Loss:
    """The mean of two cross entropies, over all tokens of a feature: where the answer begins, and where it ends."""

    def counts(self, batch: FeatureBatch) -> dict[str, int]:
        return {"features": len(batch.ids), "tokens": batch.tokens}

    def __call__(self, module: nn.Module, batch: FeatureBatch, counts: Mapping[str, int], accuracy: bool) -> Losses:
        scores = scored(module, batch, "answer")
        scores = scores.masked_fill(~on(scores, batch.real)[..., None], float("-inf"))
        starts, ends = on(scores, batch.per_feature["starts"]), on(scores, batch.per_feature["ends"])
        total = (_surprise(scores[..., 0], starts) + _surprise(scores[..., 1], ends)) / 2
        facts = {}
        if accuracy:
            right = (scores[..., 0].argmax(1) == starts) & (scores[..., 1].argmax(1) == ends)
            facts["accuracy"] = float(right.sum())
        return shared(total, counts, facts, by="features")


def _surprise(scores: Tensor, wanted: Tensor) -> Tensor:
    return functional.cross_entropy(scores, wanted, reduction="sum")


def _threshold(
    right: NDArray[np.float64], known: Sequence[bool], doubts: Sequence[float], said: Sequence[str]
) -> float:
    """The best on these questions, halfway to the next one's doubt, so that rounding decides nothing."""
    best, threshold = answering.best_threshold(right, known, doubts, said)
    if np.mean(~np.array(known)) >= best:  # to say nothing at all is best
        return float(min(doubts)) - 1
    above = [one for one in doubts if one > threshold]
    return (threshold + min(above)) / 2 if above else threshold + 1


def _longest(rows: Sequence[Asked]) -> int:
    """As many words and Chinese characters as 99 of 100 answers have, but 30 at least."""
    sizes = [sum(1 for _ in cuts(one.text)) for row in rows for one in (row.answers or ())[:1]]
    return max(LONGEST, int(np.percentile(sizes, 99)))


def in_chinese(rows: Sequence[Asked]) -> bool:
    """Whether most characters that questions are asked with are Chinese."""
    some = "".join("".join(row.question.split()) for row in rows[:1000])
    return len(ONE_HAN.findall(some)) > len(some) / 2


def _gold(rows: Sequence[Row]) -> list[list[str]]:
    found = []
    for row in rows:
        answers = cast(Asked, row).answers
        if answers is None:
            raise InputError(f"{row.place}: no answers", "every question to learn from, or to score, wants them")
        found.append([one.text for one in answers])
    return found


def _bare(predictions: Sequence[Prediction]) -> list[str]:
    """The best answers, as if every question had one."""
    return [one["answers"][0]["text"] if one["answers"] else "" for one in predictions]


def _candidates(context: str, spans: Spans, places: Sequence[int]) -> list[tuple[float, int, int]]:
    """The best spans of all windows of a question: (margin, start, end), each once, without blanks at their ends."""
    found: dict[tuple[int, int], float] = {}
    for place in places:
        for start, end, margin in zip(
            spans.starts[place].tolist(), spans.ends[place].tolist(), spans.margins[place].tolist(), strict=True
        ):
            if margin == float("-inf"):
                break
            while start < end and context[start].isspace():
                start += 1
            while start < end and context[end - 1].isspace():
                end -= 1
            if start < end:
                found[start, end] = max(margin, found.get((start, end), margin))
    best = sorted(((margin, *span) for span, margin in found.items()), key=lambda one: (-one[0], one[1], one[2]))
    return best[:CANDIDATES]
