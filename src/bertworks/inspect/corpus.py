"""What is in a store, whether it is whole, and what in it would hurt a training."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertworks.errors import BertworksError
from bertworks.objectives.frame import Frame
from bertworks.objectives.index import broken_indexes, layout_rows
from bertworks.objectives.published import Objective
from bertworks.text.cleaning import guessed_language
from bertworks.text.store import Store

LAYOUTS = {
    "segment-pairs": Objective(layout="segment-pairs", pair="next-sentence"),
    "full-sentences": Objective(),
    "documents": Objective(layout="documents"),
    "packed": Objective(layout="packed"),
}
PADDING_SHARDS = 4  # the layouts are tried on this many shards, about 30 million tokens
GUESSED = 400  # documents whose language is guessed, spread over the store
MANY_UNKNOWN = 0.01
MANY_DUPLICATES = 0.01
MANY_LONE = 0.5
FEW_TOKENS = 1_000_000


@dataclass
class Findings:
    """facts: what `check --json` prints; errors and warnings: a line each."""

    facts: dict[str, Any] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def examine(store: Store, length: int) -> Findings:
    """Every shard is read once, against its digest; a broken one is an error that names it, and the rest goes on."""
    found = Findings()
    facts = found.facts
    facts |= {name: store.manifest[name] for name in ("kind", "vocab_size", "dtype", "report")}
    facts |= {"documents": store.documents, "sentences": store.sentences, "tokens": store.tokens}
    facts |= {"words": sum(one.words for one in store.facts), "shards": len(store.facts)}
    whole = _verified(store, found)
    facts["unknown_share"] = sum(one.unknown for one in store.facts) / max(store.tokens, 1)
    if whole:
        _measured(store, facts)
        facts["languages"] = _languages(store)
        facts["padding"] = {"length": length, **_padding(store, length)}
        found.warnings += _warnings(facts)
    return found


def _verified(store: Store, found: Findings) -> bool:
    for number in range(len(store.facts)):
        try:
            shard = store.shard(number)
        except BertworksError as error:
            found.errors.append(f"{error.message}; {error.way_out}")
            continue
        facts = store.facts[number]
        broken = shard.broken(store.vocab_size)
        counts = (len(shard.documents) - 1, len(shard.sentences) - 1, len(shard.ids))
        if broken is None and counts != (facts.documents, facts.sentences, facts.tokens):
            broken = "it does not hold as much as the manifest says"
        if broken:
            found.errors.append(f"{store.folder / facts.file}: {broken}; prepare the store again")
    try:
        _ = store.tokenizer
    except BertworksError as error:
        found.errors.append(f"{error.message}; {error.way_out}")
    found.errors += broken_indexes(store)
    return not found.errors


def _measured(store: Store, facts: dict[str, Any]) -> None:
    """Lengths of documents and sentences, and documents that are there more than once."""
    documents, sentences, lone = [], [], 0
    seen: set[bytes] = set()
    again = 0
    for shard in store.shards():
        edges = shard.document_tokens
        documents.append(np.diff(edges))
        sentences.append(np.diff(shard.sentences))
        lone += int((np.diff(shard.documents) == 1).sum())
        data = np.ascontiguousarray(shard.ids).view(np.uint8)
        size = shard.ids.itemsize
        for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            name = hashlib.blake2b(data[first * size : last * size].data, digest_size=12).digest()
            again += name in seen
            seen.add(name)
    facts["document_tokens"] = _spread(np.concatenate(documents))
    facts["sentence_tokens"] = _spread(np.concatenate(sentences))
    facts["lone_sentence_documents"] = lone
    facts["duplicate_documents"] = again


def _spread(sizes: NDArray[Any]) -> dict[str, int]:
    middle, most = np.percentile(sizes, [50, 90])
    return {"median": int(middle), "ninety_percent": int(most), "longest": int(sizes.max())}


def _padding(store: Store, length: int) -> dict[str, float]:
    """The share of a row that would be padding, by layout."""
    frame = Frame.of(store.tokenizer)
    shares = {}
    for name, objective in LAYOUTS.items():
        used = rows = 0
        for pieces in islice(layout_rows(store, frame, objective, length, seed=0, copy=0), PADDING_SHARDS):
            used += int(pieces.sizes.sum())
            rows += len(pieces.rows) - 1
        shares[name] = round(1 - used / max(rows * length, 1), 4)
    return shares


def _sampled(store: Store) -> Iterator[str]:
    """The beginnings of documents spread over the store, as text."""
    for number in np.unique(np.linspace(0, store.documents - 1, GUESSED).astype(np.int64)):
        shard_number = int(np.searchsorted(store.document_edges, number, "right")) - 1
        shard = store.shard(shard_number)
        first = int(shard.document_tokens[number - store.document_edges[shard_number]])
        last = int(shard.document_tokens[number - store.document_edges[shard_number] + 1])
        yield store.tokenizer.decode(shard.ids[first : min(last, first + 300)].tolist())


def _languages(store: Store) -> dict[str, float] | None:
    """Shares by guess, the largest first; None where the guesser is not installed."""
    if find_spec("py3langid") is None:
        return None
    guesses = Counter(guessed_language(text)[0] for text in _sampled(store))
    total = sum(guesses.values())
    return {name: round(count / total, 4) for name, count in guesses.most_common(8)}


def _warnings(facts: dict[str, Any]) -> list[str]:
    """What would hurt, and what to do about it."""
    found = []
    documents = facts["documents"]
    if facts["unknown_share"] > MANY_UNKNOWN:
        found.append(
            f"{facts['unknown_share']:.1%} of the tokens are unknown to the tokenizer: train one on this text, or a "
            "larger one"
        )
    if facts["duplicate_documents"] > MANY_DUPLICATES * documents:
        found.append(
            f"{facts['duplicate_documents']:,} of {documents:,} documents are there more than once: prepare with "
            "--duplicates exact"
        )
    if facts["lone_sentence_documents"] > MANY_LONE * documents:
        found.append(
            f"{facts['lone_sentence_documents']:,} of {documents:,} documents have one sentence: next-sentence pairs "
            "of these are always random; full-sentences suit them, or --documents blank or file if lines are sentences"
        )
    if facts["sentence_tokens"]["median"] > facts["padding"]["length"]:
        found.append(
            f"half of the sentences have {facts['sentence_tokens']['median']:,} tokens or more and would be cut at "
            f"{facts['padding']['length']}: is the text cut into sentences by marks that we do not know?"
        )
    if facts["tokens"] < FEW_TOKENS:
        found.append(f"{facts['tokens']:,} tokens are few: a model learns little from under a few million")
    languages = facts["languages"] or {}
    if languages.get("zh", 0) > 0.2 and facts["words"] > 0.97 * facts["tokens"]:
        found.append(
            "nearly every token is a word of its own, though there is Chinese: whole words would be characters; "
            "prepare without --no-segment"
        )
    return found
