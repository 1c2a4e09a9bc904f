"""finetune, evaluate, predict and suite as a person uses them; and what a bad file is told."""

from __future__ import annotations

import csv
import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

import bertworks as package
from bertworks import recipes
from bertworks.config import read_toml, to_toml
from bertworks.tasks import batches
from bertworks.tasks.recipe import TuningRecipe

from ..shell import bertworks
from ..tasks.tuning import chosen, graded, lines, several_labels, small_model, two_labels
from ..train.runs import tiny_store

QUICK = ["batch.size=16", "optimizer.lr=4e-3", "budget.steps=60", "run.precision=fp32"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("start"), dropout=0.1)


@pytest.fixture(scope="module")
def run(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, its files beside it."""
    folder = tmp_path_factory.mktemp("tuned")
    lines(folder / "train.jsonl", two_labels(300, 0))
    lines(folder / "dev.jsonl", two_labels(150, 1))
    done = bertworks(
        "finetune", "classify", *QUICK, "--model", model, "--train", folder / "train.jsonl",
        "--dev", folder / "dev.jsonl", "--out", folder / "run", "--json",
    )  # fmt: skip
    value = done.json()
    assert value["metrics"]["accuracy"] > 0.95
    assert value["outcome"] == "finished"
    assert value["examples"] == 150
    return folder / "run"


def test_a_run_holds_what_is_promised(run: Path) -> None:
    assert (run / "recipe.toml").read_text().startswith("[task]\nname = ")
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(1, 61))
    assert {"loss", "lr", "grad_norm", "tokens", "accuracy"} <= set(rows[0])
    assert 16 * 4 < rows[0]["tokens"] < 16 * 20  # without padding
    card = (run / "README.md").read_text()
    assert "accuracy" in card
    assert "majority" in card
    assert "<html" in (run / "report.html").read_text()
    task = json.loads((run / "model" / "task.json").read_text())
    assert task["task"] == "classify"
    assert task["labels"] == ["is cat", "is dog"]
    config = json.loads((run / "model" / "config.json").read_text())
    assert config["id2label"] == {"0": "is cat", "1": "is dog"}
    assert config["problem_type"] == "single_label_classification"


def test_one_answer_everywhere(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python, the command line and evaluation; any batch, any order."""
    dev = run.parent / "dev.jsonl"
    rows = [json.loads(line) for line in dev.read_text().splitlines()]
    said = bertworks("predict", run, dev, "--dtype", "fp32").out.splitlines()
    ours = [json.loads(line) for line in said]
    assert [{key: one[key] for key in ("text", "label")} for one in ours] == rows
    predictor = package.load(run, dtype="fp32")
    texts = [row["text"] for row in rows]
    wanted = table(predictor.predict(texts))
    assert np.abs(table([one["prediction"] for one in ours]) - wanted).max() < 1e-7
    order = np.random.default_rng(0).permutation(len(texts))
    assert np.abs(table(predictor.predict([texts[at] for at in order])) - wanted[order]).max() < 1e-5
    single = [predictor.predict(text)[0] for text in texts[:20]]
    assert np.abs(table(single) - wanted[:20]).max() < 1e-5
    monkeypatch.setattr(batches.to_predict, "__defaults__", (64, 3))
    assert np.abs(table(predictor.predict(texts)) - wanted).max() < 1e-5
    monkeypatch.undo()
    value = bertworks("evaluate", run, "--data", dev, "--json", "--dtype", "fp32").json()
    right = np.mean([one["label"] == row["label"] for one, row in zip(predictor.predict(texts), rows, strict=True)])
    assert value["metrics"]["accuracy"] == pytest.approx(right)
    gold = np.array([row["label"] == "is dog" for row in rows]).astype(int)
    assert value["metrics"]["log_loss"] == pytest.approx(-np.log(wanted[np.arange(len(gold)), gold]).mean(), abs=1e-6)
    assert value["intervals"]["accuracy"][0] <= right
    assert value["baselines"]["chance"]["accuracy"] == 0.5


def table(predictions: list[dict[str, Any]]) -> np.ndarray:
    return np.array([list(one["scores"].values()) for one in predictions])


def test_what_was_measured_is_measured_again(run: Path) -> None:
    kept = json.loads((run / "result.json").read_text())["metrics"]
    again = bertworks("evaluate", run, "--data", run.parent / "dev.jsonl", "--json").json()["metrics"]
    assert again == pytest.approx(kept, abs=1e-9)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_predictions_in_files(run: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole, in order; interrupted and gone on with, the same."""
    from bertworks.commands import predict

    monkeypatch.setattr(predict, "CHUNK", 40)
    dev = run.parent / "dev.jsonl"
    whole, parts = tmp_path / f"whole.{kind}", tmp_path / f"parts.{kind}"
    assert bertworks("predict", run, dev, "--out", whole, "--json").json()["count"] == 150
    broken = tmp_path / "dev.jsonl"
    text = dev.read_text()
    broken.write_text("\n".join([*text.splitlines()[:90], "{nonsense"]))
    done = bertworks("predict", run, broken, "--out", parts)
    assert done.code == 1
    assert "dev.jsonl:91" in done.err
    assert not parts.exists()
    broken.write_text(text)
    assert bertworks("predict", run, broken, "--out", parts, "--resume", "--json").json()["count"] == 150
    assert read(whole) == read(parts)
    assert len(read(whole)) == 150
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    again = bertworks("predict", run, broken, "--out", parts, "--resume", "--json").json()
    assert (again["count"], again["already"]) == (150, True)


def read(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    return pq.read_table(path).to_pylist()


def test_from_a_pipe(run: Path) -> None:
    done = bertworks("predict", run, stdin="the cat\nthe dog\n")
    assert [json.loads(line)["prediction"]["label"] for line in done.out.splitlines()] == ["is cat", "is dog"]
    value = bertworks("predict", run, "-", "--json", stdin='{"text": "a cat"}\n').json()
    assert value["predictions"][0]["prediction"]["label"] == "is cat"


@pytest.mark.parametrize(
    ("name", "rows", "figure"),
    [("classify", several_labels, "f1_micro"), ("regress", graded, "spearman"), ("choose", chosen, "accuracy")],
)
def test_the_other_tasks(model: Path, tmp_path: Path, name: str, rows: Any, figure: str) -> None:
    train, dev = lines(tmp_path / "train.jsonl", rows(200, 0)), lines(tmp_path / "dev.jsonl", rows(60, 1))
    done = bertworks("finetune", name, *QUICK, "--model", model, "--train", train, "--dev", dev, "--out",
                     tmp_path / "run", "--json")  # fmt: skip
    value = done.json()
    again = bertworks("evaluate", tmp_path / "run", "--data", dev, "--json", "--report", tmp_path / "r.html").json()
    assert again["metrics"][figure] == pytest.approx(value["metrics"][figure])
    assert "<html" in (tmp_path / "r.html").read_text()
    assert len(bertworks("predict", tmp_path / "run", dev).out.splitlines()) == 60
    assert bertworks("evaluate", tmp_path / "run", "--data", dev).code == 0


def test_killed_and_gone_on_with(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped in the middle, resumed: the very weights and figures of a run that was not."""
    train, dev = lines(tmp_path / "train.jsonl", two_labels(100, 0)), lines(tmp_path / "dev.jsonl", two_labels(50, 1))

    def begin(out: str, *more: str) -> Any:
        return bertworks(
            "finetune", "classify", *QUICK, "budget.steps=30", "run.evaluate_every=7", "task.lora=2", "--model", model,
            "--train", train, "--dev", dev, "--out", tmp_path / out, "--json", *more,
        )  # fmt: skip

    whole = begin("whole").json()
    from bertworks.train.loop import Loop

    step = Loop._step

    def dying(loop: Loop) -> Any:
        if loop.state.step == 12:  # a look at 14 comes again, and the best may be before the checkpoint
            loop.save(wait=True)
        if loop.state.step == 17:
            raise KeyboardInterrupt
        return step(loop)

    monkeypatch.setattr(Loop, "_step", dying)
    assert begin("parts").code == 130
    monkeypatch.undo()
    assert begin("parts").code == 1  # it is there already
    parts = begin("parts", "--resume").json()
    assert parts["metrics"] == whole["metrics"]
    one, two = (load_file(tmp_path / out / "model" / "model.safetensors") for out in ("whole", "parts"))
    assert all(torch.equal(one[name], two[name]) for name in one)
    steps = [json.loads(line)["step"] for line in (tmp_path / "parts" / "metrics.jsonl").read_text().splitlines()]
    assert [at for at in steps if at] == sorted(steps)
    again = begin("parts", "--resume").json()
    assert again["already"]
    assert again["metrics"] == whole["metrics"]
    lines(train, two_labels(100, 5))
    done = begin("parts", "--resume")
    assert done.code == 1
    assert "--train" in done.err


def test_seeds_and_folds(model: Path, tmp_path: Path) -> None:
    train = lines(tmp_path / "train.jsonl", two_labels(90, 0))
    short = [*QUICK, "budget.steps=15"]
    done = bertworks("finetune", "classify", *short, "task.seeds=[1,2]", "--model", model, "--train", train, "--out",
                     tmp_path / "seeds", "--json")  # fmt: skip
    value = done.json()
    assert "no --dev" in done.err
    runs = [one["accuracy"] for one in value["runs"].values()]
    assert value["metrics"]["accuracy"] == pytest.approx(np.mean(runs))
    assert list(value["runs"]) == ["seed-1", "seed-2"]
    done = bertworks("finetune", "classify", *short, "task.folds=3", "--model", model, "--train", train, "--out",
                     tmp_path / "folds")  # fmt: skip
    assert "mean of 3 runs" in done.out
    assert "90 rows" in done.out
    assert json.loads(bertworks("predict", tmp_path / "folds", stdin="the cat\n").out)["prediction"]["label"]


def test_a_search_keeps_the_best(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    train = lines(tmp_path / "train.jsonl", two_labels(60, 0))
    done = bertworks("finetune", "classify", *QUICK, "--search", 2, "--model", model, "--train", train, "--out",
                     tmp_path / "run")  # fmt: skip
    assert done.code == 0, done.err
    assert "trial 2 of 2" in done.err


def test_a_suite_is_one_table(model: Path, tmp_path: Path) -> None:
    for name, rows in (("cats", two_labels), ("numbers", graded), ("where", chosen)):
        (tmp_path / "tasks" / name).mkdir(parents=True)
        lines(tmp_path / "tasks" / name / "train.jsonl", rows(64, 0))
        lines(tmp_path / "tasks" / name / "dev.jsonl", rows(32, 1))
    (tmp_path / "tasks" / "cats" / "task.toml").write_text('[task]\nname = "classify"\nmetric = "matthews"\n')
    arguments = ["suite", tmp_path / "tasks", *QUICK, "budget.steps=40", "--model", model, "--out", tmp_path / "out"]
    done = bertworks(*arguments)
    assert done.code == 0, done.err
    rows = done.out.splitlines()
    assert [row.split()[0] for row in rows[1:5]] == ["cats", "numbers", "where", "mean"]
    assert "Matthews" in rows[1]
    value = bertworks(*arguments, "--resume", "--json").json()
    assert [one["task"] for one in value["tasks"]] == ["classify", "regress", "choose"]
    assert all(one["already"] for one in value["tasks"])
    assert value["mean"] == pytest.approx(np.mean([one["metrics"][one["figure"]] for one in value["tasks"]]))


GOOD = [{"text": f"the cat {at}", "label": "ab"[at % 2]} for at in range(20)]


@pytest.mark.parametrize(
    ("train", "dev", "options", "said"),
    [
        ([{"zzz": "x", "label": "a"}], GOOD, [], "train.jsonl: no column 'text'"),
        ([{**row, "label": "a"} for row in GOOD], GOOD, [], "every row has the label 'a'"),
        (GOOD, [], [], "dev.jsonl: no rows"),
        (GOOD, [*GOOD, {"text": "x", "label": "c"}], [], "dev.jsonl:21: the label 'c'"),
        ([*GOOD, {"text": "x"}], GOOD, [], "train.jsonl:21"),
        (GOOD, GOOD, ["data.text=txt"], "no column 'txt'"),
        (GOOD, GOOD, ["batch.length=900"], "batch.length is 900"),
        (GOOD, GOOD, ["task.focall=1"], "task.focall"),
        (GOOD, GOOD, ["optimiser.lr=1"], "no section optimiser"),
        (GOOD, GOOD, ["task.name=clasify"], "did you mean 'classify'"),
    ],
)
def test_bad_data_is_told(model: Path, tmp_path: Path, train: Any, dev: Any, options: list[str], said: str) -> None:
    done = bertworks(
        "finetune", "classify", *QUICK, *options, "--model", model, "--train", lines(tmp_path / "train.jsonl", train),
        "--dev", lines(tmp_path / "dev.jsonl", dev), "--out", tmp_path / "run",
    )  # fmt: skip
    assert done.code == 1
    assert said in done.err
    assert len(done.err.strip().splitlines()) <= 4


def test_misuse_is_told(run: Path, model: Path, tmp_path: Path) -> None:
    for arguments, code, said in (
        (["predict", model, "-"], 1, "was not fine-tuned"),
        (["predict", run, "-", "--out", tmp_path / "x.jsonl", "--resume"], 2, "cannot be read again"),
        (["predict", run, run.parent / "dev.jsonl", "--out", tmp_path / "x.xml"], 1, "unknown kind"),
        (["evaluate", run, "--data", tmp_path / "none.csv"], 1, "none.csv"),
        (["evaluate", run, "--data", run.parent / "dev.jsonl", "--report", "x.pdf"], 2, ".html"),
        (["suite", tmp_path, "--model", model], 1, "has no tasks"),
        (["finetune", "classify", "--model", model, "--train", "none.csv", "--out", tmp_path / "r"], 1, "none.csv"),
    ):
        done = bertworks(*arguments, stdin="x\n")
        assert done.code == code, (arguments, done.err)
        assert said in done.err


@pytest.mark.parametrize("name", [one for one in recipes.names() if "task" in read_toml(recipes.path_of(one))])
def test_every_shipped_recipe_is_understood(name: str) -> None:
    made = TuningRecipe.of(read_toml(recipes.path_of(name)))
    assert made.task.name == name
    assert TuningRecipe.of(tomllib.loads(to_toml(made.resolved()))) == made
    assert recipes.about(name)


def test_saved_elsewhere_it_predicts_the_same(run: Path, tmp_path: Path) -> None:
    predictor = package.load(run, dtype="fp32")
    predictor.save(tmp_path / "copy")
    assert package.load(tmp_path / "copy", dtype="fp32").predict("a dog") == predictor.predict("a dog")


def test_masked_words_of_a_store(tmp_path: Path) -> None:
    """A model that knows nothing loses about the logarithm of the vocabulary; the figure is the same every time."""
    store = tiny_store(tmp_path).folder
    sizes = ["model.hidden_size=32", "model.heads=2", "model.intermediate_size=64", "model.layers=2", "batch.length=48"]
    done = bertworks("pretrain", "bert-mini", *sizes, "batch.tokens=768", "budget.steps=1", "--data", store, "--out",
                     tmp_path / "run")  # fmt: skip
    assert done.code == 0, done.err
    value = bertworks("evaluate", tmp_path / "run", "--data", store, "--json", "--dtype", "fp32").json()
    size = json.loads((tmp_path / "run" / "model" / "config.json").read_text())["vocab_size"]
    assert value["metrics"]["loss"] == pytest.approx(np.log(size), abs=0.3)
    assert value["metrics"]["perplexity"] == pytest.approx(np.exp(value["metrics"]["loss"]))
    assert bertworks("evaluate", tmp_path / "run", "--data", store, "--json", "--dtype", "fp32").json() == value
    assert "rows of" in bertworks("evaluate", tmp_path / "run", "--data", store, "--length", 24).out
