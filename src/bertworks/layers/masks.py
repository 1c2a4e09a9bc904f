"""Who may look at whom.

A mask is a boolean tensor [batch or 1, 1, queries or 1, keys]: True where a query may see a key. Masks
compose with `&`, and broadcasting does the rest:

>>> import torch
>>> real = torch.tensor([[True, True, False]])
>>> (padding(real) & causal(3))[0, 0].int()
tensor([[1, 0, 0],
        [1, 1, 0],
        [1, 1, 0]], dtype=torch.int32)
"""

from __future__ import annotations

import torch
from torch import Tensor


def padding(real: Tensor) -> Tensor:
    """[batch, length] booleans (True = a real token) -> [batch, 1, 1, length]: nobody sees padding."""
    return real[:, None, None, :]


def window(length: int, reach: int, device: torch.device | str | None = None) -> Tensor | None:
    """[1, 1, length, length]: a position sees up to `reach` before and after it; None where that is all of a text.

    >>> window(4, reach=1)[0, 0].int()
    tensor([[1, 1, 0, 0],
            [1, 1, 1, 0],
            [0, 1, 1, 1],
            [0, 0, 1, 1]], dtype=torch.int32)
    """
    tracing = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    if length <= reach + 1 and not tracing:  # what is traced will meet longer texts
        return None
    return near(torch.arange(length, device=device)[None], reach)


def near(at: Tensor, reach: int) -> Tensor:
    """[batch or 1, length] places -> [batch or 1, 1, length, length]: those at most `reach` apart see each other."""
    return ((at[:, :, None] - at[:, None, :]).abs() <= reach)[:, None]


def causal(length: int, device: torch.device | str | None = None) -> Tensor:
    """[1, 1, length, length]: a position sees itself and what came before."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]


def prefix(sizes: Tensor, length: int) -> Tensor:
    """[batch] prefix sizes -> [batch, 1, length, length]: the prefix sees itself whole, the rest is causal."""
    inside = torch.arange(length, device=sizes.device) < sizes[:, None]
    return causal(length, sizes.device) | inside[:, None, None, :]


def block_diagonal(sequences: Tensor) -> Tensor:
    """[batch, length] sequence numbers -> [batch, 1, length, length]: a token sees its own sequence alone.

    Number the sequences of a row 1, 2, …; 0 is padding, which sees (only) padding, so no softmax is empty.
    """
    return (sequences[:, :, None] == sequences[:, None, :])[:, None]
