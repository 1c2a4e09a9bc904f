"""bertworks doctor"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from typing import Any

import click

from bertworks import __version__

from .reporting import Report, verb

LIBRARIES = ("torch", "tokenizers", "safetensors", "huggingface_hub", "numpy", "pyarrow", "click")


@click.command()
@verb
def command(report: Report) -> None:
    """What this machine offers, as the program sees it: versions, cores, memory, number formats, GPUs."""
    found = _look()
    report.result(found, lambda: _text(found))


def _look() -> dict[str, Any]:
    import torch

    from bertworks import system
    from bertworks.runtime import machine

    device = machine.choose_device()
    return {
        "bertworks": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "libraries": {name: _version(name) for name in LIBRARIES},
        "cpu": {
            "name": system.cpu_name(),
            "cores": os.cpu_count(),
            "cores_granted": system.cores_granted(),
            "threads": torch.get_num_threads(),
            "bf16": system.cpu_has_bf16(),
            "vector": torch.backends.cpu.get_cpu_capability(),
        },
        "memory_bytes": system.memory_bytes(),
        "gpus": [
            {
                "name": torch.cuda.get_device_name(i),
                "memory_bytes": torch.cuda.get_device_properties(i).total_memory,
            }
            for i in range(torch.cuda.device_count())
        ],
        "defaults": {
            "device": str(device),
            "dtype": next(name for name, kind in machine.DTYPES.items() if kind == machine.choose_dtype(device=device)),
        },
        "hub": {
            "cache": _hub_cache(),
            "offline": os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0"),
        },
        "advice": _advice(system.cores_granted()),
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _hub_cache() -> str:
    from huggingface_hub import constants

    return str(constants.HF_HUB_CACHE)


def _advice(cores: int) -> list[str]:
    """What is worth changing, if anything."""
    advice = []
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdigit() and int(threads) > cores:
        advice.append(
            f"OMP_NUM_THREADS={threads} is more than the {cores} cores granted: threads will wait for each other"
        )
    if sys.maxsize <= 2**32:
        advice.append("this Python is 32-bit: large models will not fit")
    return advice


def _text(found: dict[str, Any]) -> str:
    cpu = found["cpu"]
    memory = found["memory_bytes"]
    lines = [
        f"bertworks   {found['bertworks']} on Python {found['python']}, {found['system']}",
        f"libraries   {', '.join(f'{name} {version}' for name, version in found['libraries'].items())}",
        f"CPU         {cpu['name']}: {cpu['cores_granted']} of {cpu['cores']} cores granted, {cpu['threads']} threads, "
        f"{cpu['vector']}, bf16 {'native' if cpu['bf16'] else 'not native'}",
        f"memory      {memory / 2**30:.1f} GiB" if memory else "memory      unknown",
        "GPUs        " + (", ".join(gpu["name"] for gpu in found["gpus"]) or "none"),
        f"defaults    device {found['defaults']['device']}, dtype {found['defaults']['dtype']}",
        f"hub         cache {found['hub']['cache']}{', offline' if found['hub']['offline'] else ''}",
    ]
    return "\n".join(lines + [f"advice      {line}" for line in found["advice"]])
