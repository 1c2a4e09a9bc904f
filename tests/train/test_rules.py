"""The optimizers against plain loops over tensors, torch's own, and what a resume must give back."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from bertworks.errors import ConfigError
from bertworks.tasks.pretrain import Recipe, make_model
from bertworks.text.store import Store
from bertworks.train.masters import Masters
from bertworks.train.options import OPTIMIZERS, OptimizerOptions
from bertworks.train.rules import muon, rules_of
from bertworks.train.rules.row import counts, squares

from .runs import loop_of, table, tiny_store

STEPS = 12


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return tiny_store(tmp_path_factory.mktemp("rules"))


class Net(nn.Module):
    """Of each kind of weight one or more; Linear matrices that are wide, tall, square and alike."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.tokens = nn.Embedding(11, 6)
        self.up, self.down, self.also = nn.Linear(6, 15), nn.Linear(15, 6), nn.Linear(6, 15)
        self.square, self.norm, self.scores = nn.Linear(6, 6), nn.LayerNorm(6), nn.Linear(6, 3)
        draw = torch.Generator().manual_seed(seed)
        for weight in self.parameters():
            weight.data = torch.randn(weight.shape, generator=draw)
        self.also.weight.data.zero_()


def gradients(net: nn.Module, step: int) -> dict[str, Tensor]:
    """Now and then a hundred times as large as before, and in one weight zero."""
    draw = torch.Generator().manual_seed(1000 + step)
    size = 10.0 if step in (4, 9) else 0.1
    found = {name: size * torch.randn(weight.shape, generator=draw) for name, weight in net.named_parameters()}
    found["square.weight"].zero_()
    return found


def trained(options: OptimizerOptions, steps: int = STEPS, lr: float = 1e-2) -> dict[str, Tensor]:
    """A Net's weights after some steps of ours."""
    net = Net()
    masters = Masters(net, options, torch.float32)
    for step in range(steps):
        for name, gradient in gradients(net, step).items():
            net.get_parameter(name).grad = gradient.clone()
        masters.gather()
        masters.step(lr, masters.norm())
    masters.hand_back()
    return {name: weight.detach() for name, weight in net.named_parameters()}


Change = Callable[[Tensor, Tensor, dict[str, Tensor], int, float], None]


def looped(change: Change, decay: float, steps: int = STEPS) -> dict[str, Tensor]:
    """The same by a rule for one tensor, written as its paper or code has it."""
    net = Net()
    weights = {name: weight.detach() for name, weight in net.named_parameters()}
    kept: dict[str, dict[str, Tensor]] = {
        name: {"m": torch.zeros_like(one), "v": torch.zeros_like(one)} for name, one in weights.items()
    }
    for step in range(steps):
        for name, gradient in gradients(net, step).items():
            change(weights[name], gradient, kept[name], step + 1, decay if weights[name].ndim > 1 else 0.0)
    return weights


def close(ours: dict[str, Tensor], theirs: dict[str, Tensor], tolerance: float = 1e-5) -> None:
    assert ours.keys() == theirs.keys()
    for name, weight in theirs.items():
        torch.testing.assert_close(ours[name], weight, atol=tolerance, rtol=0, msg=lambda said, name=name: name + said)


# -- each rule against a plain one -----------------------------------------------------------------------


def test_adamw_is_torchs() -> None:
    peer = Net()
    groups = [
        {"params": [one for one in peer.parameters() if (one.ndim > 1) == matrix], "weight_decay": 0.3 * matrix}
        for matrix in (True, False)
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-2, betas=(0.8, 0.95), eps=1e-7)
    for step in range(STEPS):
        for name, gradient in gradients(peer, step).items():
            peer.get_parameter(name).grad = gradient
        optimizer.step()
    ours = trained(OptimizerOptions("adamw", betas=(0.8, 0.95), eps=1e-7, weight_decay=0.3, clip=0))
    close(ours, {name: weight.detach() for name, weight in peer.named_parameters()})


def test_stable_adamw_is_the_papers() -> None:
    """Algorithm 2 of Wortsman et al., line by line."""
    clipped = []

    def change(weight: Tensor, gradient: Tensor, kept: dict[str, Tensor], t: int, decay: float) -> None:
        beta1 = 0.9 * (1 - 0.9 ** (t - 1)) / (1 - 0.9**t)
        beta2 = 0.99 * (1 - 0.99 ** (t - 1)) / (1 - 0.99**t)
        kept["m"] = beta1 * kept["m"] + (1 - beta1) * gradient
        kept["v"] = beta2 * kept["v"] + (1 - beta2) * gradient**2
        rms = (gradient**2 / torch.maximum(kept["v"], torch.tensor(1e-12))).mean().sqrt()
        clipped.append(float(rms) > 1.5)
        rate = 1e-2 / max(1.0, float(rms))
        weight -= rate * decay * weight + rate * kept["m"] / (kept["v"].sqrt() + 1e-6)

    close(trained(OptimizerOptions("stable-adamw", weight_decay=0.3, clip=0)), looped(change, 0.3))
    assert 0 < sum(clipped) < len(clipped)


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_lamb_is_googles(decay: float) -> None:
    """As ALBERT's lamb_optimizer has it: no bias correction; biases and norms without decay or trust ratio."""

    def change(weight: Tensor, gradient: Tensor, kept: dict[str, Tensor], _: int, decay: float) -> None:
        kept["m"] = 0.9 * kept["m"] + 0.1 * gradient
        kept["v"] = 0.999 * kept["v"] + 0.001 * gradient**2
        update = kept["m"] / (kept["v"].sqrt() + 1e-6) + decay * weight
        trust = 1.0
        if weight.ndim > 1 and weight.norm() > 0 and update.norm() > 0:
            trust = float(weight.norm() / update.norm())
        weight -= 1e-2 * trust * update

    close(trained(OptimizerOptions("lamb", weight_decay=decay, clip=0)), looped(change, decay))


def muon_by_torch(decay: float) -> dict[str, Tensor]:
    peer = Net()
    mine = {name for name, rule in rules_of(peer, "muon").items() if rule == "muon"}
    named = dict(peer.named_parameters())
    others = [
        {"params": [one for name, one in named.items() if name not in mine and one.ndim > 1], "weight_decay": decay},
        {"params": [one for one in named.values() if one.ndim < 2], "weight_decay": 0.0},
    ]
    optimizers = [
        torch.optim.Muon(
            [named[name] for name in mine], lr=1e-2, weight_decay=decay, momentum=0.9, adjust_lr_fn="match_rms_adamw"
        ),
        torch.optim.AdamW(others, lr=1e-2, betas=(0.9, 0.95), eps=1e-8),
    ]
    for step in range(STEPS):
        for name, gradient in gradients(peer, step).items():
            named[name].grad = gradient
        for optimizer in optimizers:
            optimizer.step()
    return {name: weight.detach() for name, weight in named.items()}


def test_muon_is_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    options = OptimizerOptions("muon", weight_decay=0.3, momentum=0.9, clip=0)
    monkeypatch.setattr(muon, "products", lambda _: torch.bfloat16)
    close(trained(options), muon_by_torch(0.3), 0.02)  # a step moves a number by 0.002 to 0.01
    monkeypatch.setattr(muon, "products", lambda _: torch.float32)
    exact = trained(options)
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)  # torch's own turns, left in fp32
    theirs = muon_by_torch(0.3)
    close(exact, theirs)
    monkeypatch.setitem(muon.AT_A_TIME, "cpu", 1)  # matrix by matrix
    close(trained(options), theirs)


@settings(max_examples=25, deadline=None)
@given(rows=st.integers(1, 40), columns=st.integers(1, 40), seed=st.integers(0, 999), size=st.floats(1e-6, 1e6))
def test_orthogonal_is_nearly_so(rows: int, columns: int, seed: int, size: float) -> None:
    """Against the SVD: singular vectors stay, singular values that are not tiny come near 1; for any size and shape."""
    matrices = size * torch.randn(2, rows, columns, generator=torch.Generator().manual_seed(seed))
    made = muon.orthogonal(matrices, torch.float32)
    assert made.shape == matrices.shape
    for one, given_one in zip(made, matrices, strict=True):
        left, values, right = torch.linalg.svd(given_one.double(), full_matrices=False)
        seen = left.T @ one.double() @ right.T
        large = values > 0.02 * values.norm()
        assert (seen - torch.diag(seen.diag())).abs().max() < 1e-3
        assert bool(((seen.diag()[large] > 0.6) & (seen.diag()[large] < 1.25)).all())


def test_muon_moves_as_far_as_adamw() -> None:
    """Its update has a root mean square of about 0.2 of the rate, whatever the shape."""
    draw = torch.Generator().manual_seed(0)
    for rows, columns in ((64, 64), (32, 128), (128, 32)):
        made = muon.orthogonal(torch.randn(1, rows, columns, generator=draw), torch.bfloat16)
        rms = float((0.2 * math.sqrt(max(rows, columns)) * made.float()).square().mean().sqrt())
        assert 0.12 < rms < 0.25, (rows, columns)


# -- rows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_squares_are_of_each_weight(name: str) -> None:
    net = Net()
    masters = Masters(net, OptimizerOptions(name, layer_decay=0.5), torch.float32)  # type: ignore[arg-type]
    seen = set()
    for row in masters.rows:
        found = squares(row, row.master)
        for at, weight in enumerate(row.names):
            own = net.get_parameter(weight).detach()
            assert found[at].item() == pytest.approx(float(own.square().sum()), rel=1e-5)
            assert counts(row)[at] == own.numel()
            assert row.matrices == (own.ndim > 1)
            seen.add(weight)
    assert seen == {weight for weight, _ in net.named_parameters()}


def test_muon_takes_the_hidden_matrices_alone(store: Store) -> None:
    model = make_model(Recipe.of(table("albert", "albert")), store).model
    rules = rules_of(model, "muon")
    mine = {name for name, rule in rules.items() if rule == "muon"}
    assert {name for name in mine if ".blocks.0." in name} == {
        f"encoder.stack.blocks.0.{part}.weight"
        for part in (
            *("attention.query", "attention.key", "attention.value", "attention.out"),
            *("feedforward.up", "feedforward.down"),
        )
    }
    assert {"encoder.embeddings.projection.weight", "encoder.pooler.dense.weight"} <= mine
    assert "heads.masked_lm.dense.weight" in mine
    for name in ("encoder.embeddings.tokens.weight", "encoder.embeddings.positions.weight"):
        assert rules[name] == "adamw"
    assert rules["heads.sentence_order.scores.weight"] == "adamw"
    assert not any(name.endswith("bias") or "norm" in name for name in mine)


def test_muon_leaves_an_untied_vocabulary_to_adamw(store: Store) -> None:
    recipe = table("bert", "bert")
    recipe["model"]["tied"] = False
    assert rules_of(make_model(Recipe.of(recipe), store).model, "muon")["heads.masked_lm.decoder"] == "adamw"


# -- with everything else --------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_stopped_run_ends_with_the_same_weights(store: Store, tmp_path: Path, name: str, precision: str) -> None:
    """With layer-wise rates, a frozen part, an average and clipping; and the loss falls."""
    recipe = table(
        optimizer_name=name, optimizer_layer_decay=0.8, optimizer_freeze=["embeddings"], optimizer_clip=0.5,
        optimizer_lr=2e-3 if name != "lamb" else 2e-2, run_precision=precision, run_average=0.9, budget_steps=12,
    )  # fmt: skip
    whole, rows = loop_of(recipe, store, tmp_path / "whole")
    frozen = whole.module.get_parameter("encoder.embeddings.tokens.weight").clone()
    whole.train()
    assert sum(row["loss"] for row in rows.rows[-3:]) < sum(row["loss"] for row in rows.rows[:3])
    for _ in range(3):
        parts, watch = loop_of(recipe, store, tmp_path / "parts")
        parts.resume()
        begun = parts.state.step

        def stop(row: dict[str, float], parts=parts, begun: int = begun) -> None:  # type: ignore[no-untyped-def]
            if row["step"] >= begun + 5:
                parts._asked.name = "a test"

        watch.step = stop  # type: ignore[method-assign, assignment]
        parts.train()
    assert parts.state.finished
    one, other = whole.masters.state(), parts.masters.state()
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one)
    for loop in (whole, parts):
        loop.masters.hand_back()
    assert torch.equal(whole.module.get_parameter("encoder.embeddings.tokens.weight"), frozen.float())
    for weight, (key, theirs) in zip(whole.module.parameters(), parts.module.named_parameters(), strict=True):
        assert torch.equal(weight, theirs), key


def test_another_optimizers_checkpoint_is_refused(store: Store, tmp_path: Path) -> None:
    from bertworks.errors import InputError

    loop, _ = loop_of(table(budget_steps=1), store, tmp_path / "run")
    loop.train()
    other, _ = loop_of(table(budget_steps=2, optimizer_name="lamb"), store, tmp_path / "run")
    with pytest.raises(InputError):
        other.resume()


# -- options ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "own"), OPTIMIZERS.items())
def test_each_has_its_own_numbers_and_the_recipe_shows_them(name: str, own: dict[str, object], store: Store) -> None:
    recipe = table(optimizer_name=name)
    ready = make_model(Recipe.of(recipe), store)
    shown = Recipe.of(recipe).resolved(ready.description.config, "bert")["optimizer"]
    assert {key: shown[key] for key in own} == own
    given = Recipe.of(table(optimizer_name=name, optimizer_eps=0.5, optimizer_betas=[0.1, 0.2]))
    assert given.settings.optimizer.eps == 0.5
    assert given.settings.optimizer.betas == (0.1, 0.2)
    assert given.settings.optimizer.weight_decay == own["weight_decay"]
    again = Recipe.of({"model": {"architecture": "bert"}, "optimizer": shown, "budget": {"steps": 1}})
    assert again.settings.optimizer == Recipe.of(recipe).settings.optimizer


def test_wrong_options_are_refused() -> None:
    with pytest.raises(ConfigError, match="momentum"):
        OptimizerOptions("muon", momentum=1.0)
    with pytest.raises(ConfigError, match="did you mean 'stable-adamw'"):
        Recipe.of(table(optimizer_name="stableadamw"))
