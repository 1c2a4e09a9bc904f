"""The loop: right steps, the same weights after a stop as without one, and what it does when something goes wrong."""

from __future__ import annotations

import errno
import json
import math
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bertworks.errors import BertworksError, ConfigError, InputError
from bertworks.objectives.batches import IGNORED, Place
from bertworks.objectives.published import PUBLISHED
from bertworks.tasks.pretrain import Recipe, evaluation, loss_of, make_model
from bertworks.text.store import Store
from bertworks.train import checkpoint
from bertworks.train.loop import Loop
from bertworks.train.options import ScheduleOptions
from bertworks.train.schedule import rate

from ..stores import plain_tokenizer, store_of
from .runs import TINY, loop_of, table, tiny_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return tiny_store(tmp_path_factory.mktemp("train"))


def masters_of(loop: Loop) -> dict[str, torch.Tensor]:
    return loop.masters.state()


def weights_of(loop: Loop) -> torch.Tensor:
    found = masters_of(loop)
    return torch.cat([found[name].flatten() for name in sorted(found) if name.startswith("master.")])


def same(one: Loop, other: Loop) -> bool:
    first, second = masters_of(one), masters_of(other)
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


# -- steps are right -------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["bert", "roberta"])
def test_a_step_equals_transformers_and_torch(store: Store, tmp_path: Path, objective: str) -> None:
    """From equal weights, batch and no dropout: equal weights after three steps of ours and of theirs."""
    import transformers

    from bertworks.folders import new_folder
    from bertworks.models.folder import write_model

    recipe = table(
        "bert", objective, model_dropout=0.0, model_attention_dropout=0.0, optimizer_weight_decay=0.1,
        schedule_name="constant", schedule_warmup=0.0, optimizer_clip=0.5,
    )  # fmt: skip
    chosen = Recipe.of(recipe)
    ready = make_model(chosen, store)
    with new_folder(tmp_path / "start") as folder:
        write_model(folder, ready.model, ready.description)
    pairs = objective == "bert"
    kind = transformers.BertForPreTraining if pairs else transformers.BertForMaskedLM
    peer = kind.from_pretrained(tmp_path / "start").train()
    decayed = [weight for weight in peer.parameters() if weight.ndim > 1]
    plain = [weight for weight in peer.parameters() if weight.ndim < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=2e-3, betas=(0.9, 0.999), eps=1e-8)
    loop, watch = loop_of(recipe, store, tmp_path / "run")
    place = Place()
    for number in range(3):
        batch = loop.examples.batch(place, 16)
        place = loop.examples.after(place, 16)
        labels = torch.full(batch.ids.shape, IGNORED)
        asked = batch.labels != IGNORED
        labels.view(-1)[torch.from_numpy(batch.chosen[asked])] = torch.from_numpy(batch.labels[asked])
        given = {"next_sentence_label": torch.from_numpy(batch.answers)} if pairs else {}
        loss = peer(
            input_ids=torch.from_numpy(batch.ids).long(),
            token_type_ids=torch.from_numpy(batch.segments).long(),
            attention_mask=torch.from_numpy(batch.sequences > 0).long(),
            labels=labels,
            **given,
        ).loss
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(peer.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        loop._step()
        told = watch.rows[number]
        assert told["loss"] + told.get("pair_loss", 0.0) == pytest.approx(loss.item(), abs=1e-5)
        assert told["grad_norm"] == pytest.approx(float(norm), rel=1e-4)
    loop.masters.hand_back()
    with new_folder(tmp_path / "end") as folder:
        write_model(folder, loop.module, ready.description)  # type: ignore[arg-type]
    ours = kind.from_pretrained(tmp_path / "end").state_dict()
    for name, weight in peer.state_dict().items():
        torch.testing.assert_close(ours[name], weight, atol=1e-5, rtol=0)


def test_microbatches_make_the_same_step(store: Store, tmp_path: Path) -> None:
    made = {}
    for size in (16, 5, 1):
        recipe = table(batch_microbatch=size, model_dropout=0.1, model_attention_dropout=0.1, budget_steps=3)
        loop, watch = loop_of(recipe, store, tmp_path / str(size))
        assert loop.train() == "finished"
        made[size] = weights_of(loop), [row["loss"] for row in watch.rows]
    for size in (5, 1):
        torch.testing.assert_close(made[size][0], made[16][0], atol=1e-5, rtol=0)
        np.testing.assert_allclose(made[size][1], made[16][1], atol=1e-5)


@pytest.mark.parametrize("family", TINY)
@pytest.mark.parametrize("objective", PUBLISHED)
def test_every_objective_and_architecture_learns(store: Store, tmp_path: Path, family: str, objective: str) -> None:
    """Fifty steps: the loss falls. (The text is random words, of which only the frequencies can be learnt.)"""
    recipe = table(family, objective, budget_steps=50, run_precision="bf16")
    loop, watch = loop_of(recipe, store, tmp_path / "run")
    assert loop.train() == "finished"
    losses = [row["loss"] for row in watch.rows]
    assert len(losses) == 50
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.02
    assert all(math.isfinite(one) for one in losses)
    assert ("pair_loss" in watch.rows[0]) == (PUBLISHED[objective].pair != "none")
    loop.masters.hand_back()


def test_packed_pairs_learn_too(store: Store, tmp_path: Path) -> None:
    recipe = table()
    recipe["objective"] = {"layout": "packed", "pair": "next-sentence", "select": "words", "short": 0.9}
    loop, watch = loop_of(recipe, store, tmp_path / "run")
    loop.train()
    assert watch.rows[-1]["loss"] < watch.rows[0]["loss"]
    assert 0 < watch.rows[0]["pair_loss"] < 2


def test_a_language_of_known_entropy_is_learnt_to_its_limit(tmp_path: Path) -> None:
    """Words come in pairs: the second is a fixed function of the first, but for one in ten, which is any word."""
    words, noise, size = 24, 0.1, 30
    tokenizer = plain_tokenizer(tmp_path / "t", words=words, pieces=1)
    draw = np.random.default_rng(0)
    partner = draw.permutation(words)
    documents = []
    for _ in range(6000):
        first = draw.integers(words, size=size // 2)
        second = np.where(draw.random(size // 2) < noise, draw.integers(words, size=size // 2), partner[first])
        documents.append([(5 + np.stack([first, second], 1).ravel()).tolist()])
    store = store_of(tmp_path / "s", tokenizer, documents)
    right = 1 - noise + noise / words
    wrong = noise / words
    channel = -(right * math.log(right) + (words - 1) * wrong * math.log(wrong))
    chosen = 0.15 * size  # of 30: four or five
    both = (4 * 3 / 29 * 0.5 + 5 * 4 / 29 * 0.5) / chosen  # how often the partner of a masked word is masked as well
    limit = (1 - both) * channel + both * math.log(words)
    recipe = table(
        model_positions=32, model_hidden_size=64, model_intermediate_size=128, model_dropout=0.0,
        model_attention_dropout=0.0, model_init_std=0.1, batch_length=32, batch_tokens=32 * 64, optimizer_lr=2e-3,
        optimizer_betas=[0.9, 0.98], budget_steps=900, run_precision="bf16", run_average=0.99,
    )  # fmt: skip
    recipe["objective"] = {"layout": "documents", "corrupt": "mask"}
    loop, watch = loop_of(recipe, store, tmp_path / "run")
    loop.train()
    reached = np.mean([row["loss"] for row in watch.rows[-100:]])
    assert reached == pytest.approx(limit, rel=0.03), (reached, limit)


# -- stopping and going on -------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("budget", [{"steps": 12}, {"tokens": 12 * 768}, {"epochs": 1.5}])
def test_a_stopped_run_ends_with_the_same_weights(
    store: Store, tmp_path: Path, precision: str, budget: dict[str, float]
) -> None:
    """Dropout on, an average kept, the batch growing, masks drawn anew in the second epoch."""
    recipe = table(run_precision=precision, run_average=0.9, batch_ramp=0.4)
    recipe["budget"] = budget
    whole, rows = loop_of(recipe, store, tmp_path / "whole")
    whole.train()
    stops = 0
    while True:
        loop, watch = loop_of(recipe, store, tmp_path / "parts")
        loop.resume()
        begun = loop.state.step

        def stop_soon(row: dict[str, float], loop: Loop = loop, begun: int = begun) -> None:
            if row["step"] >= begun + 4:
                loop._asked.name = "a test"

        watch.step = stop_soon  # type: ignore[method-assign, assignment]
        if loop.train() == "finished":
            break
        stops += 1
    assert stops >= 2
    assert same(loop, whole)
    assert loop.state.step == whole.state.step == len(rows.rows)


def test_a_finished_run_has_nothing_to_resume(store: Store, tmp_path: Path) -> None:
    loop, _ = loop_of(table(budget_steps=3), store, tmp_path / "run")
    loop.train()
    again, watch = loop_of(table(budget_steps=3), store, tmp_path / "run")
    assert again.resume()
    assert again.share() >= 1
    assert watch.resumes == [3]
    assert same(loop, again)


@pytest.mark.parametrize("name", ["state.safetensors", "state.json", "manifest.json"])
@pytest.mark.parametrize("how", ["flipped", "missing", "cut"])
def test_a_torn_checkpoint_is_named_and_the_one_before_it_used(
    store: Store, tmp_path: Path, name: str, how: str
) -> None:
    run = tmp_path / "run"
    loop, _ = loop_of(table(), store, run)
    for _ in range(2):
        loop._step()
    loop.save(wait=True)
    before = masters_of(loop)
    loop._step()
    loop.save(wait=True)
    path = run / "checkpoints" / "step-00000003" / name
    data = bytearray(path.read_bytes())
    if how == "flipped":
        data[len(data) // 2] ^= 1
    path.write_bytes(data if how == "flipped" else data[: len(data) // 2])
    if how == "missing":
        path.unlink()
    (run / "checkpoints" / ".step-00000009.abc").mkdir()  # what a kill leaves of a checkpoint being written
    again, watch = loop_of(table(), store, run)
    assert again.resume()
    assert again.state.step == 2
    assert "step-00000003 is not whole" in watch.said[0]
    assert all(torch.equal(before[key], masters_of(again)[key]) for key in before)


def test_old_checkpoints_are_removed(store: Store, tmp_path: Path) -> None:
    loop, _ = loop_of(table(run_keep=2), store, tmp_path / "run")
    for _ in range(4):
        loop._step()
        loop.save(wait=True)
    names = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert names == ["step-00000003", "step-00000004"]


def test_another_models_checkpoint_is_refused(store: Store, tmp_path: Path) -> None:
    loop, _ = loop_of(table(budget_steps=1), store, tmp_path / "run")
    loop.train()
    other, _ = loop_of(table(model_layers=3, budget_steps=2), store, tmp_path / "run")
    with pytest.raises(InputError, match="another model"):
        other.resume()


def test_a_full_disk_keeps_the_last_checkpoint_and_goes_on(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    loop, watch = loop_of(table(budget_steps=4), store, run)
    loop._step()
    loop.save(wait=True)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    assert loop.train() == "finished"
    assert any("No space left" in line and "stays" in line for line in watch.said)
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["step-00000001"]
    monkeypatch.undo()
    assert loop_of(table(budget_steps=4), store, run)[0].resume()


def test_a_signal_ends_it_after_the_step(store: Store, tmp_path: Path) -> None:
    loop, watch = loop_of(table(budget_steps=500), store, tmp_path / "run")
    kept = signal.getsignal(signal.SIGTERM)

    def raise_it(row: dict[str, float]) -> None:
        if row["step"] == 3:
            signal.raise_signal(signal.SIGTERM)

    watch.step = raise_it  # type: ignore[method-assign, assignment]
    assert loop.train() == "stopped"
    assert loop.state.step == 3
    assert "SIGTERM" in watch.said[0]
    assert signal.getsignal(signal.SIGTERM) is kept
    again, _ = loop_of(table(budget_steps=500), store, tmp_path / "run")
    assert again.resume()
    assert same(again, loop)


# -- when it goes wrong ----------------------------------------------------------------------------------


class Times:
    """A loss gone wrong."""

    def __init__(self, right: Any, factor: float) -> None:
        self.right, self.factor, self.counts = right, factor, right.counts

    def __call__(self, *args: Any) -> Any:
        losses = self.right(*args)
        return type(losses)(losses.total * self.factor, losses.facts)


def test_a_bad_gradient_skips_the_step(store: Store, tmp_path: Path) -> None:
    loop, watch = loop_of(table(), store, tmp_path / "run")
    loop._step()
    before = masters_of(loop)
    right = loop.loss
    loop.loss = Times(right, float("nan"))
    loop._step()
    assert all(torch.equal(before[name], masters_of(loop)[name]) for name in before)
    assert "skipped" in watch.said[0]
    assert loop.state.skipped == 1
    loop.loss = right
    loop._step()
    assert any(not torch.equal(before[name], tensor) for name, tensor in masters_of(loop).items())
    assert torch.isfinite(weights_of(loop)).all()


def test_several_bad_gradients_take_the_last_checkpoint_and_then_give_up(store: Store, tmp_path: Path) -> None:
    loop, watch = loop_of(table(budget_steps=100), store, tmp_path / "run")
    loop._step()
    loop.save(wait=True)
    saved = masters_of(loop)
    right = loop.loss
    loop._step()
    loop.loss = Times(right, float("inf"))
    for _ in range(5):
        loop._step()
    assert any("the weights of step 1 are taken again" in line for line in watch.said)
    assert all(torch.equal(saved[name], masters_of(loop)[name]) for name in saved)
    with pytest.raises(BertworksError, match=r"training has diverged[\s\S]*lower optimizer.lr"):
        loop.train()


# -- recipes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_hidden_siz": 32}, "did you mean 'hidden_size'"),
        ({"model_heads": 5}, "do not divide"),
        ({"batch_length": 80}, "more than the 64 tokens"),
        ({"optimizer_name": "adam"}, "did you mean 'adamw'"),
        ({"optimizer_lr": "fast"}, "it is a number"),
        ({"schedule_name": "cosin"}, "did you mean 'cosine'"),
        ({"budget_minutes": 3}, "budget has steps and minutes"),
        ({"run_precision": "int8"}, "known"),
        ({"objective_pair": "none", "objective_layout": "pairs"}, "segment-pairs"),
        ({"optimizer_freeze": ["embeding"]}, "has not"),
        ({"batch_tokens": 10}, "less than one row"),
        ({"optmizer_lr": 1.0}, "did you mean 'optimizer'"),
        ({"model_segments": 1}, "two segments"),
    ],
)
def test_a_recipe_that_does_not_add_up_is_refused(
    store: Store, tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        loop_of(table(**changes), store, tmp_path / "run")


def test_frozen_parts_stay(store: Store, tmp_path: Path) -> None:
    loop, _ = loop_of(table(optimizer_freeze=["embeddings", "blocks.0"], budget_steps=3), store, tmp_path / "run")
    before = {name: weight.clone() for name, weight in loop.module.state_dict().items()}
    loop.train()
    for name, weight in loop.module.state_dict().items():
        frozen = name.startswith(("encoder.embeddings.", "encoder.stack.blocks.0."))
        assert torch.equal(before[name], weight) == frozen, name


def test_layers_learn_at_their_own_rates(store: Store, tmp_path: Path) -> None:
    loop, _ = loop_of(table(optimizer_layer_decay=0.5), store, tmp_path / "run")
    scales = {name: row.scale for row in loop.masters.rows for name in row.names}
    assert scales["heads.masked_lm.dense.weight"] == 1
    assert scales["encoder.stack.blocks.1.attention.query.weight"] == 0.5
    assert scales["encoder.stack.blocks.0.attention.query.weight"] == 0.25
    assert scales["encoder.embeddings.tokens.weight"] == 0.125


def test_schedules() -> None:
    def at(name: str, share: float, **more: float) -> float:
        return rate(ScheduleOptions(name, **more), share, 0)  # type: ignore[arg-type]

    assert at("constant", 0.9, warmup=0.1) == 1
    assert at("linear", 0.55, warmup=0.1) == pytest.approx(0.5)
    assert at("cosine", 0.55, warmup=0.1) == pytest.approx(0.5)
    assert at("wsd", 0.79, warmup=0.1, decay=0.2) == 1
    assert at("wsd", 0.91, warmup=0.1, decay=0.2) == pytest.approx(0.5)
    assert at("linear", 1.0, floor=0.1) == pytest.approx(0.1)
    assert rate(ScheduleOptions("linear", warmup=100), 0.0, 49) == pytest.approx(0.5)
    assert rate(ScheduleOptions("linear", warmup=100), 0.5, 5000) == pytest.approx(0.5)


def test_held_out_looks_are_the_same_every_time(store: Store, tmp_path: Path) -> None:
    recipe = Recipe.of(table(budget_steps=6, run_evaluate_every=2))
    ready = make_model(recipe, store)
    look = evaluation(recipe, store, loss_of(recipe, ready), lambda _: None)
    loop, watch = loop_of(table(budget_steps=6, run_evaluate_every=2), store, tmp_path / "run", evaluate=look)
    loop.train()
    assert [row["step"] for row in watch.looks] == [2, 4, 6]
    assert set(watch.looks[0]) == {"step", "dev_loss", "dev_masked_accuracy", "dev_pair_loss", "dev_pair_accuracy"}
    loop.module.eval()
    with torch.inference_mode():
        assert look(loop.module) == look(loop.module)
    # looking changes nothing in the training
    blind, _ = loop_of(table(budget_steps=6), store, tmp_path / "blind")
    blind.train()
    assert same(loop, blind)


def test_checkpoints_are_written_as_time_goes(store: Store, tmp_path: Path) -> None:
    loop, _ = loop_of(table(budget_steps=5, run_checkpoint_minutes=0.0, run_keep=9), store, tmp_path / "run")
    loop.train()
    names = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert names == [f"step-{step:08}" for step in range(1, 6)]
    told = json.loads((tmp_path / "run" / "checkpoints" / names[2] / "state.json").read_text())
    assert told["state"]["step"] == 3
