"""Dropout from the fast source: rates, scale, gradients, and the same bits from the same seed."""

from __future__ import annotations

import pytest
import torch

from bertworks.layers.dropout import Dropout, Source, give_source


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_share_is_dropped_and_the_mean_stays(rate: float, dtype: torch.dtype) -> None:
    layer = Dropout(rate)
    layer.source = Source(1)
    out = layer(torch.ones(1000, 999, dtype=dtype)).float()
    assert abs(float((out == 0).float().mean()) - rate) < 0.002
    kept = out[out != 0]
    assert kept.unique().numel() == 1
    assert float(kept[0]) == pytest.approx(1 / (1 - rate), rel=5e-3 if dtype == torch.bfloat16 else 1e-4)


def test_gradients_flow_where_values_did() -> None:
    layer = Dropout(0.3)
    layer.source = Source(2)
    x = torch.randn(50, 40, dtype=torch.float64, requires_grad=True)
    out = layer(x)
    out.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, out.detach() / x.detach())


def test_the_same_seed_gives_the_same_bits_and_none_in_evaluation() -> None:
    module = torch.nn.Sequential(Dropout(0.5), Dropout(0.5))
    source = Source(7)
    give_source(module, source)
    x = torch.ones(33, 7)
    first = module(x)
    assert not torch.equal(first, module(x))
    source.seed([7])
    assert torch.equal(first, module(x))
    assert torch.equal(module.eval()(x), x)


def test_a_row_drops_the_same_wherever_it_is_computed() -> None:
    layer = Dropout(0.3)
    x = torch.ones(6, 5, 7)
    layer.source = Source(*range(6))
    whole = layer(x), layer(x)
    for start, stop in ((0, 2), (2, 3), (3, 6)):
        layer.source.seed(range(start, stop))
        torch.testing.assert_close(layer(x[start:stop]), whole[0][start:stop], rtol=0, atol=0)
        torch.testing.assert_close(layer(x[start:stop]), whole[1][start:stop], rtol=0, atol=0)


def test_what_has_another_number_of_rows_is_dropped_too() -> None:
    layer = Dropout(0.5)
    layer.source = Source(1, 2, 3)
    assert sorted(layer(torch.ones(40, 5)).unique().tolist()) == [0.0, 2.0]
