"""Similar words: found where words keep the same company, replaced token by token."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bertworks.errors import InputError
from bertworks.objectives.batches import Examples
from bertworks.objectives.published import PUBLISHED
from bertworks.objectives.similar import SimilarWords, similar_words
from bertworks.objectives.word_vectors import given_vectors
from bertworks.text.store import Store
from bertworks.text.tokenizer import Tokenizer

from ..stores import plain_tokenizer, store_of


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Tokenizer]:
    """A language of ten classes of words: which class follows which is fixed, which word of it is not."""
    folder = tmp_path_factory.mktemp("similar")
    tokenizer = plain_tokenizer(folder / "t")
    draw = np.random.default_rng(0)

    def sentence() -> list[int]:
        classes = (int(draw.integers(10)) + 3 * np.arange(20)) % 10
        words = classes * 10 + draw.integers(10, size=20)
        # every fifth word has a second token, of its class
        return [one for word in words for one in ([5 + word, 205 + word % 100] if word % 5 == 0 else [5 + word])]

    documents = [[sentence() for _ in range(20)] for _ in range(300)]
    return store_of(folder / "s", tokenizer, documents, 20_000), tokenizer


def classes_of(tokens: np.ndarray) -> np.ndarray:
    return (tokens[:, 0] - 5) // 10


def test_words_of_one_class_are_alike(made: tuple[Store, Tokenizer]) -> None:
    found = similar_words(made[0])
    assert len(found.hashes) == 100
    own = classes_of(found.tokens)
    sizes = (found.tokens >= 0).sum(1)
    for at, others in enumerate(found.others):
        known = others[others >= 0]
        assert at not in known
        assert (sizes[known] == sizes[at]).all()
        assert np.mean(own[known] == own[at]) >= (0.5 if sizes[at] == 1 else 0.0)
    right = [np.mean(own[row[row >= 0]] == own[at]) for at, row in enumerate(found.others) if sizes[at] == 1]
    assert np.mean(right) > 0.95


def test_macbert_replaces_words_by_their_like(made: tuple[Store, Tokenizer]) -> None:
    store, tokenizer = made
    examples = Examples(store, PUBLISHED["macbert"], 128, say=lambda _: None)
    rows, chosen, ids = examples.made(0, np.arange(examples.count(0)))
    changed = chosen & (ids != rows.ids)
    total = chosen.sum()
    assert not (ids == tokenizer.mask_id).any()  # MacBERT never shows [MASK]
    assert abs(changed.sum() / total - 0.9) < 0.02
    assert not np.isin(ids[changed], list(tokenizer.special_ids)).any()
    lone = rows.begins.copy()
    lone[:, :-1] &= rows.begins[:, 1:]
    single = changed & lone & (ids < 205)
    alike = (rows.ids[single] - 5) // 10 == (ids[single] - 5) // 10
    assert alike.mean() > 0.8  # 8 in 9 are by likeness, and these nearly always right
    # a word of two tokens is replaced, masked or kept as one
    starts = chosen & rows.begins
    second = np.zeros_like(starts)
    second[:, 1:] = starts[:, :-1] & ~rows.begins[:, 1:] & chosen[:, 1:]
    first = np.zeros_like(starts)
    first[:, :-1] = second[:, 1:]
    kept_first, kept_second = (ids == rows.ids)[first], (ids == rows.ids)[second]
    assert np.mean(kept_first != kept_second) < 0.08  # but by chance, where a replacement shares a token


def test_vectors_of_ones_own(made: tuple[Store, Tokenizer], tmp_path: Path) -> None:
    store, tokenizer = made
    # by name: word2vec text in which w0 is like w1, w2 like w3, …
    lines = [f"w{n} " + " ".join("1" if at == n // 2 else "0" for at in range(100)) for n in range(200)]
    (tmp_path / "v.txt").write_text("\n".join(lines) + "\n")
    found = similar_words(store, given_vectors(tmp_path / "v.txt", tokenizer))
    _assert_twins(found)
    # by token: a matrix in the vocabulary's order
    rows = np.zeros((tokenizer.vocab_size, 100), np.float32)
    rows[np.arange(5, 205), np.arange(200) // 2] = 1
    np.save(tmp_path / "v.npy", rows)
    _assert_twins(similar_words(store, given_vectors(tmp_path / "v.npy", tokenizer)))
    np.save(tmp_path / "short.npy", rows[:50])
    with pytest.raises(InputError, match="50 rows, the store's tokenizer 305 tokens"):
        given_vectors(tmp_path / "short.npy", tokenizer)


def _assert_twins(found: SimilarWords) -> None:
    single = (found.tokens >= 0).sum(1) == 1
    checked = 0
    for at in np.flatnonzero(single):
        other = found.others[at, 0]
        if other >= 0:
            assert found.tokens[other, 0] - 5 == (found.tokens[at, 0] - 5) ^ 1
            checked += 1
    assert checked > 40


def test_a_models_own_embeddings(made: tuple[Store, Tokenizer], tmp_path: Path) -> None:
    from ..tiny import tiny_folder

    folder = tiny_folder(tmp_path / "m", "bert")
    tokenizer = Tokenizer.load(folder)
    store = store_of(tmp_path / "s", tokenizer, [[[60, 61, 62, 63, 64, 65, 66, 67, 68, 69] * 3] * 10] * 10)
    found = similar_words(store, given_vectors(folder, tokenizer))
    assert len(found.hashes) > 3
    assert (found.others[:, 0] >= -1).all()
    with pytest.raises(InputError, match="rows"):
        given_vectors(folder, made[1])


def test_a_store_without_frequent_words_has_no_similar_ones(tmp_path: Path) -> None:
    tokenizer = plain_tokenizer(tmp_path / "t")
    store = store_of(tmp_path / "s", tokenizer, [[list(range(5, 100))]])
    examples = Examples(store, PUBLISHED["macbert"], 32, say=lambda _: None)
    _, chosen, ids = examples.made(0, np.arange(1))
    assert chosen.any()
    assert not (ids == tokenizer.mask_id).any()  # a random word stands for the similar one, as published
