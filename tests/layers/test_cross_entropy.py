"""The cross entropy in one pass equals PyTorch's, with its gradients, whatever is cut where."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from bertworks.layers import cross_entropy as made


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("room", [1, 70, 2**20])
@pytest.mark.parametrize("factor", [1.0, 0.25, 1024.0])
def test_equals_pytorch(dtype: torch.dtype, room: int, factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(made.AT_A_TIME, "cpu", room)
    scores = (torch.randn(23, 31) * 5).to(dtype).requires_grad_()
    labels = torch.randint(0, 31, (23,))
    labels[[0, 7, 22]] = -100
    wanted = F.cross_entropy(scores.float(), labels, ignore_index=-100, reduction="sum") / 20
    (right,) = torch.autograd.grad(wanted * factor, scores)
    loss = made.cross_entropy(scores, labels, 20)
    (loss * factor).backward()
    torch.testing.assert_close(loss, wanted)
    assert scores.grad is not None
    precision = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}[dtype]
    assert float((scores.grad.float() - right.float()).abs().max()) < precision * factor
    assert not scores.grad[[0, 7, 22]].any()


def test_the_gradient_is_that_of_finite_differences() -> None:
    scores = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0, 6, -100, 3, 3])
    loss = made.cross_entropy(scores, labels, 4)
    loss.backward()
    step = 1e-2
    for row, column in ((0, 0), (1, 2), (2, 1), (4, 3)):
        moved = scores.detach().clone()
        moved[row, column] += step
        up = float(made.cross_entropy(moved, labels, 4))
        moved[row, column] -= 2 * step
        slope = (up - float(made.cross_entropy(moved, labels, 4))) / (2 * step)
        assert scores.grad is not None
        assert slope == pytest.approx(float(scores.grad[row, column]), abs=2e-4)


def test_without_gradients_and_without_labels() -> None:
    with torch.inference_mode():
        assert float(made.cross_entropy(torch.zeros(3, 8), torch.full((3,), -100), 1)) == 0
