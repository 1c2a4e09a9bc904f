"""A machine that is too small for the microbatch: a smaller one at the start, and a plain word later on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from bertworks.errors import BertworksError
from bertworks.text.store import Store
from bertworks.train.loop import Loop
from bertworks.train.memory import out_of_memory

from .runs import loop_of, table, tiny_store


def cpu() -> Exception:
    """The very error that a CPU gives."""
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60)
    return caught.value


SHORT: dict[str, Callable[[], Exception]] = {
    "gpu": lambda: torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    "cpu": cpu,
    "python": MemoryError,
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return tiny_store(tmp_path_factory.mktemp("memory"))


def narrow(loop: Loop, rows: int, error: Callable[[], Exception], fail_at: str = "forward") -> None:
    """Let the loop's module go out of memory above so many rows, before it answers or on the way back."""
    right = loop.loss

    class Narrow:
        counts = staticmethod(right.counts)

        def __call__(self, module: Any, batch: Any, *more: Any) -> Any:
            found = right(module, batch, *more)
            if len(batch.ids) > rows:
                if fail_at == "backward":
                    (found.total * 0.7).backward(retain_graph=True)  # half-made gradients stay behind
                raise error()
            return found

    loop.loss = Narrow()


@pytest.mark.parametrize("fail_at", ["forward", "backward"])
@pytest.mark.parametrize("short", SHORT)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_it_goes_on_in_smaller_microbatches(
    store: Store, tmp_path: Path, short: str, precision: str, fail_at: str
) -> None:
    loop, watch = loop_of(table(budget_steps=3, run_precision=precision), store, tmp_path / "short")
    narrow(loop, 5, SHORT[short], fail_at)
    assert loop.train() == "finished"
    assert loop.state.microbatch == 4  # 16, 8, 4
    assert [line.split(":")[0] for line in watch.said] == [
        "out of memory with microbatches of 16 rows",
        "out of memory with microbatches of 8 rows",
    ]
    assert "going on with 4 at a time" in watch.said[1]
    assert "batch.microbatch=4" in watch.said[1]
    recipe = table(budget_steps=3, batch_microbatch=4, run_precision=precision)
    other, other_watch = loop_of(recipe, store, tmp_path / "four")
    other.train()
    assert [row["loss"] for row in watch.rows] == [row["loss"] for row in other_watch.rows]
    assert [row["tokens"] for row in watch.rows] == [row["tokens"] for row in other_watch.rows]
    ours, theirs = loop.masters.state(), other.masters.state()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    again, _ = loop_of(table(budget_steps=3), store, tmp_path / "short")
    assert again.resume()
    assert again.state.microbatch == 4


def test_a_size_given_by_hand_gives_way_too(store: Store, tmp_path: Path) -> None:
    loop, watch = loop_of(table(budget_steps=1, batch_microbatch=6), store, tmp_path / "run")
    narrow(loop, 3, MemoryError)
    loop.train()
    assert loop.state.microbatch == 3
    assert len(watch.said) == 1


def test_a_growing_batch_may_find_it_out_later(store: Store, tmp_path: Path) -> None:
    loop, watch = loop_of(table(budget_steps=8, batch_ramp=0.8), store, tmp_path / "run")
    narrow(loop, 5, MemoryError)
    assert loop.train() == "finished"
    assert loop.state.microbatch <= 5
    assert watch.said


def test_one_row_too_large_is_an_error(store: Store, tmp_path: Path) -> None:
    loop, _ = loop_of(table(), store, tmp_path / "run")
    narrow(loop, 0, MemoryError)
    with pytest.raises(BertworksError, match=r"microbatch of 1 row[\s\S]*smaller model"):
        loop.train()


def test_later_it_is_an_error_that_names_the_key(store: Store, tmp_path: Path) -> None:
    loop, _ = loop_of(table(), store, tmp_path / "run")
    loop._step()
    loop.save(wait=True)
    narrow(loop, 8, MemoryError)
    with pytest.raises(BertworksError, match=r"at step 2, in a microbatch of 16 rows[\s\S]*batch.microbatch=8"):
        loop._step()
    again, _ = loop_of(table(), store, tmp_path / "run")
    again.resume()
    narrow(again, 8, MemoryError)
    with pytest.raises(BertworksError, match="at step 2"):
        again._step()


def test_other_errors_are_none_of_it(store: Store, tmp_path: Path) -> None:
    assert not out_of_memory(RuntimeError("shapes do not match"))
    loop, _ = loop_of(table(), store, tmp_path / "run")
    narrow(loop, 0, lambda: RuntimeError("shapes do not match"))
    with pytest.raises(RuntimeError, match="shapes"):
        loop.train()
