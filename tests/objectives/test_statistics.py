"""A million tokens of every published objective, counted: what the papers say is what comes out."""

from __future__ import annotations

import numpy as np
import pytest

from bertworks.objectives.batches import Examples
from bertworks.objectives.draws import SHORT, TARGET, below, key, uniform
from bertworks.objectives.pieces import ANSWER
from bertworks.objectives.published import PUBLISHED, Objective
from bertworks.text.store import Store

from ..stores import plain_tokenizer, random_documents, store_of
from . import oracles

LENGTH = 128


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("statistics")
    tokenizer = plain_tokenizer(folder / "t", words=3000, pieces=1000)
    documents = random_documents(tokenizer, 4600, 11)
    made = store_of(folder / "s", tokenizer, documents, 300_000)
    assert made.tokens > 1_000_000
    return made


@pytest.fixture(scope="module", params=[*PUBLISHED, "roberta-words", "packed-albert"])
def made(request: pytest.FixtureRequest, store: Store):  # type: ignore[no-untyped-def]
    more = {
        "roberta-words": Objective(select="words"),
        "packed-albert": Objective(layout="packed", pair="sentence-order", select="ngrams"),
    }
    examples = Examples(store, (PUBLISHED | more)[request.param], LENGTH, say=lambda _: None)
    return (request.param, examples, *examples.made(0, np.arange(examples.count(0))))


def test_fifteen_in_a_hundred_are_chosen(made) -> None:  # type: ignore[no-untyped-def]
    _, examples, rows, chosen, _ = made
    base = (rows.sequences > 0).sum() if examples.objective.holds_pairs else rows.own.sum()
    assert base > 1_000_000
    assert abs(chosen.sum() / base - 0.15) < 0.002
    assert not (chosen & ~rows.own).any()
    special = np.isin(rows.ids, list(examples.store.tokenizer.special_ids))
    assert not (chosen & special).any()
    assert (chosen.sum(1) <= examples.most).all()


def test_eighty_ten_ten(made) -> None:  # type: ignore[no-untyped-def]
    _, examples, rows, chosen, ids = made
    tokenizer = examples.store.tokenizer
    total = chosen.sum()
    masked = (chosen & (ids == tokenizer.mask_id)).sum() / total
    kept = (chosen & (ids == rows.ids)).sum() / total
    assert abs(kept - 0.1) < 0.005
    if examples.objective.corrupt == "bert":
        assert abs(masked - 0.8) < 0.005
        drawn = ids[chosen & (ids != tokenizer.mask_id) & (ids != rows.ids)]
        assert abs(len(drawn) / total - 0.1) < 0.005
        # drawn from the whole vocabulary, each token alike: the ends of it among them
        ordinary = tokenizer.vocab_size - len(tokenizer.special_ids)
        assert abs(np.mean(drawn) - (tokenizer.vocab_size + 4) / 2) < 6 * ordinary / np.sqrt(12 * len(drawn))
        assert len(np.unique(drawn)) > 0.97 * min(ordinary, len(drawn) / 5)
    else:
        assert masked == 0
    np.testing.assert_array_equal(ids[~chosen], rows.ids[~chosen])


def test_words_are_never_torn(made) -> None:  # type: ignore[no-untyped-def]
    name, examples, rows, chosen, _ = made
    words = np.cumsum(rows.begins.ravel())
    of_word = np.bincount(words, chosen.ravel())
    whole = np.bincount(words, rows.own.ravel())
    torn = (of_word > 0) & (of_word < whole)
    if examples.objective.select == "tokens":
        assert torn.any()  # so the test above could fail
    else:
        assert not torn.any(), name


def test_the_pair_task(made) -> None:  # type: ignore[no-untyped-def]
    """Half of the chunks of two sentences or more get another second segment; of one sentence, always."""
    name, examples, _, _, _ = made
    if examples.objective.pair == "none" or name in ("packed-albert", "bert-wwm"):  # the latter is cut as bert is
        return
    store, pieces = examples.store, examples.index(0)
    first = pieces.rows[:-1]
    answers = (pieces.mark[first] >> ANSWER) & 3
    sentence_starts = np.concatenate(
        [shard.sentences[:-1] + edge for shard, edge in zip(store.shards(), store.token_edges, strict=False)]
    )
    document_of = np.concatenate(
        [
            np.searchsorted(shard.document_tokens, shard.sentences[:-1], "right") - 1 + edge
            for shard, edge in zip(store.shards(), store.document_edges, strict=False)
        ]
    )

    def document(starts: np.ndarray) -> np.ndarray:
        return document_of[np.searchsorted(sentence_starts, starts, "right") - 1]

    one, two = document(pieces.start[first]), document(pieces.start[first + 1])
    assert (one[answers == 0] == two[answers == 0]).all()
    if examples.objective.pair == "next-sentence":
        assert (one != two)[answers == 1].mean() > 0.999  # ten draws, as published
        assert (pieces.start[first] < pieces.start[first + 1])[answers == 0].all()
        lone = _lone_share(store, examples)
        assert abs((answers.mean() - lone) / (1 - lone) - 0.5) < 0.01
    else:
        swapped = answers == 1
        inside = one == two
        assert (pieces.start[first] > pieces.start[first + 1])[swapped & inside].all()
        assert abs(swapped[inside].mean() - 0.5) < 0.01


def _lone_share(store: Store, examples: Examples) -> float:
    """The share of examples whose chunk is one sentence, by the plain procedure."""
    documents = []
    for shard in store.shards():
        sentences = np.split(shard.ids, shard.sentences[1:-1])
        for begin, end in zip(shard.documents[:-1], shard.documents[1:], strict=True):
            documents.append([one.tolist() for one in sentences[begin:end]])
    most = examples.frame.room(LENGTH, pairs=True)
    edges = np.cumsum([0, *map(len, documents)])
    lone = 0
    found = oracles.segment_pairs(documents, most, "next-sentence", 0.1, 0, 0)
    for name, *_ in found:
        number = int(np.searchsorted(edges, name, "right")) - 1
        rest = documents[number][name - edges[number] :]
        target = most
        if float(uniform(key(SHORT, 0, 0), number)) < 0.1:
            target = 2 + int(below(most - 1, key(TARGET, 0, 0), number))
        lone += len(rest) == 1 or len(rest[0]) >= target
    return lone / len(found)


def test_ngram_lengths(store: Store) -> None:
    """Each choice is an n-gram of words: with few chosen, so that they seldom touch, their lengths show."""
    weights = {"albert": np.array([6, 3, 2]) / 11, "macbert": np.array([0.4, 0.3, 0.2, 0.1])}
    for name, wanted in weights.items():
        ngrams = () if name == "albert" else tuple(wanted)
        objective = Objective(layout="full-sentences", select="ngrams", ngrams=ngrams, rate=0.03)
        examples = Examples(store, objective, 4096, say=lambda _: None)
        rows, chosen, _ = examples.made(0, np.arange(examples.count(0)))
        words = np.cumsum(rows.begins.ravel())
        taken = np.bincount(words, chosen.ravel()) > 0
        edges = np.flatnonzero(np.diff(np.concatenate([[0], taken, [0]]).astype(int)))
        runs = edges[1::2] - edges[::2]
        share = np.bincount(runs, minlength=8)[1:8] / len(runs)
        np.testing.assert_allclose(share[: len(wanted)], wanted, atol=0.02)


def test_ten_in_a_hundred_documents_are_short(store: Store) -> None:
    whole = Examples(store, PUBLISHED["bert"], LENGTH, say=lambda _: None)
    never = Examples(
        store, Objective(layout="segment-pairs", pair="next-sentence", short=0.0), LENGTH, say=lambda _: None
    )
    short = [np.mean(one.index(0).row_sizes < LENGTH * 0.7) for one in (whole, never)]
    assert short[0] > short[1] + 0.03


def test_copies_cut_the_text_anew(store: Store) -> None:
    examples = Examples(store, PUBLISHED["bert"], LENGTH, say=lambda _: None)
    one, two = examples.index(0), examples.index(1)
    assert len(one.start) != len(two.start) or (one.start != two.start).any()
    assert examples.index(10) is one
