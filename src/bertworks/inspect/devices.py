"""GPUs by name: what their data sheets promise, and what they typically cost.

Matrix products are dense (no structured sparsity), sums in fp32, in operations a second. Where bf16 is None the chip
has no bf16 of its own, and training there is in fp32. Prices are typical on-demand ones of 2025, in US dollars for an
hour of one GPU; they differ twofold between sellers and from month to month.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from bertworks.errors import InputError, nearest

PRICES_OF = "2025"
# Narrower models leave a GPU waiting. With this power of the width published trainings of 256 (Ettin-17M) and of 768
# (ModernBERT-base) on an H100 are both met.
WIDE, NARROWING = 768, 1.5


@dataclass(frozen=True)
class Device:
    """bf16, fp32: operations a second. memory: bytes. bandwidth: bytes a second. price: dollars an hour. share: of the
    bf16 peak that a well-written training of a wide encoder reaches.
    """

    name: str
    bf16: float | None
    fp32: float
    memory: int
    bandwidth: float
    price: float
    share: float = 0.40

    def peak(self, precision: str) -> float:
        return self.bf16 if precision == "bf16" and self.bf16 else self.fp32

    def utilisation(self, width: int) -> float:
        """Of the peak, for a model of this width."""
        return float(self.share * min(1.0, width / WIDE) ** NARROWING)


def _row(
    name: str, bf16: float | None, fp32: float, gigabytes: int, bandwidth: float, price: float, share: float = 0.40
) -> Device:
    """In the data sheets' units: teraflops, gigabytes, gigabytes a second."""
    return Device(name, None if bf16 is None else bf16 * 1e12, fp32 * 1e12, gigabytes * 2**30, bandwidth * 1e9, price,
                  share)  # fmt: skip


# Published trainings: BERT-large reaches about 45 % of an A100's peak (NVIDIA), ModernBERT-base about 25 % of an
# H100's (its paper): memory has not grown as fast as arithmetic has. We take 40 and 25.
ROWS = (
    # name, bf16, fp32, GB, GB/s, price [, share]          # data sheet
    _row("T4", None, 8.1, 16, 320, 0.40),  # NVIDIA T4
    _row("V100-16", None, 15.7, 16, 900, 0.60),  # NVIDIA V100 (SXM2)
    _row("V100-32", None, 15.7, 32, 900, 0.80),
    _row("RTX3090", 71, 35.6, 24, 936, 0.30),  # NVIDIA GA102 white paper, tensor cores with fp32 sums
    _row("RTX4090", 165.2, 82.6, 24, 1008, 0.50),  # NVIDIA Ada white paper, tensor cores with fp32 sums
    _row("A6000", 154.8, 38.7, 48, 768, 0.70),  # NVIDIA RTX A6000
    _row("A10", 125, 31.2, 24, 600, 0.80),  # NVIDIA A10
    _row("L4", 121, 30.3, 24, 300, 0.70),  # NVIDIA L4: 242 with sparsity
    _row("L40S", 362, 91.6, 48, 864, 1.20),  # NVIDIA L40S: 733 with sparsity
    _row("A100-40", 312, 19.5, 40, 1555, 1.40),  # NVIDIA A100 (SXM)
    _row("A100-80", 312, 19.5, 80, 2039, 1.80),
    _row("H100", 989, 67, 80, 3350, 2.80, 0.25),  # NVIDIA H100 (SXM): 1,979 with sparsity
    _row("H200", 989, 67, 141, 4800, 3.60, 0.25),  # NVIDIA H200 (SXM)
    _row("B200", 2250, 75, 180, 7700, 5.50, 0.25),  # NVIDIA HGX B200: 4,500 with sparsity
)
DEVICES: dict[str, Device] = {row.name: row for row in ROWS}
# What people write for them.
SPELLINGS = {"A100": "A100-40", "V100": "V100-16", "RTXA6000": "A6000", "4090": "RTX4090", "3090": "RTX3090"}


def devices_of(text: str) -> tuple[int, Device]:
    """How many of which: 8xH100, or H100 for one.

    >>> devices_of("8xH100")[0], devices_of("rtx 4090")[1].name
    (8, 'RTX4090')
    """
    found = re.fullmatch(r"\s*(?:(\d+)\s*[x×*]\s*)?(\S.*?)\s*", text, re.IGNORECASE)
    count, name = (int(found[1] or 1), found[2]) if found else (1, text)
    if count < 1:
        raise InputError(f"--devices {text} is no device at all", "write it like 8xH100")
    plain = re.sub(r"[\s_]|GB$", "", name.upper()).removeprefix("NVIDIA").removeprefix("-")
    plain = SPELLINGS.get(plain, plain)
    if plain not in DEVICES:
        known = f"known: {', '.join(DEVICES)}"
        raise InputError(f"there is no device {name!r} here", " ".join(filter(None, [nearest(plain, DEVICES), known])))
    return count, DEVICES[plain]
