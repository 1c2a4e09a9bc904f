"""What this machine grants: cores, memory, number formats."""

from __future__ import annotations

import math
import os
import platform
from pathlib import Path

import torch

from bertworks.errors import InputError, nearest

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SPELLINGS = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


def cores_granted() -> int:
    """The cores this process may really use: its affinity, cut by a container's quota."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    quota = _cgroup_quota()
    return max(1, min(cores, math.ceil(quota))) if quota else max(1, cores)


def _cgroup_quota(root: Path = Path("/sys/fs/cgroup")) -> float | None:
    """Cores' worth of time that the container may use, or None without a limit."""
    try:
        if (root / "cpu.max").exists():
            quota, period = (root / "cpu.max").read_text().split()
            return None if quota == "max" else int(quota) / int(period)
        quota = (root / "cpu/cpu.cfs_quota_us").read_text()
        period = (root / "cpu/cpu.cfs_period_us").read_text()
        return int(quota) / int(period) if int(quota) > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None


def use_granted_cores() -> None:
    """Keep PyTorch to the granted cores, unless the person has set a number themselves."""
    granted = cores_granted()
    if "OMP_NUM_THREADS" not in os.environ and torch.get_num_threads() > granted:
        torch.set_num_threads(granted)


def memory_bytes() -> int | None:
    """The memory this process may use: the machine's, cut by a container's limit."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        return min(whole, int(limit)) if limit.isdigit() else whole
    except OSError:
        return whole


def cpu_flags() -> frozenset[str]:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return frozenset(line.partition(":")[2].split())
    except OSError:
        pass
    return frozenset()


def cpu_has_bf16() -> bool:
    """Whether the CPU multiplies bf16 matrices itself; emulated, bf16 would be slower than fp32."""
    return bool(cpu_flags() & {"avx512_bf16", "amx_bf16", "bf16"})


def cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def choose_device(wanted: str | torch.device = "auto") -> torch.device:
    if str(wanted) == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(wanted)
    except RuntimeError:
        raise InputError(f"unknown device {wanted!r}", "choose auto, cpu, cuda or cuda:N") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device {wanted} is not there: PyTorch sees no GPU", "choose --device cpu")
    return device


def choose_dtype(wanted: str | torch.dtype = "auto", device: torch.device | str = "cpu") -> torch.dtype:
    """bf16 where the device computes it natively, else fp32; or what was asked for by name."""
    if isinstance(wanted, torch.dtype):
        return wanted
    if wanted == "auto":
        gpu = torch.device(device).type == "cuda"
        native = torch.cuda.is_bf16_supported(including_emulation=False) if gpu else cpu_has_bf16()
        return torch.bfloat16 if native else torch.float32
    name = SPELLINGS.get(wanted, wanted)
    if name not in DTYPES:
        raise InputError(f"unknown dtype {wanted!r}", nearest(wanted, DTYPES) or f"choose auto, {', '.join(DTYPES)}")
    return DTYPES[name]
