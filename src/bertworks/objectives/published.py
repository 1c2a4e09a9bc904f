"""Objectives: a choice on three axes, and the published ones as rows of a table."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bertworks.errors import ConfigError, nearest

LAYOUTS = ("segment-pairs", "full-sentences", "documents", "packed")
PAIRS = ("none", "next-sentence", "sentence-order")
SELECTS = ("tokens", "words", "ngrams", "spans")
CORRUPTS = ("bert", "mask", "similar")
MASKINGS = ("static", "dynamic")


@dataclass(frozen=True)
class Objective:
    """How a store becomes examples.

    layout   what a row holds: a pair of segments of one document; full sentences that run on across documents; a
             stretch of one document; several short examples that do not see each other (of pairs, where `pair` is
             wanted, else of documents)
    pair     the second task: does the second segment follow the first, or are the two in order
    select   what is chosen as one: tokens, whole words, n-grams of words, spans of words
    rate     the share that is chosen
    corrupt  what becomes of it: 80 % [MASK], 10 % random, 10 % kept; all [MASK]; MacBERT's similar words
    masking  dynamic: drawn anew every epoch; static: drawn for `copies` epochs, then repeated
    short    the share of documents whose examples are made shorter, as published (segment pairs)
    copies   in how many ways the pairs are drawn before they repeat, and static masks with them
    ngrams   how likely an n-gram is of 1, 2, … words; where not given, what is published for `select`
    """

    layout: str = "full-sentences"
    pair: str = "none"
    select: str = "tokens"
    rate: float = 0.15
    corrupt: str = "bert"
    masking: str = "dynamic"
    short: float = 0.1
    copies: int = 10
    ngrams: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name, known in (
            ("layout", LAYOUTS),
            ("pair", PAIRS),
            ("select", SELECTS),
            ("corrupt", CORRUPTS),
            ("masking", MASKINGS),
        ):
            value = getattr(self, name)
            if value not in known:
                raise ConfigError(
                    f"objective.{name} is {value!r}", nearest(str(value), known) or f"known: {', '.join(known)}"
                )
        if not 0 < self.rate < 1:
            raise ConfigError(f"objective.rate is {self.rate}", "it is a share between 0 and 1, such as 0.15")
        if not 0 <= self.short <= 1:
            raise ConfigError(f"objective.short is {self.short}", "it is a share from 0 to 1, such as 0.1")
        if self.copies < 1:
            raise ConfigError(f"objective.copies is {self.copies}", "it is at least 1")
        if self.pair != "none" and self.layout not in ("segment-pairs", "packed"):
            raise ConfigError(
                f"objective.pair is {self.pair!r}, but rows of {self.layout} hold no pairs",
                'take layout = "segment-pairs" or "packed", or pair = "none"',
            )
        if self.corrupt == "similar" and self.select == "tokens":
            raise ConfigError(
                'objective.corrupt is "similar", which replaces whole words, and objective.select is "tokens"',
                'take select = "words" or "ngrams"',
            )
        if self.ngrams and (min(self.ngrams) < 0 or sum(self.ngrams) <= 0):
            raise ConfigError(
                f"objective.ngrams is {self.ngrams}", "give how likely 1, 2, … words are, such as 2, 1, 1"
            )

    @property
    def holds_pairs(self) -> bool:
        """Whether examples are pairs of segments."""
        return self.layout == "segment-pairs" or self.pair != "none"

    @property
    def span_weights(self) -> tuple[float, ...]:
        """How likely a choice is of 1, 2, … words."""
        if self.select in ("tokens", "words"):
            return (1.0,)
        weights = self.ngrams or _SPAN_WEIGHTS[self.select]
        return tuple(one / sum(weights) for one in weights)


_SPAN_WEIGHTS = {
    "ngrams": (1.0, 1 / 2, 1 / 3),  # ALBERT: p(n) ∝ 1/n, up to three
    "spans": tuple(0.2 * 0.8**n for n in range(10)),  # SpanBERT: geometric, up to ten
}

_BERT = Objective(layout="segment-pairs", pair="next-sentence", masking="static")

PUBLISHED: dict[str, Objective] = {
    "bert": _BERT,
    "bert-wwm": replace(_BERT, select="words"),
    "roberta": Objective(),
    "albert": replace(_BERT, pair="sentence-order", select="ngrams"),
    "macbert": replace(_BERT, pair="sentence-order", select="ngrams", ngrams=(0.4, 0.3, 0.2, 0.1), corrupt="similar"),
}


def published(name: str) -> Objective:
    """The row of that name."""
    if name not in PUBLISHED:
        raise ConfigError(
            f"unknown objective {name!r}", nearest(name, PUBLISHED) or f"published ones: {', '.join(PUBLISHED)}"
        )
    return PUBLISHED[name]
