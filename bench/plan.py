"""What `plan` foretells beside what `pretrain` then takes: tokens a second and peak memory, size by size.

    python bench/plan.py STORE [--sizes mini,six,small,small-512] [--steps 8]

Each training is the command line in a process of its own, with a checkpoint written in the middle of it; its memory is
the most that it ever had resident. The first steps are left out of its speed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SIZES = {
    "mini": ["roberta-mini"],
    "six": ["roberta-mini", "model.hidden_size=384", "model.heads=6", "model.layers=6",
            "model.intermediate_size=1536", "batch.tokens=8192"],
    "small": ["bert-small", "batch.tokens=8192"],
    "small-512": ["roberta-mini", "model.hidden_size=512", "model.heads=8", "model.intermediate_size=2048",
                  "model.positions=514", "batch.length=512", "batch.tokens=4096"],
}  # fmt: skip
LEFT_OUT = 2


def bertworks(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "bertworks", *arguments]


def foretold(store: str, recipe: list[str], steps: int) -> dict[str, float]:
    command = bertworks("plan", *recipe, f"budget.steps={steps}", "--data", store, "--json", "--quiet")
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found


def taken(store: str, recipe: list[str], steps: int, seconds: float) -> tuple[float, float]:
    """Tokens a second, and bytes."""
    with tempfile.TemporaryDirectory() as folder:
        middle = f"run.checkpoint_minutes={seconds * steps / 2 / 60}"
        command = bertworks(
            "pretrain", *recipe, f"budget.steps={steps}", middle, "--data", store, "--out", f"{folder}/R"
        )
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        if status:
            sys.exit(f"{' '.join(command)} failed")
        lines = (Path(folder) / "R" / "metrics.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
    rows = [row for row in rows if "seconds" in row]
    tokens = rows[-1]["tokens"] / rows[-1]["step"]
    return tokens / statistics.median(row["seconds"] for row in rows[LEFT_OUT:]), used.ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("--sizes", default=",".join(SIZES))
    parser.add_argument("--steps", type=int, default=8)
    given = parser.parse_args()
    for size in given.sizes.split(","):
        plan = foretold(given.store, SIZES[size], given.steps)
        speed, memory = taken(given.store, SIZES[size], given.steps, plan["step_seconds"])
        off = plan["tokens_per_second"] / speed - 1, plan["memory_bytes"] / memory - 1
        print(
            f"{size:12}{plan['parameters']:>12,} parameters   tokens a second: plan {plan['tokens_per_second']:8,.0f}, "
            f"taken {speed:8,.0f} ({off[0]:+.0%})   MiB: plan "
            f"{plan['memory_bytes'] / 2**20:6,.0f}, taken {memory / 2**20:6,.0f} ({off[1]:+.0%})",
            flush=True,
        )


if __name__ == "__main__":
    main()
