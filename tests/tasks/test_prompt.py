"""Blanks: patterns that are never cut, words of several tokens, beside transformers' own masked-LM heads; learning."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.errors import BertworksWarning, ConfigError, InputError
from bertworks.models.folder import load_model
from bertworks.tasks.batches import FeatureLine, collated
from bertworks.tasks.data import Row, Table, Text
from bertworks.tasks.predicting import outputs_of, predictions_of
from bertworks.tasks.prompt import Prompt
from bertworks.tasks.prompt_pattern import Pattern, features_of, tokens_of, words_of
from bertworks.tasks.recipe import Batching
from bertworks.tasks.task import FILE
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.contract import Settings
from bertworks.train.loop import Loop
from bertworks.train.options import BudgetOptions, OptimizerOptions, RunOptions, ScheduleOptions

from ..shell import bertworks as shell
from ..tiny import tiny_folder, tiny_tokenizer
from ..train.runs import Silent

FAMILIES = ("bert", "roberta", "albert")
ENGLISH = "{text} It is [MASK]."
CHINESE = "很[MASK]，{text}"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("tiny")
    return {family: tiny_folder(base / family, family) for family in FAMILIES}


def row(text: str, label: str | None = None, text_b: str | None = None, line: int = 1) -> Text:
    return Text(file="f", line=line, text=text, text_b=text_b, labels=None if label is None else (label,))


def prompt(pattern: str = ENGLISH, words: tuple[str, ...] = ("0=old", "1=near"), **more: Any) -> Prompt:
    return Prompt(pattern=pattern, words=words, **more).begun(40)


# -- patterns ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"words": ["0=a", "1=b"]}, "task.pattern is missing"),
        ({"pattern": ENGLISH}, "task.words is missing"),
        ({"pattern": "It is good. {text}", "words": ["0=a", "1=b"]}, "has no blank"),
        ({"pattern": "[MASK] {text} [MASK]", "words": ["0=a", "1=b"]}, "has 2 blanks"),
        ({"pattern": "It is [MASK].", "words": ["0=a", "1=b"]}, "0 times {text}"),
        ({"pattern": "[MASK] {txt}", "words": ["0=a", "1=b"]}, "did you mean 'text'"),
        ({"pattern": ENGLISH, "words": ["0", "1=b"]}, "label=word"),
        ({"pattern": ENGLISH, "words": ["0=a"]}, "label '0' alone"),
        ({"pattern": ENGLISH, "words": ["0=a", "1=b"], "temperature": 2.0}, "task.temperature"),
    ],
)
def test_wrong_recipes_are_told(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Prompt.from_recipe(table)
    assert said in str(caught.value)


def test_words_in_a_table_are_listed() -> None:
    made = Prompt.from_recipe({"pattern": ENGLISH, "words": {"0": "old", "1": ["near", "over"]}})
    assert made.words == ("0=old", "1=near", "1=over")
    assert made.labels == ("0", "1")


def test_wrong_words_are_told() -> None:
    tokenizer = tiny_tokenizer("bert")
    for words, said in {
        ("0=old", "1=坏"): "'坏' of the label '1' is not in the model's vocabulary",
        ("0=old", "1=OLD"): "is the same to the model as 'old'",
    }.items():
        with pytest.raises(ConfigError, match=said):
            prompt(words=words).features([row("a dog")], tokenizer, False)


def test_labels_without_a_word_are_told() -> None:
    rows: list[Row] = [row("a", "0"), row("b", "2", line=7)]
    with pytest.raises(InputError, match="f:7: the label '2' has no word"):
        prompt().learning(Table("f", "classify", tuple(rows), {}))
    with pytest.raises(InputError, match="f:1: no text_b"):
        prompt("{text} [MASK] {text_b}").features([row("a")], tiny_tokenizer("bert"), False)
    with pytest.warns(BertworksWarning, match="second texts are not read"):
        prompt().learning(Table("f", "classify", (row("a", "0", "b"),), {}))


def test_a_model_without_the_head_is_told(minilm: Path, folders: dict[str, Path]) -> None:
    with pytest.warns(BertworksWarning, match="no trained masked-language-model head"):
        prompt().upon(minilm)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        prompt().upon(folders["bert"])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pattern", [ENGLISH, CHINESE, "{text} [MASK] {text_b}", "<mask>: {text}", "({text})[MASK]"])
@given(
    text=st.text("the cat 今天.?[MASK]ab ", max_size=90),
    other=st.text("on dog 气 ", max_size=60),
    length=st.integers(20, 44),
    masks=st.integers(1, 3),
)
@settings(max_examples=20, deadline=None)
def test_only_the_text_is_cut(family: str, pattern: str, text: str, other: str, length: int, masks: int) -> None:
    """What is left is the whole pattern with a beginning of each text, with the blank where it was."""
    tokenizer = TOKENIZERS[family]
    made = Pattern.of(pattern)
    one = row(text, text_b=other)
    found = features_of(made, [one], tokenizer, [masks], length)
    mask = tokenizer.mask_token or ""
    said, _ = made.filled(one, mask * masks)
    whole = tokenizer.encode(said).ids
    ids = found.ids.tolist()
    assert len(ids) == min(length, len(whole))
    assert found.cut == (len(whole) > length)
    blank = found.per_token["blank"]
    assert sorted(blank[blank >= 0].tolist()) == list(range(masks))
    assert all(ids[at] == tokenizer.mask_id for at in np.flatnonzero(blank >= 0))
    if len(whole) <= length:
        assert ids == whole
        return
    bare, _ = made.filled(row("", text_b=""), mask * masks)
    rest = [id for id in tokenizer.encode(bare).ids if id not in (ids[0], ids[-1])]
    assert _within([id for id in rest if id == tokenizer.mask_id], ids)
    assert _within(ids, whole)
    assert (ids[0], ids[-1]) == (whole[0], whole[-1])


TOKENIZERS = {family: tiny_tokenizer(family) for family in FAMILIES}


def _within(some: list[int], whole: list[int]) -> bool:
    """Whether `some` is what is left of `whole` when part of it is taken out."""
    rest = iter(whole)
    return all(any(one == other for other in rest) for one in some)


def test_pattern_stays_whole_around_a_long_text() -> None:
    tokenizer = TOKENIZERS["bert"]
    found = features_of(Pattern.of(ENGLISH), [row("cat dog mat " * 50), row("cat")], tokenizer, [2], 16)
    said = [tokenizer.token(id) for id in found.ids[:16]]
    assert said == ["[CLS]", *["cat", "dog", "mat"] * 3, "it", "is", "[MASK]", "[MASK]", ".", "[SEP]"][:16]
    assert found.cut == 1
    with pytest.raises(InputError, match="pattern takes 7 tokens itself, more than the 6"):
        features_of(Pattern.of(ENGLISH), [row("cat dog")], tokenizer, [2], 6)


def test_a_mask_in_the_text_is_not_the_blank() -> None:
    tokenizer = TOKENIZERS["bert"]
    found = features_of(Pattern.of("[MASK], {text}"), [row("the [MASK] sat [MASK]")], tokenizer, [1], 40)
    assert np.flatnonzero(found.per_token["blank"] == 0).tolist() == [1]
    assert (found.ids == tokenizer.mask_id).sum() == 3


@pytest.mark.parametrize("family", FAMILIES)
def test_words_are_the_tokens_that_would_stand_there(family: str) -> None:
    tokenizer = TOKENIZERS[family]
    pattern = Pattern.of(ENGLISH)
    words = words_of(["0=old", "1=the", "1=station"])
    for (_, word), ids in zip(words, tokens_of(pattern, words, tokenizer), strict=True):
        whole = tokenizer.encode(f" It is {word}.", specials=False).ids
        before = tokenizer.encode(" It is", specials=False).ids
        assert whole[len(before) : len(before) + len(ids)] == list(ids)
        assert len(whole) == len(before) + len(ids) + 1


# -- probabilities -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_probabilities_are_those_of_transformers(folders: dict[str, Path], family: str) -> None:
    """Words of one token and of several, one or more to a label, computed by hand with transformers' model."""
    folder = folders[family]
    task = prompt(
        words=("0=old", "0=mat", "1=zigzag", "2=天 气") if family == "bert" else ("0=old", "1=station bridge", "2=cat")
    )
    rows: list[Row] = [row("the cat sat on the mat", line=1), row("a dog", line=2)]
    model, tokenizer = load_model(folder, task.heads, dtype=torch.float32)[0], Tokenizer.load(folder)
    found = predictions_of(task, model, tokenizer, rows)
    peer = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    pairs = words_of(task.words)
    tokens = tokens_of(Pattern.of(task.pattern), pairs, tokenizer)
    assert len({len(ids) for ids in tokens}) > 1
    for one, said in zip(rows, found, strict=True):
        assert isinstance(one, Text)
        words: dict[str, list[float]] = {}
        for (label, _), ids in zip(pairs, tokens, strict=True):
            blank = (tokenizer.mask_token or "") * len(ids)
            encoded = tokenizer.encode(f"{one.text} It is {blank}.").ids
            with torch.no_grad():
                logs = peer(torch.tensor([encoded])).logits[0].log_softmax(-1)
            places = [at for at, id in enumerate(encoded) if id == tokenizer.mask_id]
            mean = np.mean([float(logs[at, id]) for at, id in zip(places, ids, strict=True)])
            words.setdefault(label, []).append(float(np.exp(mean)))
        means = {label: float(np.mean(some)) for label, some in words.items()}
        total = sum(means.values())
        assert said["scores"] == pytest.approx({label: mean / total for label, mean in means.items()}, abs=1e-5)
        assert said["label"] == max(means, key=lambda label: means[label])


def test_predictions_are_equal_whatever_the_batch(folders: dict[str, Path]) -> None:
    task = prompt(words=("0=old", "1=zigzag"), neutral=("", "the the"))
    rows: list[Row] = [row("the cat " * (at + 1), line=at) for at in range(7)]
    model, tokenizer = load_model(folders["bert"], task.heads, dtype=torch.float32)[0], Tokenizer.load(folders["bert"])
    whole = [one["scores"]["1"] for one in predictions_of(task, model, tokenizer, rows)]
    turned = [one["scores"]["1"] for one in predictions_of(task, model, tokenizer, rows[::-1])][::-1]
    alone = [predictions_of(task, model, tokenizer, [one])[0]["scores"]["1"] for one in rows]
    np.testing.assert_allclose(turned, whole, atol=1e-6)
    np.testing.assert_allclose(alone, whole, atol=1e-6)
    assert len({round(one, 4) for one in whole}) > 1


def test_a_neutral_text_says_nothing(folders: dict[str, Path]) -> None:
    """Where the text is the neutral one, all labels are alike; elsewhere the words' probabilities are divided."""
    plain, neutral = prompt(), prompt(neutral=("the dog",))
    rows: list[Row] = [row("the dog"), row("a cat sat", line=2)]
    model, tokenizer = load_model(folders["bert"], plain.heads, dtype=torch.float32)[0], Tokenizer.load(folders["bert"])
    before, after = (predictions_of(task, model, tokenizer, rows) for task in (plain, neutral))
    assert after[0]["scores"] == pytest.approx({"0": 0.5, "1": 0.5}, abs=1e-6)
    ratio = {name: before[1]["scores"][name] / before[0]["scores"][name] for name in "01"}
    total = sum(ratio.values())
    assert after[1]["scores"] == pytest.approx({name: one / total for name, one in ratio.items()}, abs=1e-5)


def test_balanced_takes_off_what_is_usual(folders: dict[str, Path]) -> None:
    """Without a look at the labels: they are nonsense here. What was fitted is kept, and then holds for any text."""
    task = prompt(balanced=True, calibrate=False)
    rows: list[Row] = [row("the cat " * at, str(at % 2), line=at) for at in range(1, 6)]
    model, tokenizer = load_model(folders["bert"], task.heads, dtype=torch.float32)[0], Tokenizer.load(folders["bert"])
    features = task.features(rows, tokenizer, False)
    outputs = outputs_of(task, model, features)
    made = task.fitted(rows, features, outputs)
    before = np.log([list(one["scores"].values()) for one in task.decode(rows, features, outputs)])
    after = np.log([list(one["scores"].values()) for one in made.decode(rows, features, outputs)])
    odds, other = (some[:, 1] - some[:, 0] for some in (before, after))
    np.testing.assert_allclose(other, odds - odds.mean(), atol=1e-9)
    kept = Prompt.from_settings(json.loads(json.dumps(made.settings())))
    assert predictions_of(kept, model, tokenizer, rows[:1]) == predictions_of(made, model, tokenizer, rows[:1])


def test_the_loss_is_cross_entropy_of_the_labels(folders: dict[str, Path]) -> None:
    task = prompt(words=("0=old", "0=mat", "1=zigzag"), neutral=("",))
    rows: list[Row] = [row("the cat", "0"), row("a dog is running", "1", line=2), row("short", "1", line=3)]
    model, tokenizer = load_model(folders["bert"], task.heads, dtype=torch.float32)[0], Tokenizer.load(folders["bert"])
    features = task.features(rows, tokenizer, True)
    loss, total = task.loss(), 0.0
    for places in (np.arange(0, 2), np.arange(2, 6)):
        total += loss(model, collated(features, places), {"units": 3}, True).facts["loss"]
    plain = prompt(words=task.words)
    said = [one["scores"] for one in predictions_of(plain, model, tokenizer, rows)]
    assert total == pytest.approx(-np.mean(np.log([said[0]["0"], said[1]["1"], said[2]["1"]])), abs=1e-5)


def test_a_folder_remembers(tmp_path: Path) -> None:
    task = prompt(words=("差=old", "好=near"), neutral=("无",), pattern=CHINESE)
    (tmp_path / FILE).write_text(json.dumps(task.settings()), encoding="utf8")
    assert Prompt.from_settings(json.loads((tmp_path / FILE).read_text(encoding="utf8"))) == task
    assert task.labels == ("差", "好")


# -- learning ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("0=old", "1=near"), ("no=zigzag", "no=old", "yes=it", "yes=near")])
def test_few_rows_are_learnt(folders: dict[str, Path], tmp_path: Path, words: tuple[str, ...]) -> None:
    """Whether a dog or a cat is in the text: unseen texts are told apart in the end, and were not before."""
    task = prompt(words=words)
    beasts = {task.labels[0]: "cat", task.labels[1]: "dog"}
    texts = [f"{one} {{}} {other}" for one in ("the", "where", "near", "over") for other in ("sat", "is", "on", "it")]
    rows: list[Row] = [row(one.format(beast), label) for one in texts for label, beast in beasts.items()]
    train, test = rows[:-2], rows[-2:]
    task = task.learning(Table("f", "classify", tuple(train), {}))
    folder = folders["bert"]
    model, tokenizer = load_model(folder, task.heads, dtype=torch.float32)[0], Tokenizer.load(folder)
    for part in model.modules():
        if hasattr(part, "rate"):
            part.rate = 0.0
    features = task.features(train, tokenizer, True)
    how = Settings(
        Batching(4, 40, 2, 0.0),
        OptimizerOptions(lr=1e-3),
        ScheduleOptions(warmup=0),
        BudgetOptions(epochs=8),
        RunOptions(compile="off", precision="fp32"),
    )
    watch = Silent()
    line = FeatureLine(features, 4, 0)
    loop = Loop(model, task.loss(), line, how, tmp_path / "r", dtype=torch.float32, watch=watch, say=watch.said.append)
    loop.train()
    held = task.features(test, tokenizer, False)
    outputs = outputs_of(task, model, held)
    found = task.decode(test, held, outputs)
    assert task.score(test, found).metrics["accuracy"] == 1.0
    assert task.fitted(test, held, outputs).temperature == 1.0  # too few rows to tell one
    many = test * 60
    held = task.features(many, tokenizer, False)
    outputs = outputs_of(task, model, held)
    warmer = task.fitted(many, held, outputs)
    assert [one["label"] for one in warmer.decode(many, held, outputs)] == [found[0]["label"], found[1]["label"]] * 60
    assert task.mistakes(test, found) == []


def test_the_commands(folders: dict[str, Path], tmp_path: Path) -> None:
    """Without training, the model's own answers, kept in a folder that predicts them again."""
    texts = [{"text": "the cat sat", "label": 0}, {"text": "a dog is there", "label": 1}] * 3
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in texts))
    files = ("--train", tmp_path / "a.jsonl", "--dev", tmp_path / "a.jsonl", "--out", tmp_path / "r")
    words = 'task.words=["0=old", "1=zigzag"]'
    value = shell("finetune", "prompt", "--model", folders["bert"], *files, words, "--json").json()
    assert value["steps"] == 0
    metrics = shell("evaluate", tmp_path / "r", "--data", tmp_path / "a.jsonl", "--json").json()["metrics"]
    assert metrics["accuracy"] == value["metrics"]["accuracy"]
    said = shell("predict", tmp_path / "r", tmp_path / "a.jsonl", "--dtype", "fp32").out.splitlines()
    task = Prompt.from_recipe({"pattern": "{text} It was [MASK].", "words": ["0=old", "1=zigzag"]}).begun(40)
    model, tokenizer = load_model(folders["bert"], task.heads, dtype=torch.float32)[0], Tokenizer.load(folders["bert"])
    for line, one in zip(
        said, predictions_of(task, model, tokenizer, [row(one["text"]) for one in texts]), strict=True
    ):
        assert json.loads(line)["prediction"]["scores"] == pytest.approx(one["scores"], abs=1e-5)
    done = shell(
        "finetune", "prompt", "--model", folders["bert"], *files[:-1], tmp_path / "s", 'task.words=["0=old","2=on"]'
    )
    assert done.code == 1
    assert "the label '1' has no word in task.words" in done.err
