"""`pretrain` and `recipes` by the command line: a run, its folder, going on, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from bertworks import recipes
from bertworks.config import read_toml
from bertworks.tasks.pretrain import Recipe, make_model
from bertworks.text.store import Store

from ..shell import bertworks
from ..stores import plain_tokenizer, random_documents, store_of
from ..train.runs import tiny_store

SMALL = [
    "model.hidden_size=32", "model.heads=2", "model.intermediate_size=64", "model.layers=2", "batch.length=48",
    "batch.tokens=768",
]  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return tiny_store(tmp_path_factory.mktemp("pretrain"))


@pytest.fixture(scope="module")
def run(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "R"
    done = bertworks("pretrain", "bert-mini", *SMALL, "budget.steps=8", "--data", store.folder, "--out", out)
    assert done.code == 0, done.err
    assert "8 steps" in done.out
    return out


def test_a_run_holds_what_the_contract_says(run: Path, store: Store) -> None:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(1, 9))
    assert {"loss", "lr", "grad_norm", "tokens", "tokens_per_second"} <= set(rows[0])
    assert (run / "checkpoints" / "step-00000008" / "manifest.json").exists()
    assert (run / "README.md").read_text().startswith("---")
    resolved = read_toml(run / "recipe.toml")
    assert resolved["budget"] == {"steps": 8}  # setting one drops the others
    assert resolved["model"]["hidden_size"] == 32
    assert resolved["model"]["vocab_size"] == store.vocab_size
    Recipe.of(resolved)


def test_its_model_loads_in_transformers(run: Path, store: Store) -> None:
    import transformers

    peer = transformers.AutoModelForPreTraining.from_pretrained(run / "model").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(run / "model")
    assert len(tokenizer) == store.vocab_size
    done = bertworks("fill", run, "w1 [MASK] w3", "--json", "--dtype", "fp32")
    guesses = done.json()["results"]
    with torch.inference_mode():
        given = tokenizer("w1 [MASK] w3", return_tensors="pt")
        scores = peer(**given).prediction_logits[0, 2].softmax(-1)
    assert guesses[0]["token"] == int(scores.argmax())
    assert guesses[0]["score"] == pytest.approx(float(scores.max()), abs=1e-5)


def test_a_finished_run_says_so_and_a_larger_budget_goes_on(run: Path, store: Store) -> None:
    arguments = ["pretrain", "bert-mini", "--data", store.folder, "--out", run]
    done = bertworks(*arguments, "--resume")
    assert done.code == 0, done.err
    assert "is finished: 8 steps" in done.out
    assert bertworks(*arguments).code == 1  # not overwritten
    done = bertworks(*arguments, "--resume", "model.layers=3")
    assert done.code == 1
    assert "only budget.* and run.* may change" in done.err
    value = bertworks(*arguments, "--resume", "budget.steps=11", "--json").json()
    assert (value["outcome"], value["steps"]) == ("finished", 11)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(1, 12))


def test_mistakes(store: Store, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "R"
    for arguments, code, said in (
        (["bert-mni"], 1, "did you mean 'bert-mini'"),
        (["nothing.toml"], 1, "nothing.toml is not a file"),
        (["bert-mini", "optimizer.lrr=1"], 1, "there is no key optimizer.lrr"),
        (["bert-mini", "lr=1"], 1, "section.key=value"),
        (["bert-mini", "model.heads=7"], 1, "do not divide"),
        (["bert-mini", "--resume"], 1, "holds no run to resume"),
    ):
        done = bertworks("pretrain", *arguments, "--data", store.folder, "--out", out)
        assert done.code == code, done.out
        assert said in done.err
        assert "Traceback" not in done.err
        assert not out.exists()
    other = store_of(tmp_path / "s", store.tokenizer, random_documents(store.tokenizer, 20, 9))
    done = bertworks("pretrain", "bert-mini", "--data", other.folder, "--out", run, "--resume")
    assert done.code == 1
    assert "is not the store" in done.err


def test_going_on_with_a_model_on_other_text(run: Path, store: Store, tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text(
        f'[model]\nfrom = "{run / "model"}"\n[objective]\npreset = "roberta"\n[batch]\nlength = 48\ntokens = 768\n'
        "[budget]\nsteps = 2\n"
    )
    done = bertworks("pretrain", tmp_path / "r.toml", "--data", store.folder, "--out", tmp_path / "R")
    assert done.code == 0, done.err
    other = plain_tokenizer(tmp_path / "t", words=33)
    strange = store_of(tmp_path / "s", other, random_documents(other, 20, 1))
    done = bertworks("pretrain", tmp_path / "r.toml", "--data", strange.folder, "--out", tmp_path / "R2")
    assert done.code == 1
    assert "another tokenizer" in done.err


def test_held_out_text(store: Store, tmp_path: Path) -> None:
    dev = store_of(tmp_path / "dev", store.tokenizer, random_documents(store.tokenizer, 30, 77))
    out = tmp_path / "R"
    done = bertworks(
        "pretrain", "roberta-mini", *SMALL, "budget.steps=4", "run.evaluate_every=2", "--data", store.folder, "--dev",
        dev.folder, "--out", out,
    )  # fmt: skip
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if "dev_loss" in row] == [2, 4]


@pytest.mark.parametrize("name", recipes.names())
def test_every_shipped_recipe_adds_up(name: str, store: Store) -> None:
    table = read_toml(recipes.path_of(name))
    assert recipes.about(name)
    recipe = Recipe.of(table)
    smaller = {key: value for key, value in table["model"].items() if key != "preset"}
    family = table["model"].get("preset", table["model"].get("architecture")).split("-")[0]
    sizes = {
        "hidden_size": 32,
        "heads": 2,
        "layers": 2,
        "intermediate_size": 64,
        "positions": recipe.settings.batch.length + 2,
    }
    recipe = Recipe.of(table | {"model": smaller | {"architecture": family} | sizes})
    assert make_model(recipe, store).model is not None


def test_recipes_are_listed_and_printed(tmp_path: Path) -> None:
    done = bertworks("recipes")
    assert all(name in done.out for name in recipes.names())
    done = bertworks("recipes", "roberta-base")
    assert "lr = 6e-4" in done.out
    assert bertworks("recipes", "roberta-base", "--json").json()["optimizer"]["lr"] == 6e-4
    done = bertworks("recipes", "robert")
    assert done.code == 1
    assert "did you mean" in done.err
