"""`bertworks plan` as a person runs it: what it says, what it refuses, and that it is near what training then does."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertworks import recipes
from bertworks.config import read_toml
from bertworks.text.store import Store

from ..shell import bertworks
from ..train.runs import tiny_store

SMALL = [
    "model.hidden_size=32", "model.heads=2", "model.intermediate_size=64", "model.layers=2", "batch.length=48",
    "batch.tokens=768",
]  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return tiny_store(tmp_path_factory.mktemp("plan"))


def test_this_machine(store: Store) -> None:
    done = bertworks("plan", "bert-mini", *SMALL, "budget.steps=50", "--data", store.folder, "--json")
    value = done.json()
    assert "trying" in done.err
    assert {"parameters", "memory_bytes", "tokens_per_second", "seconds", "cost"} <= set(value)
    assert value["vocabulary"]["size"] == store.vocab_size
    assert value["speed"]["how"] == "measured"
    assert (value["steps"], value["tokens"], value["cost"]) == (50, 50 * 768, None)
    assert value["fits"]
    parts = value["memory"]
    checkpoint, activations = parts.pop("checkpoint"), parts.pop("activations")
    assert value["memory_bytes"] == sum(parts.values()) + max(activations, checkpoint)
    assert value["seconds"] == pytest.approx(value["tokens"] / value["tokens_per_second"], rel=0.01, abs=0.1)
    assert [one["devices"] for one in value["elsewhere"]]


def test_parameters_are_those_of_the_run(store: Store, tmp_path: Path) -> None:
    plan = bertworks("plan", "bert-mini", *SMALL, "--data", store.folder, "--json", "--reckon").json()
    done = bertworks("pretrain", "bert-mini", *SMALL, "budget.steps=2", "--data", store.folder, "--out", tmp_path / "R")
    assert done.code == 0, done.err
    inspected = bertworks("inspect", tmp_path / "R" / "model", "--json").json()
    assert plan["parameters"] == inspected["parameters"]["total_with_heads"]


@pytest.mark.parametrize("name", ["roberta-mini", "bert-mini"])
def test_an_epoch_is_what_training_counts(name: str, store: Store) -> None:
    from bertworks.config import read_toml
    from bertworks.tasks.pretrain import Recipe, examples_of

    told = bertworks("plan", name, *SMALL, "budget.epochs=2", "--data", store.folder, "--json", "--reckon").json()
    recipe = Recipe.of(read_toml(recipes.path_of(name)) | {"batch": {"length": 48, "tokens": 768}})
    assert told["tokens"] == 2 * 48 * examples_of(recipe, store, lambda _: None).count(0)


def test_gpus_and_the_bill() -> None:
    value = bertworks("plan", "bert-base", "--devices", "8xH100", "--json").json()
    assert (value["device"]["name"], value["device"]["count"]) == ("H100", 8)
    assert value["speed"]["how"] == "reckoned"
    assert value["cost"] == pytest.approx(8 * value["price_per_hour"] * value["seconds"] / 3600, abs=0.01)
    dearer = bertworks("plan", "bert-base", "--devices", "8xH100", "--price", "10", "--json").json()
    assert dearer["cost"] == pytest.approx(80 * value["seconds"] / 3600, abs=0.01)
    done = bertworks("plan", "bert-large", "batch.microbatch=256", "--devices", "L4")
    assert "does not fit" in done.out
    assert "batch.microbatch=" in done.out


@pytest.mark.parametrize("name", recipes.names())
def test_every_shipped_recipe_can_be_planned(name: str) -> None:
    done = bertworks("plan", name, "--reckon")
    if "task" in read_toml(recipes.path_of(name)):
        assert (done.code, done.err.splitlines()[0]) == (1, f"error: {name} is a recipe for fine-tuning")
        return
    assert done.code == 0, done.err
    for word in ("parameters", "memory", "tokens a second", "reckoned", "budget", "cost"):
        assert word in done.out


def test_mistakes() -> None:
    for arguments, code, said in (
        (["bert-mni"], 1, "did you mean 'bert-mini'"),
        (["bert-mini", "--devices", "8xH10"], 1, "did you mean 'H100'"),
        (["bert-mini", "--devices", "0xH100"], 1, "8xH100"),
        (["bert-mini", "model.heads=7"], 1, "do not divide"),
        (["bert-mini", "model.layrs=7"], 1, "there is no key model.layrs"),
        (["bert-mini", "budget.epochs=3"], 1, "--data STORE"),
        (["bert-mini", "--price", "3"], 2, "--devices"),
        (["bert-mini", "--data", "/nowhere"], 1, "/nowhere"),
    ):
        done = bertworks("plan", *arguments)
        assert done.code == code, done.out
        assert said in done.err
        assert "Traceback" not in done.err
