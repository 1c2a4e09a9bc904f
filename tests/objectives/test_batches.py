"""Batches: the same whoever makes them and when, complete, of one shape; what stands in them is what was taken out."""

from __future__ import annotations

import time
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from bertworks.errors import BertworksWarning, InputError
from bertworks.objectives import batches
from bertworks.objectives.batches import IGNORED, Examples, Place, TrainingBatch, feed
from bertworks.objectives.order import Permutation
from bertworks.objectives.published import PUBLISHED, Objective
from bertworks.text.store import Store

from ..stores import plain_tokenizer, random_documents, store_of

ALL = PUBLISHED | {
    "packed": Objective(layout="packed"),
    "packed-pairs": Objective(layout="packed", pair="sentence-order", select="words"),
    "documents": Objective(layout="documents", corrupt="mask", select="spans"),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("batches")
    tokenizer = plain_tokenizer(folder / "t")
    return store_of(folder / "s", tokenizer, random_documents(tokenizer, 120, 5), 5000)


def examples_of(store: Store, name: str, seed: int = 0, length: int = 64) -> Examples:
    return Examples(store, ALL[name], length, seed=seed, say=lambda _: None)


def equal(one: TrainingBatch, other: TrainingBatch) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in vars(one))


@pytest.mark.parametrize("name", ALL)
def test_what_was_taken_out_is_what_stood_there(store: Store, name: str) -> None:
    examples = examples_of(store, name)
    place = Place()
    shapes = set()
    for _ in range(5):
        batch = examples.batch(place, 8)
        place = examples.after(place, 8)
        asked = batch.labels != IGNORED
        assert asked.any()
        assert not asked[np.flatnonzero(~asked)[0] :].any() if not asked.all() else True  # then zeros to the end
        right = batch.ids.copy().ravel()
        right[batch.chosen[asked]] = batch.labels[asked]
        untouched = np.ones(right.size, bool)
        untouched[batch.chosen[asked]] = False
        assert (batch.ids.ravel()[untouched] == right[untouched]).all()
        special = np.isin(right, list(store.tokenizer.special_ids))
        assert not special[batch.chosen[asked]].any()
        assert (batch.ids.ravel()[batch.firsts[batch.answers != IGNORED]] == store.tokenizer.cls_id).all()
        assert (batch.answers != IGNORED).any() == examples.objective.holds_pairs
        shapes.add((batch.ids.shape, batch.labels.shape, len(batch.answers) % batches.TOGETHER))
    assert len({one[:2] for one in shapes}) == 1  # static shapes
    if examples.objective.layout == "packed":
        assert {one[2] for one in shapes} == {0}


@pytest.mark.parametrize("name", ALL)
def test_ranks_and_workers_see_the_same_global_batches(store: Store, name: str) -> None:
    examples = examples_of(store, name)
    start = Place(0, examples.count(0) - 10)  # so that the second batch crosses into the next epoch
    whole = list(islice(feed(examples, start, 8, workers=0), 4))
    for workers in (1, 3):
        for (one, here), (other, there) in zip(
            whole, islice(feed(examples_of(store, name), start, 8, workers=workers), 4), strict=True
        ):
            assert equal(one, other)
            assert here == there
    for ranks in (2, 4):
        shares = [
            list(islice(feed(examples_of(store, name), start, 8, rank=rank, ranks=ranks, workers=1), 4))
            for rank in range(ranks)
        ]
        for step, (batch, place) in enumerate(whole):
            assert {share[step][1] for share in shares} == {place}
            for field in ("ids", "segments", "sequences"):
                joined = np.concatenate([getattr(share[step][0], field) for share in shares])
                np.testing.assert_array_equal(joined, getattr(batch, field))
            asked = batch.labels != IGNORED
            size = batch.ids.size // ranks
            parts = [share[step][0] for share in shares]
            np.testing.assert_array_equal(
                np.concatenate([one.labels[one.labels != IGNORED] for one in parts]), batch.labels[asked]
            )
            np.testing.assert_array_equal(
                np.concatenate([one.chosen[one.labels != IGNORED] + size * at for at, one in enumerate(parts)]),
                batch.chosen[asked],
            )
            np.testing.assert_array_equal(
                np.concatenate([one.answers[one.answers != IGNORED] for one in parts]),
                batch.answers[batch.answers != IGNORED],
            )


def test_two_integers_are_enough_to_go_on(store: Store) -> None:
    run = list(islice(feed(examples_of(store, "bert"), Place(), 16), 40))
    for step in (0, 7, 38):
        place = run[step][1]
        again = next(feed(examples_of(store, "bert"), Place(place.epoch, place.position), 16, workers=0))
        assert equal(again[0], run[step + 1][0])
        assert again[1] == run[step + 1][1]
    # the size of a batch may change on the way (a ramp): the line of examples stays the same
    small = [examples_of(store, "bert").batch(Place(0, at), 4) for at in (0, 4, 8, 12)]
    np.testing.assert_array_equal(np.concatenate([one.ids for one in small]), run[0][0].ids)


def test_every_epoch_holds_every_example_once(store: Store) -> None:
    examples = examples_of(store, "roberta")
    count = examples.count(0)
    for epoch in (0, 1):
        order = Permutation(count, 0, epoch)(np.arange(count))
        rows = examples.rows(epoch, order)
        assert rows.own.sum() == store.tokens
        # and they come so in batches, however these fall
        seen, place = [], Place(epoch, 0)
        while place.epoch == epoch:
            step = min(7, count - place.position)
            seen.append(examples.batch(place, step).sequences > 0)
            place = examples.after(place, step)
        np.testing.assert_array_equal(np.concatenate(seen), rows.sequences > 0)


def test_dynamic_masks_differ_between_epochs_and_static_ones_repeat(store: Store) -> None:
    numbers = np.arange(20)
    dynamic = Examples(store, Objective(masking="dynamic"), 64, say=lambda _: None)
    masks = [dynamic.made(epoch, numbers)[1] for epoch in (0, 1, 10)]
    assert all((one != other).any() for one, other in ((masks[0], masks[1]), (masks[0], masks[2])))
    static = Examples(store, Objective(masking="static", copies=10), 64, say=lambda _: None)
    masks = [static.made(epoch, numbers)[1] for epoch in (0, 1, 10, 11)]
    ids = [static.made(epoch, numbers)[2] for epoch in (0, 1, 10, 11)]
    assert (masks[0] != masks[1]).any()
    for one, other in ((0, 2), (1, 3)):
        np.testing.assert_array_equal(masks[one], masks[other])
        np.testing.assert_array_equal(ids[one], ids[other])
    other_seed = Examples(store, Objective(masking="static"), 64, seed=1, say=lambda _: None)
    assert (other_seed.made(0, numbers)[1] != masks[0]).any()


def test_nothing_attends_across_packed_examples(store: Store) -> None:
    """Each sequence of a packed row has the output it has alone: the model's own packed attention says so."""
    import torch

    from bertworks.batch import Batch
    from bertworks.models import bert

    examples = examples_of(store, "packed")
    batch = examples.batch(Place(), 4)
    config = bert.BASE.but(
        vocab_size=store.vocab_size, hidden_size=24, layers=2, heads=3, intermediate_size=32, positions=64
    )
    model = bert.encoder(config, pooler=False, way="packed").eval()
    packed = Batch(
        torch.from_numpy(batch.ids.astype(np.int64)), sequences=torch.from_numpy(batch.sequences.astype(np.int64))
    )
    with torch.no_grad():
        together = model(**packed.inputs()).last
        for row in range(4):
            for number in range(1, int(batch.sequences[row].max()) + 1):
                here = batch.sequences[row] == number
                alone = model(torch.from_numpy(batch.ids[row][here].astype(np.int64))[None]).last[0]
                torch.testing.assert_close(together[row][torch.from_numpy(here)], alone, atol=1e-5, rtol=0)


def test_layouts_are_made_once_and_kept(tmp_path: Path) -> None:
    tokenizer = plain_tokenizer(tmp_path / "t")
    folder = tmp_path / "s"
    store_of(folder, tokenizer, random_documents(tokenizer, 60, 1))
    said: list[str] = []
    first = Examples(Store(folder), PUBLISHED["bert"], 64, say=said.append).batch(Place(), 8)
    assert len(said) == 1
    assert "laying out 60 documents as segment-pairs of 64" in said[0]
    again = Examples(Store(folder), PUBLISHED["bert"], 64, say=said.append).batch(Place(), 8)
    assert len(said) == 1
    assert equal(first, again)
    index = next((folder / "indexes").iterdir())
    (index / "start").write_bytes(b"torn")
    mended = Examples(Store(folder), PUBLISHED["bert"], 64, say=said.append).batch(Place(), 8)
    assert "not a whole index" in said[1]
    assert equal(first, mended)


def test_processes_that_want_one_index_at_once(tmp_path: Path) -> None:
    """One makes it, the others wait for it."""
    import subprocess
    import sys

    tokenizer = plain_tokenizer(tmp_path / "t")
    folder = tmp_path / "s"
    store_of(folder, tokenizer, random_documents(tokenizer, 60, 1))
    script = """
import sys
from bertworks.objectives.batches import Examples
from bertworks.objectives.published import published
from bertworks.text.store import Store
sys.stdin.readline()
said = []
for length in range(32, 60):
    Examples(Store(sys.argv[1]), published("bert"), length, say=said.append)
print(len(said))
"""
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    time.sleep(1.5)
    for run in runs:
        assert run.stdin is not None
        run.stdin.write("go\n")
        run.stdin.flush()
    outs = [run.communicate(timeout=60)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0]
    assert sum(map(int, outs)) == 28


def test_a_store_that_cannot_be_written_beside_is_still_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bertworks.objectives import index

    tokenizer = plain_tokenizer(tmp_path / "t")
    store = store_of(tmp_path / "s", tokenizer, random_documents(tokenizer, 60, 1), 500)
    kept = Examples(store, PUBLISHED["roberta"], 64, say=lambda _: None).batch(Place(), 8)
    for path in (tmp_path / "s" / "indexes").iterdir():
        path.rename(tmp_path / path.name)
    written = index._write

    def full(folder: Path, chunks: object, wanted: object) -> None:
        if "indexes" in str(folder):
            next(chunks)  # type: ignore[call-overload]
            raise OSError(28, "No space left on device")
        written(folder, chunks, wanted)  # type: ignore[arg-type]

    monkeypatch.setattr(index, "_write", full)
    said: list[str] = []
    assert equal(Examples(store, PUBLISHED["roberta"], 64, say=said.append).batch(Place(), 8), kept)
    assert "cannot be written" in said[-1]


def test_a_failure_in_a_worker_reaches_the_reader(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = examples_of(store, "roberta")

    def fail(*_: object, **__: object) -> TrainingBatch:
        raise InputError("shard 3 is torn")

    going = feed(examples, Place(), 8, workers=2)
    next(going)
    monkeypatch.setattr(examples, "batch", fail)
    with pytest.raises(InputError, match="shard 3 is torn"):
        list(islice(going, 5))


def test_a_reader_that_stops_leaves_no_thread(store: Store) -> None:
    import threading

    before = threading.active_count()
    going = feed(examples_of(store, "roberta"), Place(), 8, workers=3)
    next(going)
    going.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before


def test_wrong_sizes_are_refused(store: Store) -> None:
    with pytest.raises(InputError, match="cannot be shared by 3"):
        examples_of(store, "roberta").batch(Place(), 8, ranks=3)
    with pytest.raises(InputError, match="no rank -1 of 2"):
        examples_of(store, "roberta").batch(Place(), 4, rank=-1, ranks=2)
    with pytest.raises(InputError, match="no place"):
        Place(0, -1)
    with pytest.raises(InputError, match="examples of 3 tokens cannot be made"):
        examples_of(store, "bert", length=3)


def test_similar_words_are_counted_once(tmp_path: Path) -> None:
    tokenizer = plain_tokenizer(tmp_path / "t")
    folder = tmp_path / "s"
    store_of(folder, tokenizer, random_documents(tokenizer, 60, 1))
    with pytest.warns(BertworksWarning, match="which words"):
        first = Examples(Store(folder), PUBLISHED["macbert"], 64).batch(Place(), 8)
    said: list[str] = []
    again = Examples(Store(folder), PUBLISHED["macbert"], 64, say=said.append).batch(Place(), 8)
    assert not said
    assert equal(first, again)


def test_a_first_batch_in_the_middle_of_a_run_is_instant(store: Store) -> None:
    examples = examples_of(store, "bert")
    examples.batch(Place(), 32)
    place = Place(0, examples.count(0) // 2)
    started = time.perf_counter()
    next(feed(examples, place, 32, workers=0))
    assert time.perf_counter() - started < 0.5
