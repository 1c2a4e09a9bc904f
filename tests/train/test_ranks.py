"""Training in several processes: the same batches and the same losses as in one, whichever way the weights are held."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

from .runs import tiny_store

RECIPE = """
[model]
architecture = "albert"
embedding_size = 8
hidden_size = 16
layers = 2
heads = 2
intermediate_size = 32
groups = 2
positions = 48
dropout = 0.1
attention_dropout = 0.1
[objective]
preset = "albert"
[batch]
length = 48
tokens = 768
[optimizer]
lr = 2e-3
[schedule]
warmup = 0.1
[budget]
steps = 8
[run]
precision = "fp32"
average = 0.5
"""


def pretrain(processes: int, folder: Path, out: str, *more: str, expect: int = 0) -> list[dict[str, float]]:
    """A run by the command line; its losses."""
    start = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}"] if processes > 1 else []
    run = [*(start or [sys.executable]), "-m", "bertworks", "pretrain", str(folder / "recipe.toml")]
    given = ["--data", str(folder / "s"), "--dev", str(folder / "s"), "--out", str(folder / out), *more]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*run, *given], capture_output=True, text=True, env=environment, timeout=300)
    assert (done.returncode == 0) == (expect == 0), done.stderr
    if expect:
        return [{"said": done.stderr}]  # type: ignore[dict-item]
    return [json.loads(line) for line in (folder / out / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("ranks")
    tiny_store(made)
    (made / "recipe.toml").write_text(RECIPE)
    pretrain(1, made, "one")
    return made


def losses(rows: list[dict[str, float]]) -> list[float]:
    return [row[name] for row in rows for name in ("loss", "dev_loss") if name in row]


def alike(folder: Path, rows: list[dict[str, float]], out: str) -> None:
    alone = [json.loads(line) for line in (folder / "one" / "metrics.jsonl").read_text().splitlines()]
    assert losses(rows) == pytest.approx(losses(alone), abs=1e-4)
    assert len(losses(rows)) == 9
    ours, theirs = (load_file(folder / name / "model" / "model.safetensors") for name in (out, "one"))
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert float((ours[name] - theirs[name]).abs().max()) < 1e-4, name


def test_two_processes_that_each_hold_all_weights(folder: Path) -> None:
    alike(folder, pretrain(2, folder, "ddp", "run.evaluate_every=0"), "ddp")


def test_four_processes_that_hold_shares_of_them(folder: Path) -> None:
    alike(folder, pretrain(4, folder, "fsdp", "run.parallel=fsdp"), "fsdp")


def test_from_two_with_shares_to_one_and_to_two_without(folder: Path) -> None:
    """Each goes on from the other's checkpoint; a budget in steps has the schedule of its end, so it is set first."""
    stop = ["budget.steps=8"]
    pretrain(2, folder, "moved", "run.parallel=fsdp", "run.checkpoint_minutes=0", "run.keep=9", *stop)
    for step, processes in ((3, 1), (6, 2)):
        for later in (folder / "moved" / "checkpoints").glob("step-*"):
            if int(later.name[5:]) > step:
                subprocess.run(["rm", "-r", str(later)], check=True)
        rows = pretrain(processes, folder, "moved", "--resume", "run.parallel=ddp", "run.checkpoint_minutes=0")
    alike(folder, rows, "moved")


def test_what_cannot_be_shared_is_refused(folder: Path) -> None:
    said = pretrain(2, folder, "odd", "run.parallel=fsdp", "batch.tokens=720", expect=1)[0]["said"]
    assert "a batch of 15 rows cannot be shared evenly by 2 processes" in str(said)
    said = pretrain(2, folder, "muon", "run.parallel=fsdp", "optimizer.name=muon", expect=1)[0]["said"]
    assert "needs whole matrices" in str(said)
