"""The published procedures as plain loops, drawing the same numbers: what the vectorised ones must equal."""

from __future__ import annotations

import numpy as np

from bertworks.objectives.draws import (
    CHOOSE,
    COUNT,
    DOCUMENT,
    FRONT,
    NEXT,
    SHORT,
    SPAN,
    SPLIT,
    START,
    TARGET,
    below,
    bits,
    key,
    uniform,
)

Sentences = list[list[int]]
Row = list[tuple[list[int], int, int]]  # pieces: their tokens, separators behind them, segment


def full_sentences(documents: list[Sentences], length: int) -> list[list[list[int]]]:
    """Rows as lists of pieces, a piece the tokens of one document in the row."""
    room = length - 2
    rows: list[list[list[int]]] = []
    row: list[list[int]] = []
    used = 0
    for document in documents:
        fresh = True
        for unit in cut(document, room):
            needed = len(unit) + (1 if fresh and row else 0)
            if used + needed > room:
                rows.append(row)
                row, used, needed = [], 0, len(unit)
            if fresh or not row:
                row.append([])
            row[-1] += unit
            used += needed
            fresh = False
    return [*rows, row] if row else rows


def stretches(documents: list[Sentences], length: int) -> list[list[int]]:
    """Rows of single documents."""
    room = length - 2
    rows = []
    for document in documents:
        row: list[int] = []
        for unit in cut(document, room):
            if row and len(row) + len(unit) > room:
                rows.append(row)
                row = []
            row = row + unit
        rows.append(row)
    return rows


def cut(document: Sentences, room: int) -> Sentences:
    return [sentence[at : at + room] for sentence in document for at in range(0, len(sentence), room)]


def segment_pairs(
    documents: list[Sentences], most: int, pair: str, short: float, seed: int, copy: int
) -> list[tuple[int, list[int], list[int], int | None]]:
    """After Google's create_pretraining_data: number of the first sentence, both segments, the answer."""

    def of(purpose: int, number: int) -> np.ndarray:
        return key(purpose, seed, copy), number

    found = []
    first_sentence = 0
    for number, document in enumerate(documents):
        target = most
        if uniform(*of(SHORT, number)) < short:
            target = 2 + int(below(max(most - 1, 1), *of(TARGET, number)))
        at = 0
        while at < len(document):
            chunk: Sentences = []
            stop = at
            while stop < len(document) and sum(map(len, chunk)) < target:
                chunk.append(document[stop])
                stop += 1
            name = first_sentence + at
            ending = 1
            if len(chunk) >= 2:
                ending = 1 + int(below(len(chunk) - 1, *of(SPLIT, name)))
            first = [one for sentence in chunk[:ending] for one in sentence]
            second = [one for sentence in chunk[ending:] for one in sentence]
            other = bool(uniform(*of(NEXT, name)) < 0.5)
            answer: int | None = 0
            if pair == "none":
                answer = None
            elif len(chunk) == 1 or (pair == "next-sentence" and other):
                answer = 1
                picked = int(below(len(documents), *of(DOCUMENT, name)))
                for draw in range(1, 10):
                    if picked != number:
                        break
                    picked = int(below(len(documents), key(DOCUMENT, seed, copy, draw), name))
                strange = documents[picked]
                start = int(below(len(strange), *of(START, name)))
                wanted = target - len(first)
                second = []
                for sentence in strange[start:]:
                    second += sentence
                    if len(second) >= wanted:
                        break
                stop = at + ending
            elif pair == "sentence-order" and other:
                first, second, answer = second, first, 1
            first, second = truncated(first, second, most, key(FRONT, seed, copy), name)
            found.append((name, first, second, answer))
            at = stop
        first_sentence += len(document)
    return found


def truncated(
    first: list[int], second: list[int], most: int, keys: np.ndarray, name: int
) -> tuple[list[int], list[int]]:
    counters = [0, 0]
    sides = [list(first), list(second)]
    while len(sides[0]) + len(sides[1]) > most:
        side = 0 if len(sides[0]) > len(sides[1]) else 1
        coin = int(bits(bits(keys, 2 * name + side), counters[side])) & 1
        counters[side] += 1
        sides[side] = sides[side][1:] if coin else sides[side][:-1]
    return sides[0], sides[1]


def chosen(
    begins: list[bool], own: list[bool], wanted: int, row_key: np.ndarray, weights: tuple[float, ...]
) -> list[int]:
    """After Google's ALBERT code: words in a random order, each tried with those after it, then with fewer."""
    length = len(begins)
    words: list[list[int]] = []
    after: list[bool] = []  # whether a word stands right behind the one before it
    for at in range(length):
        if not own[at]:
            continue
        if begins[at] or not words:
            after.append(bool(words) and words[-1][-1] == at - 1)
            words.append([at])
        else:
            words[-1].append(at)
    numbers = np.cumsum(begins) - 1
    place = [int(numbers[word[0]]) for word in words]
    chance = {at: int(bits(bits(row_key, CHOOSE), number)) for at, number in enumerate(place)}
    span = {at: float(uniform(bits(row_key, SPAN), number)) for at, number in enumerate(place)}
    taken: set[int] = set()
    for at in sorted(chance, key=chance.__getitem__):
        if len(taken) >= wanted:
            break
        possible = 1
        while possible < len(weights) and at + possible < len(words) and after[at + possible]:
            possible += 1
        edges = np.cumsum(weights[:possible])
        n = min(int(np.searchsorted(edges, span[at] * edges[-1], "right")) + 1, possible)
        while n and len(taken) + sum(map(len, words[at : at + n])) > wanted:
            n -= 1
        tokens = [one for word in words[at : at + n] for one in word]
        if tokens and not taken.intersection(tokens):
            taken.update(tokens)
    return sorted(taken)


def quota(tokens: int, own: int, pairs: bool, rate: float, row_key: np.ndarray, most: int) -> int:
    if pairs:
        return min(max(1, round(tokens * rate)), most)
    return min(int(own * rate + float(uniform(row_key, COUNT))), most)
