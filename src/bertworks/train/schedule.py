"""How the learning rate goes: a function of how much of the budget is spent."""

from __future__ import annotations

import math

from .options import ScheduleOptions


def rate(options: ScheduleOptions, share: float, step: int) -> float:
    """What the learning rate is multiplied by at the step after `step` steps and `share` of the budget.

    >>> [round(rate(ScheduleOptions("linear", warmup=0.5), share, 0), 2) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    share = min(max(share, 0.0), 1.0)
    risen = 1.0
    start = 0.0  # the share at which the rise has ended; in steps it is over long before the end, and counts as none
    if options.warmup >= 1:
        risen = min((step + 1) / options.warmup, 1.0)
    elif options.warmup > 0:
        start = options.warmup
        risen = min(share / start, 1.0)
    left = 1.0 if start >= 1 else (1 - share) / (1 - start)
    return risen * (options.floor + (1 - options.floor) * _fallen(options, min(left, 1.0)))


def _fallen(options: ScheduleOptions, left: float) -> float:
    if options.name == "constant":
        return 1.0
    if options.name == "linear":
        return left
    if options.name == "cosine":
        return 0.5 - 0.5 * math.cos(math.pi * left)
    return min(left / options.decay, 1.0)
