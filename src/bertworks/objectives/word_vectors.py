"""Vectors of words from what a person has: a model's own embeddings, or a matrix in a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertworks.errors import InputError
from bertworks.text.tokenizer import Tokenizer
from bertworks.weights.files import find_tensors
from bertworks.weights.matrix import read_matrix

from .similar import Vectors

TABLE = "word_embeddings.weight"  # what BERT, RoBERTa and ALBERT all call it, behind some prefix


def given_vectors(source: str | Path, tokenizer: Tokenizer) -> Vectors:
    """Vectors from a model folder or a matrix file (.safetensors, .npy, word2vec or GloVe text) for `similar_words`.

    A file that names its rows is asked for whole words; otherwise a word's vector is the mean of its tokens' rows.
    """
    source = Path(source)
    if source.is_dir():
        return _of_tokens(_embeddings(source), tokenizer, source)
    matrix = read_matrix(source)
    rows = np.asarray(matrix.rows, np.float32)
    if matrix.words is None:
        return _of_tokens(rows, tokenizer, source)
    row_of = {word: row for row, word in reversed(list(enumerate(matrix.words)))}

    def by_name(words: list[tuple[int, ...]]) -> NDArray[np.float32]:
        found = np.zeros((len(words), rows.shape[1]), np.float32)
        for at, word in enumerate(words):
            text = tokenizer.decode(word).replace(" ", "")
            row = next((row_of[name] for name in (text, text.lower()) if name in row_of), None)
            if row is not None:
                found[at] = rows[row]
        return found

    return by_name


def _embeddings(folder: Path) -> NDArray[np.float32]:
    tensors = find_tensors(folder)
    name = next((one for one in tensors or () if one.endswith(TABLE)), None)
    if tensors is None or name is None:
        raise InputError(f"{folder} holds no {TABLE}", "name a model folder with safetensors weights, or a matrix")
    return np.asarray(tensors[name].float(), np.float32)


def _of_tokens(rows: NDArray[np.float32], tokenizer: Tokenizer, source: Path) -> Vectors:
    if len(rows) < tokenizer.vocab_size:
        raise InputError(
            f"{source} has {len(rows):,} rows, the store's tokenizer {tokenizer.vocab_size:,} tokens",
            "give vectors made with the same tokenizer, or a file that names its words",
        )

    def by_mean(words: list[tuple[int, ...]]) -> NDArray[np.float32]:
        return np.stack([rows[list(word)].mean(0) for word in words]) if words else rows[:0]

    return by_mean
