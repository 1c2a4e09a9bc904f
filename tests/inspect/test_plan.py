"""The reckoning of `plan`: memory against what is really held, speed against published trainings, budgets by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from bertworks import recipes
from bertworks.config import overridden, read_toml
from bertworks.errors import ConfigError, InputError
from bertworks.inspect import plan
from bertworks.inspect.devices import DEVICES, devices_of
from bertworks.inspect.memory import Setting, kept_blocks, training_memory
from bertworks.inspect.trial import tried
from bertworks.layers.dropout import Source, give_source
from bertworks.objectives.batches import TrainingBatch
from bertworks.objectives.select import most_chosen
from bertworks.runtime.machine import matrix_peak
from bertworks.tasks.pretrain import Recipe, built, config_of, loss_of

SMALL = ["model.hidden_size=32", "model.heads=2", "model.intermediate_size=64", "model.layers=2", "model.positions=64",
         "batch.length=48", "batch.tokens=768"]  # fmt: skip


def work(name: str, *overrides: str, epoch_rows: int | None = None) -> plan.Work:
    table: dict[str, Any] = read_toml(recipes.path_of(name))
    if any(one.startswith("budget.") for one in overrides):
        table["budget"] = {}
    recipe = Recipe.of(overridden(table, overrides))
    return plan.work_of(recipe, *config_of(recipe, None, None), epoch_rows)


def made(name: str, *overrides: str) -> tuple[plan.Work, Any]:
    found = work(name, *overrides)
    family, _ = config_of(found.recipe, None, None)
    return found, built(found.recipe, family, found.config)


# -- what is trained ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [one for one in recipes.names() if "task" not in read_toml(recipes.path_of(one))])
def test_parameters_are_those_of_the_model_that_is_built(name: str) -> None:
    smaller = SMALL if "preset" in read_toml(recipes.path_of(name))["model"] else SMALL[:5]
    found, ready = made(name, *smaller, "batch.length=48", "batch.tokens=768")
    assert found.parameters == sum(weight.numel() for weight in ready.model.parameters())


def test_arithmetic_of_a_step_is_what_pytorch_counts() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    found, ready = made("roberta-mini", *SMALL, "model.dropout=0.0", "model.attention_dropout=0.0")
    ready.model.encoder.way = "eager"
    batch = random_batch(found, 4)
    with FlopCounterMode(display=False) as counter:
        loss_of(found.recipe, ready)(ready.model, batch, {"chosen": 10, "pairs": 4}, False).total.backward()
    # PyTorch does not compute the gradient of the ids: one forward and two backward products for all others.
    assert counter.get_total_flops() == pytest.approx(4 * 48 * found.flops_per_token, rel=0.03)


def random_batch(found: plan.Work, rows: int) -> TrainingBatch:
    length, draw = found.batch.length, np.random.default_rng(0)
    most = most_chosen(found.recipe.objective, length)
    firsts = np.arange(rows) * length
    return TrainingBatch(
        draw.integers(1, found.config.vocab_size, (rows, length), np.int32), np.zeros((rows, length), np.uint8),
        np.ones((rows, length), np.uint16), (firsts[:, None] + np.arange(most)).ravel(),
        draw.integers(0, found.config.vocab_size, rows * most), firsts, np.zeros(rows, np.int64),
    )  # fmt: skip


# -- memory ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["roberta-mini", "bert-mini", "albert-mini"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_activations_are_what_autograd_keeps(name: str, precision: str) -> None:
    found, ready = made(name, "batch.length=64", "model.intermediate_size=512")
    ready.model.to({"fp32": torch.float32, "bf16": torch.bfloat16}[precision]).train()
    give_source(ready.model, Source(*range(4)))
    own = {weight.untyped_storage().data_ptr() for weight in ready.model.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = loss_of(found.recipe, ready)(ready.model, random_batch(found, 4), {"chosen": 10, "pairs": 4}, False)
    scores = 4 * most_chosen(found.recipe.objective, 64) * found.config.vocab_size
    setting = Setting(found.config, found.parameters, 0, 64, 10, precision)
    reckoned = sum(times * size for times, size in kept_blocks(setting, 4)) + setting.bytes_each * scores
    assert loss.total.requires_grad
    assert sum(kept.values()) == pytest.approx(reckoned, rel=0.08)


def test_weights_and_optimiser_are_what_the_loop_holds() -> None:
    from bertworks.train.masters import Masters

    for name in ("adamw", "lamb", "muon"):
        found, ready = made("bert-mini", *SMALL, f"optimizer.name={name}", "run.average=0.9")
        rows = Masters(ready.model, found.recipe.settings.optimizer, torch.bfloat16, 0.9).rows
        held = {id(one): one.nbytes for row in rows for one in _tensors(row)}
        memory = found.memory(1, "bf16", "cpu")
        reckoned = memory.weights + memory.gradients + memory.optimizer
        assert sum(held.values()) == pytest.approx(reckoned, rel=0.02)


def _tensors(row: Any) -> list[torch.Tensor]:
    inside = [one for value in vars(row).values() for one in (value.values() if isinstance(value, dict) else [value])]
    return [one for one in inside if isinstance(one, torch.Tensor)]


def test_memory_grows_with_all_that_takes_memory() -> None:
    base = work("bert-base")
    of = {rows: base.memory(rows, "bf16", "gpu").total for rows in (1, 2, 4)}
    assert of[1] < of[2] < of[4]
    assert of[4] - of[2] == pytest.approx(2 * (of[2] - of[1]), rel=1e-6)
    assert base.memory(1, "fp32", "gpu").activations > base.memory(1, "bf16", "gpu").activations
    assert base.memory(1, "bf16", "cpu").activations > base.memory(1, "bf16", "gpu").activations  # attention maps
    setting = Setting(base.config, base.parameters, 2 * base.parameters, 512, 77, "bf16")
    assert training_memory(setting, 1).checkpoint == 12 * base.parameters


def test_the_largest_microbatch_fits_and_one_more_does_not() -> None:
    found = work("bert-large")
    room = 40 * 2**30
    rows = found.largest(room, "bf16", "gpu")
    assert 0 < rows < found.batch.rows
    assert found.memory(rows, "bf16", "gpu").total <= room < found.memory(rows + 1, "bf16", "gpu").total
    assert found.largest(2**30, "bf16", "gpu") == 0
    assert found.largest(2**50, "bf16", "gpu") == found.batch.rows


# -- how much and how fast ---------------------------------------------------------------------------------


def test_budgets() -> None:
    per_step = 4096
    steps = plan.amount(work("bert-mini", "budget.steps=100"), 2.0)
    assert (steps.steps, steps.tokens, steps.seconds) == (100, 100 * per_step, 200.0)
    tokens = plan.amount(work("bert-mini", "budget.tokens=100000"), 2.0)
    assert (tokens.steps, tokens.tokens) == (25, 100000)
    minutes = plan.amount(work("bert-mini", "budget.minutes=10"), 2.0)
    assert (minutes.steps, minutes.seconds) == (300, 600)
    epochs = plan.amount(work("roberta-mini", "budget.epochs=2.0", epoch_rows=1000), 1.0)
    assert epochs.tokens == 2 * 1000 * 128
    with pytest.raises(ConfigError, match="size of the corpus"):
        work("bert-mini", "budget.epochs=2.0")


@pytest.mark.parametrize("budget", ["budget.steps=4000", "budget.tokens=10000000"])
def test_a_ramp_is_counted_as_the_loop_runs_it(budget: str) -> None:
    from bertworks.train.loop import SMALLEST_BATCH

    found = work("bert-mini", "batch.ramp=0.4", budget)
    done, step, tokens = plan.amount(found, 1.0), 0, 0
    settings = found.recipe.settings
    while (share := step / settings.budget.steps if settings.budget.steps else tokens / settings.budget.tokens) < 1:
        rows = settings.batch.rows
        if share < 0.4:
            rows = max(1, round(rows * (SMALLEST_BATCH + (1 - SMALLEST_BATCH) * share / 0.4)))
        step, tokens = step + 1, tokens + rows * 128
    assert done.steps == pytest.approx(step, rel=0.01)
    assert done.tokens == pytest.approx(tokens, rel=0.01)


def test_microbatches_are_the_loops() -> None:
    base = work("bert-base")
    assert (base.microbatch(), base.microbatches()) == (16, 16)
    assert (base.microbatch(8), base.microbatches(8)) == (16, 2)
    assert (base.microbatch(256), base.microbatches(256)) == (1, 1)
    assert work("bert-base", "batch.microbatch=5").microbatches() == 52


def test_published_speeds() -> None:
    """BERT-large, 580 sequences of 128 a second on an A100 (NVIDIA); BERT-base's shape on an H100 is not published,
    but ModernBERT-base's 304,000 tokens a second are near it.
    """
    large = work("bert-large", "batch.length=128", "batch.microbatch=64")
    assert plan.on_gpus(large, 1, DEVICES["A100-80"])["tokens_per_second"] == pytest.approx(580 * 128, rel=0.2)
    base = plan.on_gpus(work("bert-base"), 1, DEVICES["H100"])["tokens_per_second"]
    assert 200_000 < base < 500_000


def test_gpus_share_the_work_and_the_bill() -> None:
    base = work("bert-base")
    one, eight = (plan.on_gpus(base, count, DEVICES["H100"]) for count in (1, 8))
    assert eight["tokens_per_second"] == pytest.approx(8 * one["tokens_per_second"], rel=0.05)
    assert eight["cost"] == pytest.approx(one["cost"], rel=0.05)
    assert one["tokens"] == 131072 * 1_000_000
    assert plan.on_gpus(base, 1, DEVICES["H100"], 0.0)["cost"] == 0
    assert plan.on_gpus(base, 1, DEVICES["T4"])["device"]["precision"] == "fp32"  # it has no bf16
    more = plan.on_gpus(work("bert-mini"), 64, DEVICES["H100"])  # of 32 rows
    assert more["tokens_per_second"] <= plan.on_gpus(work("bert-mini"), 32, DEVICES["H100"])["tokens_per_second"] * 1.01


def test_devices_by_name() -> None:
    for text, count, name in (("8xH100", 8, "H100"), ("a100", 1, "A100-40"), ("2 x A100-80GB", 2, "A100-80"),
                              ("NVIDIA L4", 1, "L4"), ("4×rtx 4090", 4, "RTX4090")):  # fmt: skip
        assert (devices_of(text)[0], devices_of(text)[1].name) == (count, name)
    with pytest.raises(InputError, match="H100"):
        devices_of("8xH10")
    with pytest.raises(InputError):
        devices_of("0xH100")
    with pytest.raises(InputError):
        devices_of("")


def test_a_trial_and_the_matrix_peak_say_something_plausible() -> None:
    found, ready = made("bert-mini", *SMALL)
    trial = tried(found.recipe, ready, 4, torch.float32, torch.device("cpu"))
    assert trial.microbatch > 0
    assert trial.seconds(8, 2) == pytest.approx(2 * trial.microbatch + 2 * trial.gather + trial.step)
    assert 1e9 < matrix_peak(torch.float32, seconds=0.05) < 1e14
