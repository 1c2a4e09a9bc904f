"""A prepared corpus: token ids with document, sentence and word boundaries, memory-mapped.

A store is a folder of Arrow IPC shards, which anyone can open, a manifest that counts them and holds their digests,
and the tokenizer that made them. One row of a shard is one document:

id         string: where the document came from
sentences  list<list<uint16 or uint32>>: its sentences' token ids, without special tokens
words      list<bool>: for each of its tokens, whether a word begins there

Positions, sentences and documents are numbered through the whole store. A document lies in one shard.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertworks.errors import ConfigError, InputError
from bertworks.folders import inside, read_json, written
from bertworks.text.tokenizer import Tokenizer

FORMAT = 1
MANIFEST = "manifest.json"
TOKENIZER = "tokenizer"
INDEXES = "indexes"  # what readers of a store work out once and keep; not part of the store itself

Ids = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True)
class ShardFacts:
    """What the manifest says of one shard."""

    file: str
    documents: int
    sentences: int
    tokens: int
    words: int
    unknown: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Shard:
    """The arrays of one shard, views into the mapped file.

    ids        [tokens]
    sentences  [sentences + 1] where each sentence begins in `ids`
    documents  [documents + 1] where each document begins in `sentences`
    bits       [tokens / 8] word beginnings, eight to a byte, the first in the lowest bit
    names      [documents] the documents' ids
    """

    ids: Ids
    sentences: NDArray[np.int32]
    documents: NDArray[np.int32]
    bits: NDArray[np.uint8]
    names: pa.StringArray

    @classmethod
    def map(cls, path: Path) -> Shard:
        """Map a shard's file; nothing is read until it is used."""
        with pa.memory_map(str(path)) as file:
            rows = pa.ipc.open_file(file).get_batch(0)
        nested = rows.column("sentences")
        flat = nested.values
        bits = rows.column("words").values.buffers()[1]
        return cls(
            flat.values.to_numpy(zero_copy_only=True),
            flat.offsets.to_numpy(zero_copy_only=True),
            nested.offsets.to_numpy(zero_copy_only=True),
            np.frombuffer(bits, np.uint8),
            rows.column("id"),
        )

    def begins(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Whether a word begins at each position of [start, stop)."""
        first = start >> 3
        bits = np.unpackbits(self.bits[first : (stop + 7) >> 3], bitorder="little")
        return bits[start - 8 * first : stop - 8 * first].view(np.bool_)

    @cached_property
    def document_tokens(self) -> NDArray[np.int32]:
        """[documents + 1] where each document begins in `ids`."""
        return self.sentences[self.documents]

    def broken(self, vocab_size: int) -> str | None:
        """What is wrong with the arrays themselves, if anything is."""
        for name, edges, end in (
            ("sentences", self.sentences, len(self.ids)),
            ("documents", self.documents, len(self.sentences) - 1),
        ):
            if edges[0] != 0 or edges[-1] != end or (np.diff(edges) < 1).any():
                return f"its {name} do not follow each other"
        if len(self.ids) and int(self.ids.max()) >= vocab_size:
            return f"token id {int(self.ids.max())} is past the vocabulary of {vocab_size}"
        return None


class Store:
    """A store, open for reading. Opening reads the manifest alone; a shard is mapped when it is first used."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        path = inside(self.folder, MANIFEST) if self.folder.is_dir() else None
        if path is None:
            part = self.folder.with_name(self.folder.name + ".part")
            raise InputError(
                f"{folder} is not a store: it has no {MANIFEST}",
                f"its preparation was not finished ({part} is there); run `bertworks prepare` again to go on"
                if part.is_dir()
                else "make one with `bertworks prepare`",
            )
        self.manifest = read_json(path)
        try:
            self._read()
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"{path} is not a store's manifest: {error!r}", "prepare the store again") from None

    def _read(self) -> None:
        facts = self.manifest
        if facts["format"] != FORMAT:
            raise ConfigError(
                f"{self.folder} is a store of format {facts['format']}, this version reads {FORMAT}",
                "prepare it again",
            )
        self.facts = [ShardFacts(**one) for one in facts["shards"]]
        self.vocab_size = int(facts["vocab_size"])
        self.digest = str(facts["tokenizer"])
        self.kind = str(facts["kind"])
        self.dtype = np.dtype(facts["dtype"])

        def edges(name: str) -> NDArray[np.int64]:
            return np.cumsum([0, *(getattr(one, name) for one in self.facts)], dtype=np.int64)

        self.token_edges, self.sentence_edges, self.document_edges = map(edges, ("tokens", "sentences", "documents"))
        self._shards: dict[int, Shard] = {}

    @property
    def tokens(self) -> int:
        return int(self.token_edges[-1])

    @property
    def sentences(self) -> int:
        return int(self.sentence_edges[-1])

    @property
    def documents(self) -> int:
        return int(self.document_edges[-1])

    @cached_property
    def tokenizer(self) -> Tokenizer:
        tokenizer = Tokenizer.load(self.folder / TOKENIZER)
        if tokenizer.digest != self.digest:
            raise ConfigError(
                f"{self.folder / TOKENIZER} is not the tokenizer that made this store",
                "restore its files, or prepare the store again",
            )
        return tokenizer

    @cached_property
    def identity(self) -> str:
        """One digest for everything in the store: what an index or a run is tied to."""
        told = json.dumps([self.digest, [one.sha256 for one in self.facts]])
        return hashlib.sha256(told.encode()).hexdigest()

    def require(self, tokenizer: Tokenizer, whose: str) -> None:
        """Refuse a tokenizer other than the one this store was made with."""
        if tokenizer.digest != self.digest:
            raise ConfigError(
                f"{self.folder} was prepared with another tokenizer than {whose} has",
                f"prepare it again with --tokenizer {whose}",
            )

    def shard(self, number: int) -> Shard:
        """One shard, checked against its digest the first time."""
        found = self._shards.get(number)
        if found is None:
            found = self._shards[number] = self._checked(self.facts[number])
        return found

    def shards(self) -> Iterator[Shard]:
        return (self.shard(number) for number in range(len(self.facts)))

    def _checked(self, facts: ShardFacts) -> Shard:
        path = inside(self.folder, facts.file)
        if path is None:
            raise InputError(f"{self.folder / facts.file} is missing", "prepare the store again")
        said = "prepare the store again, or restore the file"
        if path.stat().st_size != facts.bytes:
            raise InputError(f"{path} has {path.stat().st_size:,} bytes, the manifest says {facts.bytes:,}", said)
        if file_digest(path) != facts.sha256:
            raise InputError(f"{path} was changed since it was written: its digest differs", said)
        try:
            return Shard.map(path)
        except (pa.ArrowInvalid, KeyError, AttributeError) as error:
            raise InputError(f"{path} is not a shard of a store: {error}", said) from None

    def place(self, position: int) -> tuple[int, int]:
        """The shard that holds a token's position, and where that shard begins."""
        number = int(np.searchsorted(self.token_edges, position, "right")) - 1
        return number, int(self.token_edges[number])

    def take(self, positions: NDArray[np.int64]) -> tuple[Ids, NDArray[np.bool_]]:
        """positions [n] in the store -> the ids there, and whether words begin there."""
        ids = np.empty(len(positions), self.dtype)
        begins = np.empty(len(positions), np.bool_)
        owner = np.searchsorted(self.token_edges, positions, "right") - 1
        order = np.argsort(owner, kind="stable")
        numbers, firsts = np.unique(owner[order], return_index=True)
        for number, here in zip(numbers, np.split(order, firsts[1:]), strict=True):
            local = positions[here] - self.token_edges[number]
            shard = self.shard(int(number))
            ids[here] = shard.ids[local]
            begins[here] = (shard.bits[local >> 3] >> (local & 7).astype(np.uint8)) & 1
        return ids, begins

    def document_name(self, position: int) -> str:
        """The id of the document that a token's position lies in."""
        number, first = self.place(position)
        shard = self.shard(number)
        return str(shard.names[int(np.searchsorted(shard.document_tokens, position - first, "right")) - 1])


def file_digest(path: Path) -> str:
    """A file's SHA-256."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_shard(path: Path, file: str, parts: ShardParts) -> ShardFacts:
    """A shard's file under its final name, whole or not at all."""
    table = pa.RecordBatch.from_arrays(
        [
            pa.array(parts.names, pa.string()),
            pa.ListArray.from_arrays(
                pa.array(parts.documents, pa.int32()),
                pa.ListArray.from_arrays(pa.array(parts.sentences, pa.int32()), pa.array(parts.ids)),
            ),
            pa.ListArray.from_arrays(
                pa.array(parts.sentences[parts.documents], pa.int32()), pa.array(parts.begins, pa.bool_())
            ),
        ],
        names=["id", "sentences", "words"],
    )
    target = path / file
    with written(target) as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_batch(table)
    return ShardFacts(
        file,
        len(parts.names),
        len(parts.sentences) - 1,
        len(parts.ids),
        int(parts.begins.sum()),
        parts.unknown,
        target.stat().st_size,
        file_digest(target),
    )


@dataclass(frozen=True)
class ShardParts:
    """What goes into a shard: the arrays of `Shard`, with `begins` not yet packed into bits."""

    names: list[str]
    ids: Ids
    sentences: NDArray[np.int64]
    documents: NDArray[np.int64]
    begins: NDArray[np.bool_]
    unknown: int


def manifest(tokenizer: Tokenizer, dtype: str, shards: list[ShardFacts], report: dict[str, Any]) -> dict[str, Any]:
    """The manifest of a finished store. It holds no time and no path of this machine: same input, same bytes."""
    return {
        "format": FORMAT,
        "kind": tokenizer.kind,
        "tokenizer": tokenizer.digest,
        "vocab_size": tokenizer.vocab_size,
        "dtype": dtype,
        "documents": sum(one.documents for one in shards),
        "sentences": sum(one.sentences for one in shards),
        "tokens": sum(one.tokens for one in shards),
        "words": sum(one.words for one in shards),
        "unknown": sum(one.unknown for one in shards),
        "shards": [asdict(one) for one in shards],
        "report": report,
    }
