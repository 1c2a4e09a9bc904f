"""`pretrain` and `recipes` by the command line: a run, its folder, going on, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from bertworks import recipes
from bertworks.config import read_toml
from bertworks.objectives.batches import Examples
from bertworks.objectives.published import PUBLISHED
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


def test_a_run_goes_on_from_a_run_with_the_stores_own_tokens(run: Path, store: Store, tmp_path: Path) -> None:
    import transformers

    (tmp_path / "r.toml").write_text(
        f'[model]\nfrom = "{run}"\n[objective]\npreset = "roberta"\n[batch]\nlength = 48\ntokens = 768\n'
        "[budget]\nsteps = 2\n"
    )
    other = plain_tokenizer(tmp_path / "t", words=120)
    strange = store_of(tmp_path / "s", other, random_documents(other, 20, 1))
    arguments = ["pretrain", tmp_path / "r.toml", "--data", strange.folder, "--out", tmp_path / "R"]
    done = bertworks(*arguments)
    assert done.code == 1
    assert "set model.vocabulary=store" in done.err
    done = bertworks(*arguments, "model.vocabulary=store")
    assert done.code == 0, done.err
    assert f"note: of {other.vocab_size} tokens, 105 are one of {run}'s, 0 made of several, " in done.err
    peer = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "R" / "model")
    assert peer.config.vocab_size == other.vocab_size
    assert (
        bertworks(*arguments[:4], "--out", tmp_path / "R", "--resume", "budget.steps=3", "--json").json()["steps"] == 3
    )
    card = (tmp_path / "R" / "README.md").read_text()
    assert f"| continued from | {run} |" in card
    done = bertworks(*arguments, "model.from=nobody/nothing", "--out", tmp_path / "R2", HF_HUB_OFFLINE="1")
    assert "nobody/nothing is no folder here, and HF_HUB_OFFLINE is set" in done.err


# -- several stores --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def law(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("mixed") / "law=2"
    return store_of(folder, store.tokenizer, random_documents(store.tokenizer, 40, 8))


def test_several_stores(store: Store, law: Store, tmp_path: Path) -> None:
    out = tmp_path / "R"
    constant = ["schedule.name=constant", "schedule.warmup=2"]  # whatever the budget
    arguments = ["pretrain", "bert-mini", *SMALL, *constant, "budget.steps=4", "--out", out]
    mixed = ["--data", f"{store.folder}=0.7", "--data", f"{law.folder}=0.3"]
    done = bertworks(*arguments, *mixed)
    assert done.code == 0, done.err
    facts = json.loads((out / "run.json").read_text())
    assert [one["store"] for one in facts["stores"]] == [store.identity, law.identity]
    assert [one["weight"] for one in facts["stores"]] == ["7/10", "3/10"]
    card = (out / "README.md").read_text()
    assert "| data | s at 70.0%, law=2 at 30.0% |" in card
    assert f"| documents | {store.documents + law.documents} |" in card
    more = ["pretrain", "bert-mini", "--out", out, "--resume", "budget.steps=6"]
    for other in (mixed[:2], mixed[2:] + mixed[:2], ["--data", store.folder, "--data", law.folder]):
        done = bertworks(*more, *other)
        assert done.code == 1
        assert "not the stores and weights" in done.err
        assert f"--data {law.folder}=3/10" in done.err
    again = ["--data", f"{store.folder}=7/10", "--data", f"{law.folder}=3/10"]  # as the error says it
    assert bertworks(*more, *again, "--json").json()["steps"] == 6
    straight = tmp_path / "S"
    assert bertworks(*arguments[:-3], "budget.steps=6", *mixed, "--out", straight).code == 0
    ours, theirs = ((one / "model" / "model.safetensors").read_bytes() for one in (out, straight))
    assert ours == theirs


def test_stores_as_they_come(store: Store, law: Store, tmp_path: Path) -> None:
    """Without weights an epoch is once through all of them; a folder whose name has a = in it is a folder."""
    arguments = ["pretrain", "roberta-mini", *SMALL, "budget.epochs=1", "--out", tmp_path / "R", "--json"]
    value = bertworks(*arguments, "--data", store.folder, "--data", law.folder).json()
    one, two = (Examples(each, PUBLISHED["roberta"], 48, say=lambda _: None).count(0) for each in (store, law))
    assert (value["steps"] - 1) * 16 < one + two <= value["steps"] * 16
    done = bertworks(*arguments[:-3], "--out", tmp_path / "E", BERTWORKS_PRETRAIN_DATA=f"{store.folder}:{law.folder}")
    assert done.code == 0, done.err


def test_stores_that_do_not_go_together(store: Store, law: Store, tmp_path: Path) -> None:
    other = plain_tokenizer(tmp_path / "t", words=33)
    strange = store_of(tmp_path / "s", other, random_documents(other, 20, 1))
    for data, code, said in (
        ([store.folder, strange.folder], 1, "another tokenizer"),
        ([store.folder, store.folder], 1, "given twice"),
        ([f"{store.folder}=2", law.folder], 2, "has no weight and others have"),
        ([f"{store.folder}=0", f"{law.folder}=1"], 2, "'0' is not a weight"),
        ([f"{store.folder}=much"], 2, "'much' is not a weight"),
        ([f"{tmp_path}/nothing=2"], 1, "is not a store"),
    ):
        options = [word for one in data for word in ("--data", one)]
        done = bertworks("pretrain", "bert-mini", *SMALL, *options, "--out", tmp_path / "R")
        assert done.code == code, done.err
        assert said in done.err
        assert not (tmp_path / "R").exists()


# -- what it shows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("learns", [True, False])
def test_a_model_that_stays_at_word_frequencies_is_warned_of(learns: bool, tmp_path: Path) -> None:
    """Every sentence repeats one word of four hundred: easily learnt, unless the rate is next to nothing."""
    tokenizer = plain_tokenizer(tmp_path / "t", words=400, pieces=1)
    store = store_of(tmp_path / "s", tokenizer, [[[5 + at] * 14] for at in range(400)] * 3)
    rate = 5e-3 if learns else 1e-7
    done = bertworks(
        "pretrain", "roberta-mini", "model.hidden_size=32", "model.heads=2", "model.intermediate_size=64",
        "model.layers=1", "batch.length=16", "batch.tokens=256", "budget.steps=560", f"optimizer.lr={rate}",
        "schedule.name=constant", "--data", store.folder, "--out", tmp_path / "R",
    )  # fmt: skip
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in (tmp_path / "R" / "metrics.jsonl").read_text().splitlines()]
    losses = [row["loss"] for row in rows if "loss" in row]
    assert (losses[-1] < 4) == learns
    warnings = [row["warning"] for row in rows if "warning" in row and "unigram entropy" in row["warning"]]
    assert [one.split(":")[0] for one in warnings] == ([] if learns else ["the loss sits at the unigram entropy 5.99"])
    assert ("unigram entropy 5.99" in done.err) != learns
    shares = [row["peak_share"] for row in rows if "loss" in row]
    assert 0 < sum(shares) / len(shares) < 1
    assert "% of peak" in done.err
    assert "word frequencies alone" in (tmp_path / "R" / "curve.svg").read_text()


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


@pytest.mark.parametrize("name", [one for one in recipes.names() if "task" not in read_toml(recipes.path_of(one))])
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
