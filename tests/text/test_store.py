"""The store: what goes in comes out, anyone can open it, and what is broken in it is named."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.errors import BertworksError, ConfigError, InputError
from bertworks.text.store import Store
from bertworks.text.words import WordFinder

from ..stores import plain_tokenizer, random_documents, store_of


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    return plain_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture
def folder(tokenizer, tmp_path: Path) -> Path:  # type: ignore[no-untyped-def]
    return store_of(tmp_path / "s", tokenizer, random_documents(tokenizer, 40, 2), 1500).folder


documents = st.lists(
    st.lists(st.lists(st.integers(5, 304), min_size=1, max_size=12), min_size=1, max_size=5), min_size=1, max_size=15
)


@settings(max_examples=40, deadline=None)
@given(given_documents=documents, shard=st.integers(5, 60))
def test_what_goes_in_comes_out(tokenizer, given_documents, shard) -> None:  # type: ignore[no-untyped-def]
    with TemporaryDirectory() as name:
        store = store_of(Path(name) / "s", tokenizer, given_documents, shard)
        assert store.documents == len(given_documents)
        assert store.sentences == sum(map(len, given_documents))
        flat = [one for document in given_documents for sentence in document for one in sentence]
        begins = np.concatenate(
            [
                WordFinder(tokenizer, None).by_marks(np.array(sentence))
                for document in given_documents
                for sentence in document
            ]
        )
        assert store.tokens == len(flat)
        ids, words = store.take(np.arange(store.tokens))
        assert ids.tolist() == flat
        np.testing.assert_array_equal(words, begins)
        mixed = np.random.default_rng(0).permutation(store.tokens)
        np.testing.assert_array_equal(store.take(mixed)[0], np.array(flat)[mixed])
        back = []
        for one in store.shards():
            assert one.broken(store.vocab_size) is None
            for first, last in zip(one.documents[:-1], one.documents[1:], strict=True):
                edges = one.sentences[first : last + 1]
                back.append([one.ids[a:b].tolist() for a, b in pairwise(edges)])
            stop = len(one.ids)
            for start in range(min(stop, 12)):
                np.testing.assert_array_equal(one.begins(start, stop), one.begins(0, stop)[start:])
        assert back == given_documents
        position = 0
        for number, document in enumerate(given_documents):
            assert store.document_name(position) == f"doc:{number}"
            position += sum(map(len, document))
            assert store.document_name(position - 1) == f"doc:{number}"


def test_anyone_can_open_a_shard(folder: Path) -> None:
    store = Store(folder)
    assert len(store.facts) > 3
    with pa.ipc.open_file(folder / store.facts[0].file) as file:
        table = file.read_all()
    assert table.column_names == ["id", "sentences", "words"]
    assert str(table.schema.field("sentences").type) == "list<item: list<item: uint16>>"
    row = table.slice(0, 1).to_pylist()[0]
    assert row["id"] == "doc:0"
    flat = [one for sentence in row["sentences"] for one in sentence]
    assert len(flat) == len(row["words"])
    assert flat == store.take(np.arange(len(flat)))[0].tolist()


def test_large_vocabularies_take_four_bytes(tmp_path: Path) -> None:
    tokenizer = plain_tokenizer(tmp_path / "t", words=70_000)
    store = store_of(tmp_path / "s", tokenizer, [[[69_000, 70_003, 7]]])
    assert store.dtype == np.uint32
    assert store.take(np.arange(3))[0].tolist() == [69_000, 70_003, 7]


def test_every_flipped_bit_is_noticed(folder: Path) -> None:
    draw = np.random.default_rng(1)
    for path in sorted((folder / "shards").iterdir())[:3]:
        whole = path.read_bytes()
        for at in draw.integers(0, len(whole), 8):
            changed = bytearray(whole)
            changed[at] ^= 1 << int(draw.integers(8))
            path.write_bytes(changed)
            store = Store(folder)
            with pytest.raises(InputError, match=f"{path.name} was changed since it was written"):
                store.take(np.arange(store.tokens))
        path.write_bytes(whole)
    store = Store(folder)
    assert len(store.take(np.arange(store.tokens))[0]) == store.tokens


def used(folder: Path) -> None:
    store = Store(folder)
    _ = store.tokenizer
    store.take(np.arange(store.tokens))


def test_what_is_missing_or_torn_is_named(folder: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    shutil.copytree(folder, whole)

    def broken(change) -> str:  # type: ignore[no-untyped-def]
        shutil.rmtree(folder)
        shutil.copytree(whole, folder)
        change()
        with pytest.raises(BertworksError) as error:
            used(folder)
        return str(error.value)

    last = sorted((folder / "shards").iterdir())[-1].name
    assert f"{last} is missing" in broken(lambda: (folder / "shards" / last).unlink())
    assert "bytes, the manifest says" in broken(lambda: (folder / "shards" / last).write_bytes(b"ARROW1"))
    assert "is not JSON" in broken(lambda: (folder / "manifest.json").write_text('{"format": 1, "sha'))
    assert "not a store's manifest" in broken(lambda: (folder / "manifest.json").write_text('{"format": 1}'))
    assert "has no manifest.json" in broken(lambda: (folder / "manifest.json").unlink())
    assert "not the tokenizer that made this store" in broken(
        lambda: plain_tokenizer(folder / "tokenizer", words=10) and (folder / "tokenizer" / "tokenizer.json").unlink()
    )

    def outside() -> None:
        told = json.loads((folder / "manifest.json").read_text())
        told["shards"][0]["file"] = "../../etc/passwd"
        (folder / "manifest.json").write_text(json.dumps(told))

    assert "outside the folder" in broken(outside)

    def later() -> None:
        told = json.loads((folder / "manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps(told | {"format": 9}))

    assert "a store of format 9" in broken(later)


def test_another_tokenizer_is_refused(folder: Path, tmp_path: Path) -> None:
    other = plain_tokenizer(tmp_path / "other", words=201)
    with pytest.raises(ConfigError, match="prepared with another tokenizer than model has"):
        Store(folder).require(other, "model")
    Store(folder).require(Store(folder).tokenizer, "model")


def test_opening_touches_no_shard(folder: Path) -> None:
    for path in (folder / "shards").iterdir():
        path.write_bytes(b"")
    store = Store(folder)
    assert store.tokens > 0
    with pytest.raises(InputError):
        store.shard(0)
