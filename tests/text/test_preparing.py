"""From files to a store: the same bytes whoever does the work, and what was dropped is told."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from bertworks.errors import BertworksError, BertworksWarning, InputError
from bertworks.text import preparing
from bertworks.text.cleaning import Cleaning
from bertworks.text.preparing import Plan, Progress, prepare
from bertworks.text.store import Store

from . import corpora

COUNT = 300


@pytest.fixture(scope="module", params=["wordpiece", "byte-bpe", "unigram"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BertworksWarning)
        corpora.tokenizer(folder, request.param)
    return folder


@pytest.fixture(scope="module")
def wordpiece(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wordpiece")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BertworksWarning)
        corpora.tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpora.written(tmp_path_factory.mktemp("corpus") / "c.jsonl", corpora.documents(COUNT))


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_store_holds_every_sentence(tokenizer: Path, corpus: Path, tmp_path: Path) -> None:
    """Against the tokenizer asked sentence by sentence."""
    from bertworks.text.sentences import sentences

    store = prepare(Plan((str(corpus),), tokenizer, shard_tokens=4000), tmp_path / "s")
    assert len(store.facts) > 3
    texts = [text for text in corpora.documents(COUNT) if text.strip()]
    led = store.kind == "byte-bpe"
    wanted = [[store.tokenizer.ids_of([one])[0] for one in sentences(text, led)] for text in texts]
    got = []
    for shard in store.shards():
        assert shard.broken(store.vocab_size) is None
        for first, last in zip(shard.documents[:-1], shard.documents[1:], strict=True):
            edges = shard.sentences[first : last + 1]
            got.append([shard.ids[a:b].tolist() for a, b in pairwise(edges)])
    assert got == wanted
    report = store.manifest["report"]
    assert report["documents_read"] == len(texts)
    assert report["empty_documents"] == COUNT - len(texts)


@pytest.mark.parametrize("cleaning", [Cleaning(), Cleaning(spaces=True, shortest=40, duplicates="exact")])
def test_workers_make_the_same_bytes(wordpiece: Path, corpus: Path, tmp_path: Path, cleaning: Cleaning) -> None:
    plan = Plan((str(corpus),), wordpiece, cleaning=cleaning, shard_tokens=3000)
    one = bytes_of(prepare(plan, tmp_path / "one").folder)
    assert len(one) > 5
    assert bytes_of(prepare(plan, tmp_path / "three", workers=3).folder) == one
    assert not [path for path in tmp_path.iterdir() if path.name not in ("one", "three")]  # nothing lies about


def test_chinese_words_are_marked(wordpiece: Path, tmp_path: Path) -> None:
    path = corpora.written(tmp_path / "c.jsonl", ["我们使用语言模型。"])
    plan = Plan((str(path),), wordpiece)
    store = prepare(plan, tmp_path / "s")
    ids, begins = store.take(np.arange(store.tokens))
    assert [store.tokenizer.tokens[at] for at in ids] == list("我们使用语言模型。")
    assert begins.tolist() == [True, False, True, False, True, False, True, False, True]
    apart = prepare(Plan((str(path),), wordpiece, segment=False), tmp_path / "apart")
    assert apart.take(np.arange(apart.tokens))[1].all()


@pytest.mark.parametrize(
    "cleaning", [Cleaning(), Cleaning(duplicates="exact"), Cleaning(duplicates="near", spaces=True)]
)
def test_a_stopped_preparation_goes_on(
    wordpiece: Path, corpus: Path, tmp_path: Path, cleaning: Cleaning, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped after any shard, again and again: the same bytes as in one go."""
    monkeypatch.setattr(preparing, "tasks", lambda *args: _small_tasks(*args))
    plan = Plan((str(corpus),), wordpiece, cleaning=cleaning, shard_tokens=2500)
    wanted = bytes_of(prepare(plan, tmp_path / "whole").folder)

    class StopError(Exception):
        pass

    stops, resumed = 0, []
    while not (tmp_path / "s").exists():
        begun: list[int] = []

        def stop_soon(state: Progress, begun: list[int] = begun) -> None:
            begun.append(state.documents)
            resumed.append(state.resumed)
            if state.documents > begun[0] + 60:
                raise StopError

        try:
            prepare(plan, tmp_path / "s", progress=stop_soon)
        except StopError:
            stops += 1
        assert stops < 50
    assert stops >= 3
    assert max(resumed) > 100
    assert bytes_of(tmp_path / "s") == wanted


def _small_tasks(stream, stored, first=0):  # type: ignore[no-untyped-def]
    from bertworks.text import working

    for number, document in enumerate(stream, first):
        yield working.Task(number, [document], number >= stored)


def test_other_options_are_refused(wordpiece: Path, corpus: Path, tmp_path: Path) -> None:
    def fail(_: Progress) -> None:
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        prepare(Plan((str(corpus),), wordpiece, shard_tokens=2000), tmp_path / "s", progress=fail)
    assert (tmp_path / "s.part").is_dir()
    with pytest.raises(InputError, match="its preparation was not finished"):
        Store(tmp_path / "s")
    other = Plan((str(corpus),), wordpiece, segment=False, shard_tokens=2000)
    with pytest.raises(InputError, match=r"begun otherwise \(segment\), and holds whole shards[\s\S]*remove"):
        prepare(other, tmp_path / "s")
    shutil.rmtree(tmp_path / "s.part")
    assert prepare(other, tmp_path / "s").documents > 200
    assert not (tmp_path / "s.part").exists()


def test_what_is_not_ours_is_not_touched(wordpiece: Path, corpus: Path, tmp_path: Path) -> None:
    part = tmp_path / "s.part"
    part.mkdir()
    (part / "thesis.txt").write_text("precious")
    with pytest.raises(InputError, match="is in the way"):
        prepare(Plan((str(corpus),), wordpiece), tmp_path / "s")
    assert (part / "thesis.txt").read_text() == "precious"
    shutil.rmtree(part)
    part.write_text("a file")
    with pytest.raises(InputError, match="is in the way"):
        prepare(Plan((str(corpus),), wordpiece), tmp_path / "s")
    assert part.read_text() == "a file"


def test_a_failure_leaves_nothing_lying_about(wordpiece: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "torn.jsonl").write_text('{"text": ')
    for name in ("empty.txt", "torn.jsonl"):
        with pytest.raises(InputError):
            prepare(Plan((str(tmp_path / name),), wordpiece), tmp_path / "s")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.txt", "torn.jsonl"]


def test_names_that_are_no_utf8(wordpiece: Path, tmp_path: Path) -> None:
    """As archives from Chinese Windows unpack."""
    folder = os.fsencode(tmp_path / "gbk")
    os.mkdir(folder)  # noqa: PTH102
    with open(folder + b"/\xc4\xe3.txt", "w") as file:  # noqa: PTH123
        file.write("one line of words here\n")
    store = prepare(Plan((str(tmp_path / "gbk"),), wordpiece), tmp_path / "s")
    assert store.document_name(0).endswith("\ufffd\ufffd\ufffd.txt:1") or "\ufffd" in store.document_name(0)


def test_a_changed_source_is_refused(wordpiece: Path, tmp_path: Path) -> None:
    path = corpora.written(tmp_path / "c.jsonl", corpora.documents(100))
    plan = Plan((str(path),), wordpiece, shard_tokens=1000)

    def fail(_: Progress) -> None:
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        prepare(plan, tmp_path / "s", progress=fail)
    corpora.written(path, corpora.documents(100, seed=1))
    with pytest.raises(InputError, match=r"begun otherwise \(files\)"):
        prepare(plan, tmp_path / "s")


def test_duplicates_are_dropped_and_told(wordpiece: Path, corpus: Path, tmp_path: Path) -> None:
    kept = prepare(Plan((str(corpus),), wordpiece), tmp_path / "kept")
    store = prepare(Plan((str(corpus),), wordpiece, cleaning=Cleaning(duplicates="exact")), tmp_path / "s")
    texts = [text for text in corpora.documents(COUNT) if text.strip()]
    assert kept.documents == len(texts)
    assert store.documents == len(set(texts))
    assert store.manifest["report"]["dropped_duplicate"] == len(texts) - len(set(texts))


def test_a_taken_name_and_an_empty_source_are_refused(wordpiece: Path, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "something").touch()
    with pytest.raises(InputError, match="is there already"):
        prepare(Plan((str(corpus),), wordpiece), tmp_path / "s")
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(InputError, match="no text was found"):
        prepare(Plan((str(tmp_path / "empty.txt"),), wordpiece), tmp_path / "e")
    with pytest.raises(InputError, match=r"nothing\.txt is not a file"):
        prepare(Plan((str(tmp_path / "nothing.txt"),), wordpiece), tmp_path / "n")
    assert not (tmp_path / "n.part").exists()


def test_a_tokenizer_without_a_mask_is_refused(corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    with pytest.raises(InputError, match="has no mask token"):
        prepare(Plan((str(corpus),), folder), tmp_path / "s")


def test_two_preparations_of_one_store_do_not_mix(wordpiece: Path, corpus: Path, tmp_path: Path) -> None:
    plan = Plan((str(corpus),), wordpiece)
    said: list[str] = []

    def another(_: Progress) -> None:
        if not said:
            with pytest.raises(InputError) as error:
                prepare(plan, tmp_path / "s")
            said.append(error.value.message)

    prepare(plan, tmp_path / "s", progress=another)
    assert "another preparation is writing" in said[0]


def test_a_dead_worker_is_an_error_and_not_a_hang(
    wordpiece: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os
    import signal

    killed: list[int] = []

    def kill(_: Progress) -> None:
        from multiprocessing import active_children

        for child in active_children():
            os.kill(child.pid or 0, signal.SIGKILL)
            killed.append(child.pid or 0)

    monkeypatch.setattr(preparing, "tasks", lambda *args: _small_tasks(*args))
    with pytest.raises(BertworksError, match="a worker process died"):
        prepare(Plan((str(corpus),), wordpiece, shard_tokens=2000), tmp_path / "s", workers=2, progress=kill)
    assert killed
    monkeypatch.undo()
    store = prepare(Plan((str(corpus),), wordpiece, shard_tokens=2000), tmp_path / "s", workers=2)
    assert store.documents > 250


def test_the_report_says_what_was_wrong(wordpiece: Path, tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_bytes(b"good words here\nbad \xff\xfe words\nwith \x00 in them\n")
    store = prepare(Plan((str(tmp_path / "c.txt"),), wordpiece, documents="line"), tmp_path / "s")
    report = store.manifest["report"]
    assert report["documents_read"] == 3
    assert report["bad_utf8_lines"] == 1
    assert report["nul_characters"] == 1
    assert json.loads((tmp_path / "s" / "manifest.json").read_text())["report"] == report
