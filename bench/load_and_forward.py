"""Loading and forward speed beside transformers, interleaved in one run. Ratios only: this says nothing of seconds.

    python bench/load_and_forward.py [--quick]

Load: a base-size folder of random weights, from the call to a model in evaluation mode, and from the call to the end
of a first forward pass (a lazily mapped file is only paid for then). Forward: equal weights, dtype, batch and length,
transformers with its own SDPA attention; the median of each side, and theirs divided by ours.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers

import bertworks
from bertworks.models.folder import load_model
from bertworks.runtime.machine import use_granted_cores
from bertworks.system import cpu_has_bf16, cpu_name

FORWARDS = [(1, 16), (1, 128), (8, 128), (32, 64), (4, 512)]


def timed(call: Callable[[], object]) -> float:
    """Seconds of a call; what it returns to be called is done after the clock has stopped."""
    start = time.perf_counter()
    after = call()
    seconds = time.perf_counter() - start
    if callable(after):
        after()
    return seconds


def interleaved(sides: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Each side in turn, every other round in reverse, so that drift of the machine falls on both."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for call in sides.values():
        timed(call)
    for turn in range(rounds):
        for name in list(sides) if turn % 2 else list(sides)[::-1]:
            times[name].append(timed(sides[name]))
    return times


def report(label: str, times: dict[str, list[float]]) -> None:
    theirs, ours = (statistics.median(times[name]) for name in ("theirs", "ours"))
    spread = max(times["ours"]) / min(times["ours"])
    print(
        f"{label:42}{theirs * 1e3:10.1f} ms{ours * 1e3:10.1f} ms{theirs / ours:9.2f}×   (ours max/min {spread:.2f})",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and shapes")
    rounds = 3 if (quick := parser.parse_args().quick) else 9
    use_granted_cores()
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    print(
        f"{cpu_name()}, {torch.get_num_threads()} threads, torch {torch.__version__}, "
        f"transformers {transformers.__version__}, Python {platform.python_version()}"
    )
    print(f"{'':42}{'transformers':>13}{'bertworks':>13}{'ratio':>10}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        transformers.BertModel(transformers.BertConfig()).save_pretrained(folder)
        dtypes = {"fp32": torch.float32} | ({"bf16": torch.bfloat16} if cpu_has_bf16() else {})
        for label, dtype in dtypes.items():
            for use in (False, True):
                sides = {"theirs": partial(theirs, folder, use, dtype), "ours": partial(ours, folder, use, dtype)}
                report(f"load base, {label}{' + first forward' if use else ''}", interleaved(sides, rounds))
        print("as they come: bertworks.load (its default dtype) beside AutoModel.from_pretrained (fp32)")
        for use in (False, True):
            sides = {"theirs": partial(theirs, folder, use), "ours": partial(by_default, folder, use)}
            report(f"load base{' + first forward' if use else ''}", interleaved(sides, rounds))
        for label, dtype in dtypes.items():
            peer = transformers.AutoModel.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa").eval()
            mine, _ = load_model(folder, dtype=dtype)
            for rows, length in FORWARDS[:2] if quick else FORWARDS:
                for padded in (False, True):
                    forward(
                        peer,
                        mine,
                        f"forward {label} {rows}×{length}{' padded' if padded else ''}",
                        rows,
                        length,
                        padded,
                        rounds,
                    )


IDS = torch.randint(1000, 30000, (1, 16))


def theirs(folder: Path, use: bool, dtype: torch.dtype | None = None) -> None:
    more = {} if dtype is None else {"dtype": dtype}
    model = transformers.AutoModel.from_pretrained(folder, **more)
    if use:
        with torch.inference_mode():
            model(IDS)


def ours(folder: Path, use: bool, dtype: torch.dtype) -> None:
    model, _ = load_model(folder, dtype=dtype)
    if use:
        with torch.inference_mode():
            model(IDS)


def by_default(folder: Path, use: bool) -> Callable[[], object] | None:
    predictor = bertworks.load(folder)
    if use:
        predictor.encode(IDS[0].tolist())
        return None
    return lambda: predictor.model  # the conversion that goes on beside us must not run into the next measurement


def forward(
    peer: torch.nn.Module, mine: torch.nn.Module, label: str, rows: int, length: int, padded: bool, rounds: int
) -> None:
    if padded and rows == 1:
        return
    ids = torch.randint(1000, 30000, (rows, length))
    real = torch.ones(rows, length, dtype=torch.bool)
    if padded:
        real = torch.arange(length) < torch.linspace(length // 2, length, rows).long()[:, None]
    mask = real.long()
    # Enough calls a measurement that a short text is not timed by the clock's grain.
    calls = max(1, 2048 // (rows * length))

    def theirs() -> None:
        with torch.inference_mode():
            for _ in range(calls):
                peer(input_ids=ids, attention_mask=mask)

    def ours() -> None:
        with torch.inference_mode():
            for _ in range(calls):
                mine(ids, real=real)

    report(label, interleaved({"theirs": theirs, "ours": ours}, rounds))


if __name__ == "__main__":
    main()
