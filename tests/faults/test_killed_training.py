"""kill -9 at random moments, saving included: resumed, a run ends with the very weights of one that was not killed."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from ..train.runs import tiny_store

SIZES = [
    "model.hidden_size=32", "model.heads=2", "model.intermediate_size=64", "model.layers=2", "batch.length=48",
    "batch.tokens=768", "run.checkpoint_minutes=0.0",
]  # fmt: skip


def begin(store: Path, out: Path, precision: str, steps: int, resume: bool) -> subprocess.Popen[str]:
    arguments = ["pretrain", "bert-mini", *SIZES, f"budget.steps={steps}", f"run.precision={precision}"]
    if resume:
        arguments = ["pretrain", "bert-mini", "--resume"]
    return subprocess.Popen(
        [sys.executable, "-m", "bertworks", *arguments, "--data", str(store), "--out", str(out), "-q"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def steps_of(out: Path) -> int:
    path = out / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def last(out: Path) -> dict[str, torch.Tensor]:
    return load_file(max((out / "checkpoints").glob("step-*")) / "state.safetensors")


@pytest.mark.parametrize(
    ("precision", "kills"),
    [
        ("bf16", 3),
        ("fp32", 2),
        pytest.param("bf16", 20, marks=pytest.mark.full),
        pytest.param("fp32", 20, marks=pytest.mark.full),
    ],
)
def test_killed_at_random_moments(tmp_path: Path, precision: str, kills: int) -> None:
    store = tiny_store(tmp_path).folder
    steps = 60 * kills
    whole = begin(store, tmp_path / "whole", precision, steps, False)
    whole.communicate(timeout=300)
    assert whole.returncode == 0
    out = tmp_path / "parts"
    draw = random.Random(kills)
    for number in range(kills):
        run = begin(store, out, precision, steps, number > 0 and (out / "recipe.toml").exists())
        wanted = steps_of(out) + draw.randint(1, 50)
        while run.poll() is None and steps_of(out) < wanted:
            time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.02))
        run.kill()
        run.communicate()
    run = begin(store, out, precision, steps, True)
    _, wrong = run.communicate(timeout=300)
    assert run.returncode == 0, wrong
    first, second = last(tmp_path / "whole"), last(out)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    model = load_file(tmp_path / "whole" / "model" / "model.safetensors")
    again = load_file(out / "model" / "model.safetensors")
    assert all(torch.equal(model[name], again[name]) for name in model)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_leaves_with_130(tmp_path: Path, number: signal.Signals) -> None:
    store, out = tiny_store(tmp_path).folder, tmp_path / "run"
    run = begin(store, out, "fp32", 100_000, False)
    deadline = time.monotonic() + 60
    while steps_of(out) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    run.send_signal(number)
    said, wrong = run.communicate(timeout=60)
    assert run.returncode == 130, wrong
    assert "--resume goes on" in said
    assert "Traceback" not in wrong
    done = int(max((out / "checkpoints").glob("step-*")).name.removeprefix("step-"))
    assert done == steps_of(out) >= 5
    assert (out / "model" / "config.json").exists()
