"""A run that goes on for long takes no more memory than a short one."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from .runs import loop_of, table, tiny_store


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's /proc")
def test_five_thousand_steps_stay_in_the_memory_of_five_hundred(tmp_path: Path) -> None:
    recipe = table(budget_steps=5000, run_checkpoint_minutes=0.05)
    loop, watch = loop_of(recipe, tiny_store(tmp_path), tmp_path / "run")
    sizes: list[int] = []
    watch.step = lambda row: sizes.append(resident()) if row["step"] % 500 == 0 else None  # type: ignore[method-assign]
    loop.train()
    assert len(sizes) == 10
    assert max(sizes) < sizes[0] * 1.02 + 2**22
