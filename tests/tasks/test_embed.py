"""Vectors of texts: the losses beside sentence-transformers', whatever the microbatch; the folder; learning."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses as theirs

import bertworks
from bertworks.errors import ConfigError, InputError
from bertworks.models.folder import load_model
from bertworks.models.sentence import SentenceOptions, read_options, write_options
from bertworks.tasks.batches import FeatureLine, collated
from bertworks.tasks.data import Linked, Row, Table
from bertworks.tasks.embed import Compared, Embed
from bertworks.tasks.embed_losses import EmbedLoss, Whole, contrastive
from bertworks.tasks.predicting import outputs_of, predictions_of
from bertworks.tasks.recipe import Batching
from bertworks.tasks.task import read_settings, write_settings
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.comparing import in_two_passes
from bertworks.train.contract import Losses, Settings
from bertworks.train.loop import Loop
from bertworks.train.options import BudgetOptions, OptimizerOptions, RunOptions, ScheduleOptions
from bertworks.train.ranks import Ranks

from ..shell import bertworks as shell
from ..tiny import WORDS, tiny_folder
from ..train.runs import Silent

TEXTS = ["the cat sat on the mat", "a dog is running", "where is the station", "the old bridge", "short", "over there"]
CLOSE = ["cat on mat", "dog running through the park", "the near station", "a bridge is old", "much", "it is there"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("tiny") / "m", "bert")


def rows(negatives: int = 0, scored: bool = False, count: int = 6, even: bool = False) -> list[Row]:
    """even: all of one length, so a microbatch is padded like any other and dropout falls alike."""
    found: list[Row] = []
    for at in range(count):
        more = tuple(f"{WORDS[at]} {WORDS[at + 7 * k + 1]} it" for k in range(negatives))
        score = [0.0, 1.0, 2.5, 2.5, 4.0, 5.0][at] if scored else None
        found.append(
            Linked(
                file="f",
                line=at + 1,
                anchor=f"{WORDS[at]} {WORDS[at + 1]} it" if even else TEXTS[at],
                positive=f"{WORDS[at]} {WORDS[at + 2]} it" if even else CLOSE[at],
                negatives=more,
                score=score,
            )
        )  # fmt: skip
    return found


def table(some: list[Row]) -> Table:
    return Table("f", "embed", tuple(some), {})


def sentence_model(folder: Path, out: Path, task: Embed) -> SentenceTransformer:
    """A folder as a task leaves it, as sentence-transformers reads it."""
    predictor = bertworks.load(folder, heads=(), dtype="fp32")
    predictor.save(out)
    task.beside(out, predictor.description)
    return SentenceTransformer(str(out), device="cpu")


def ours(folder: Path, task: Embed, some: list[Row]) -> tuple[torch.nn.Module, Losses, list[torch.Tensor]]:
    model, _ = load_model(folder, (), dtype=torch.float32)
    features = task.features(some, Tokenizer.load(folder), True)
    batch = collated(features, np.arange(len(features)))
    loss = task.loss()
    made = loss(model, batch, loss.counts(batch), True)
    made.total.backward()
    return model, made, [one.grad for one in model.parameters() if one.grad is not None]


def peers(kind: str, model: SentenceTransformer, sizes: tuple[int, ...]) -> torch.nn.Module:
    ranking = theirs.MultipleNegativesRankingLoss
    loss: torch.nn.Module = {
        "contrastive": lambda: ranking(model),
        "symmetric": lambda: ranking(
            model, directions=("query_to_doc", "doc_to_query"), partition_mode="per_direction"
        ),
        "cosent": lambda: theirs.CoSENTLoss(model),
        "cosine": lambda: theirs.CosineSimilarityLoss(model),
    }[kind]()
    return theirs.MatryoshkaLoss(model, loss, list(sizes)) if sizes else loss


@pytest.mark.parametrize("kind", ["contrastive", "symmetric", "cosent", "cosine"])
@pytest.mark.parametrize("negatives", [0, 2])
@pytest.mark.parametrize("sizes", [(), (24, 16, 5)])
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_losses_equal_sentence_transformers(
    folder: Path, tmp_path: Path, kind: str, negatives: int, sizes: tuple[int, ...], pooling: Any
) -> None:
    scored = kind in ("cosent", "cosine")
    if scored and negatives:
        return
    some = rows(negatives, scored)
    given: dict[str, Any] = {"symmetric": True} if kind == "symmetric" else {"kind": kind}
    task = Embed(sizes=sizes[1:], pooling=pooling, **given).learning(table(some)).begun(32)
    _, made, slopes = ours(folder, task, some)
    other = sentence_model(folder, tmp_path / "m", task)
    columns = zip(*[(one.anchor, one.positive, *one.negatives) for one in some if isinstance(one, Linked)], strict=True)
    features = [other.preprocess(list(texts)) for texts in columns]
    labels = torch.tensor([one.score or 0.0 for one in some if isinstance(one, Linked)]) / 5
    other.eval()
    loss = peers(kind, other, sizes)(features, labels)
    assert float(made.total.detach()) == pytest.approx(float(loss.detach()), rel=1e-5)
    loss.backward()
    norm = math.sqrt(sum(float(one.grad.square().sum()) for one in other.parameters() if one.grad is not None))
    assert math.sqrt(sum(float(one.square().sum()) for one in slopes)) == pytest.approx(norm, rel=1e-4)


def marks_of(texts: list[list[str]]) -> torch.Tensor:
    numbers = {text: at for at, text in enumerate(dict.fromkeys(text for some in texts for text in some))}
    return torch.tensor([[role, numbers[text], 0] for some in texts for role, text in enumerate(some)]).double()


@pytest.mark.parametrize("symmetric", [False, True])
def test_what_says_the_same_is_no_negative(symmetric: bool) -> None:
    """A batch with twins gives each anchor the loss that it has without them."""

    def loss(texts: list[list[str]], vectors: dict[str, torch.Tensor]) -> float:
        stacked = torch.stack([vectors[text] for some in texts for text in some])
        return float(contrastive(Whole.of(stacked, marks_of(texts)), 20.0, symmetric)[0])

    vectors = {name: torch.randn(7) for name in "abcdefgh"}
    once = [["a", "b"], ["c", "d"], ["e", "f"]]
    assert loss(once * 2, vectors) == pytest.approx(loss(once, vectors), rel=1e-5)
    # Another positive of `a`, an anchor that is some other's positive, a negative that is a positive.
    alone = loss([["a", "b"]], vectors)
    assert alone == pytest.approx(0, abs=1e-6)
    assert loss([["a", "b"], ["a", "g"]], vectors) == pytest.approx(0, abs=1e-6)
    assert loss([["a", "b"], ["b", "a"]], vectors) == pytest.approx(0, abs=1e-6)
    assert loss([["a", "b", "b"]], vectors) == pytest.approx(0, abs=1e-6)
    assert loss([["a", "b", "h"]], vectors | {"h": vectors["a"]}) > 0.5


def test_texts_that_differ_in_case_and_space_are_the_same(folder: Path) -> None:
    task = Embed(kind="contrastive").begun(32)
    one = Linked(file="f", line=1, anchor="The  cat", positive="a dog")
    two = Linked(file="f", line=2, anchor="the cat", positive="it")
    marks = task.features([one, two], Tokenizer.load(folder), True).per_feature["marks"]
    assert marks[0, 1] == marks[2, 1]
    assert len(set(marks[:, 1])) == 3


# -- microbatches ------------------------------------------------------------------------------------------


def loop_of(folder: Path, run: Path, task: Embed, some: list[Row], microbatch: int, **more: Any) -> Loop:
    model, _ = load_model(folder, (), dtype=torch.float32)
    for part in model.modules() if more.get("steps") else ():
        if hasattr(part, "rate"):
            part.rate = 0.0
    features = task.features(some, Tokenizer.load(folder), True)
    size, steps, lr = more.get("size", 6), more.get("steps", 3), more.get("lr", 1e-2)
    settings = Settings(
        Batching(size, int(features.lengths.max()) * 2, microbatch, 0.0),
        OptimizerOptions(lr=lr),
        ScheduleOptions(warmup=0),
        BudgetOptions(steps=steps),
        RunOptions(compile="off", precision="fp32"),
    )
    watch = more.get("watch", Silent())
    line = FeatureLine(features, size, 0)
    return Loop(model, task.loss(), line, settings, run, dtype=torch.float32, watch=watch, say=watch.said.append)


@pytest.mark.parametrize("kind", ["contrastive", "cosent"])
def test_the_microbatch_changes_nothing(folder: Path, tmp_path: Path, kind: str) -> None:
    """Dropout is on here: both passes have to drop the same."""
    some = rows(1 if kind == "contrastive" else 0, kind == "cosent", even=True)
    task = Embed(sizes=(8,)).learning(table(some)).begun(32)
    told, ends = [], []
    for size in (6, 4, 1):
        watch = Silent()
        loop = loop_of(folder, tmp_path / str(size), task, some, size, watch=watch)
        assert any(getattr(part, "rate", 0) > 0 for part in loop.module.modules())
        loop.train()
        told.append([[row["loss"], row["grad_norm"]] for row in watch.rows])
        ends.append(torch.cat([one.detach().flatten() for one in loop.module.parameters()]))
    for other, end in zip(told[1:], ends[1:], strict=True):
        np.testing.assert_allclose(other, told[0], rtol=2e-3)
        assert (end - ends[0]).abs().mean() < 1e-4
    assert told[0][0][0] != pytest.approx(told[0][-1][0])


def test_out_of_memory_goes_on_with_the_same_loss(folder: Path, tmp_path: Path) -> None:
    some = rows(1, even=True)
    task = Embed().learning(table(some)).begun(32)
    plain, short = Silent(), Silent()
    loop_of(folder, tmp_path / "a", task, some, 6, watch=plain).train()
    loop = loop_of(folder, tmp_path / "b", task, some, 6, watch=short)
    forward = loop.module.forward

    def narrow(ids: torch.Tensor, **rest: Any) -> Any:
        if len(ids) > 9:
            raise MemoryError
        return forward(ids, **rest)

    loop.module.forward = narrow  # type: ignore[assignment]
    loop.train()
    assert any("out of memory" in said for said in short.said)
    for one, other in zip(plain.rows, short.rows, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-3)


class _OfTwo(Ranks):
    """One of two ranks, the other's rows told beforehand."""

    def joined_rows(self, own: torch.Tensor) -> tuple[torch.Tensor, int]:
        parts = [*STORE[own.dtype]]
        parts[self.rank] = own
        return torch.cat(parts), sum(map(len, parts[: self.rank]))


STORE: dict[torch.dtype, list[torch.Tensor]] = {}


def test_two_ranks_have_the_loss_of_one(folder: Path) -> None:
    some = rows(1)
    task = Embed().learning(table(some)).begun(32)
    _, whole, _ = ours(folder, task, some)
    model, _ = load_model(folder, (), dtype=torch.float32)
    features = task.features(some, Tokenizer.load(folder), True)
    halves = [collated(features, np.arange(0, 12)), collated(features, np.arange(12, 18))]
    loss = task.loss()
    assert isinstance(loss, EmbedLoss)
    with torch.no_grad():
        STORE[torch.float32] = [loss.vectors(model, half) for half in halves]
        STORE[torch.float64] = [loss.marks(half) for half in halves]
    told = 0.0
    for rank, half in enumerate(halves):
        second = in_two_passes(loss, model, [(half, 0)], True, lambda *_: None, _OfTwo(rank, 2))
        made = second(model, half, {}, True)
        made.total.backward()
        told += made.facts["loss"]
    assert told == pytest.approx(whole.facts["loss"], rel=1e-5)
    reference, _, slopes = ours(folder, task, some)
    for one, other in zip([p.grad for p in model.parameters() if p.grad is not None], slopes, strict=True):
        assert (one - other).abs().max() < 1e-5 * max(1.0, float(other.abs().max()))
    del reference


JOINING = """
import sys, torch
from bertworks.train.ranks import Ranks
rank, place = int(sys.argv[1]), sys.argv[2]
torch.distributed.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=2)
ranks = Ranks(rank, 2)
whole, first = ranks.joined_rows(torch.arange(3 - rank, dtype=torch.float64)[:, None] + 10 * rank)
print(whole[:, 0].tolist(), first)
ranks.leave()
"""


def test_rows_of_ranks_are_joined(tmp_path: Path) -> None:
    started = [
        subprocess.Popen([sys.executable, "-c", JOINING, str(rank), str(tmp_path / "m")], stdout=subprocess.PIPE)
        for rank in range(2)
    ]
    said = [one.communicate(timeout=60)[0].decode().strip() for one in started]
    assert said == ["[0.0, 1.0, 2.0, 10.0, 11.0] 0", "[0.0, 1.0, 2.0, 10.0, 11.0] 3"]


# -- the folder --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_folders_give_the_same_vectors_there(folder: Path, tmp_path: Path, pooling: Any, normalise: bool) -> None:
    task = Embed(pooling=pooling, normalise=normalise, prompt="the ", sizes=(16, 8)).begun(12)
    other = sentence_model(folder, tmp_path / "m", task)
    write_settings(tmp_path / "m", task)
    texts = [*TEXTS, *CLOSE, "the cat " * 9]
    mine = bertworks.load(tmp_path / "m", dtype="fp32").embed(texts)
    np.testing.assert_allclose(mine, other.encode(texts), atol=1e-5)
    assert read_options(tmp_path / "m") == task.options
    settings = read_settings(tmp_path / "m")
    assert settings is not None
    assert settings["sizes"] == [16, 8]
    assert Embed.from_settings(settings) == task
    small = SentenceTransformer(str(tmp_path / "m"), device="cpu", truncate_dim=8).encode(texts)
    np.testing.assert_allclose(mine[:, :8], small, atol=1e-5)


def test_options_follow_the_starting_model(tmp_path: Path) -> None:
    write_options(tmp_path, SentenceOptions("cls", True, 64, True, "query: "), 8)
    task = Embed().upon(tmp_path)
    assert (task.pooling, task.prompt, task.lowercase) == ("cls", "query: ", True)
    assert Embed(pooling="mean").upon(tmp_path).pooling == "mean"
    (tmp_path / "n").mkdir()
    assert Embed().upon(tmp_path / "n").pooling == "mean"
    assert json.loads((tmp_path / "sentence_bert_config.json").read_text())["max_seq_length"] == 64


# -- rows, figures -----------------------------------------------------------------------------------------


def test_predictions_are_cosines_whatever_the_batch(folder: Path, tmp_path: Path) -> None:
    some = rows(1)
    task = Embed().begun(32)
    model, tokenizer = load_model(folder, (), dtype=torch.float32)[0], Tokenizer.load(folder)
    found = predictions_of(task, model, tokenizer, some)
    turned = predictions_of(task, model, tokenizer, some[::-1])[::-1]
    alone = [predictions_of(task, model, tokenizer, [row])[0] for row in some]
    vectors = sentence_model(folder, tmp_path / "m", task).encode([*TEXTS, *CLOSE])
    for at in range(6):
        assert found[at]["score"] == pytest.approx(float(vectors[at] @ vectors[6 + at]), abs=1e-5)
        assert turned[at]["score"] == pytest.approx(found[at]["score"], abs=1e-6)
        assert alone[at]["score"] == pytest.approx(found[at]["score"], abs=1e-6)
    assert json.loads(json.dumps(found[0])) == found[0]


def told(vectors: list[list[list[float]]]) -> list[Any]:
    found = []
    for some in vectors:
        one = Compared(score=0.0)
        one.vectors = [np.array(vector, np.float32) for vector in some]
        found.append(one)
    return found


def test_retrieval_counts_an_anchor_once_with_all_its_positives() -> None:
    some: list[Row] = [
        Linked(file="f", line=1, anchor="a", positive="p"),
        Linked(file="f", line=2, anchor="a", positive="q"),
        Linked(file="f", line=3, anchor="b", positive="r", negatives=("s",)),
    ]
    near, far = [1.0, 0.0], [0.0, 1.0]
    made = told([[near, [1, 0.1]], [near, [1, 0.2]], [far, [0.1, 1], [0, 1]]])
    scores = Embed().score(some, made)
    assert scores.examples == 2
    assert scores.metrics["mrr"] == pytest.approx((1 + 1 / 2) / 2)
    assert scores.metrics["recall@1"] == pytest.approx((0.5 + 0) / 2)


def test_figures_of_smaller_sizes_stand_beside() -> None:
    some = rows(scored=True)
    made = told([[[1.0, at, 0.0], [1.0, 0.0, float(at % 2)]] for at in range(6)])
    metrics = Embed(sizes=(2,), scored=True).score(some, made).metrics
    assert metrics["spearman_2"] == pytest.approx(-1, abs=0.02)
    assert metrics["spearman"] != pytest.approx(metrics["spearman_2"])


def test_scores_are_stretched_where_cosines_cannot_reach_them(folder: Path) -> None:
    task = Embed(kind="cosine").learning(table(rows(scored=True))).begun(32)
    marks = task.features(rows(scored=True), Tokenizer.load(folder), True).per_feature["marks"]
    assert marks[::2, 2].tolist() == [0, 0.2, 0.5, 0.5, 0.8, 1]
    within: list[Row] = [
        Linked(file="f", line=at, anchor="a", positive="b", score=score) for at, score in enumerate([-0.5, 0.5])
    ]
    assert Embed().learning(table(within)).low == 0


@pytest.mark.parametrize(
    ("task", "some", "said"),
    [
        (Embed(), [*rows(scored=True), rows()[0]], "f:1: no score, which other rows have"),
        (Embed(kind="contrastive"), rows(scored=True), "does not learn from"),
        (Embed(kind="cosent"), rows(), "has no scores"),
        (Embed(), [rows(scored=True)[0]] * 3, "every row has the score 0"),
    ],
)
def test_what_cannot_be_learnt_is_said(task: Embed, some: list[Row], said: str) -> None:
    with pytest.raises((ConfigError, InputError), match=said):
        task.learning(table(some))


def test_recipes_that_make_no_sense() -> None:
    with pytest.raises(ConfigError, match="scale"):
        Embed.from_recipe({"scale": 0.0})
    with pytest.raises(ConfigError, match="symmetric"):
        Embed.from_recipe({"symmetric": True, "kind": "cosent"})
    with pytest.raises(ConfigError, match=r"task\.low"):
        Embed.from_recipe({"low": 1.0})


def test_a_size_beyond_the_model_is_an_error(folder: Path) -> None:
    with pytest.raises(ConfigError, match="the model's vectors are of 24"):
        ours(folder, Embed(sizes=(25,)).learning(table(rows())).begun(32), rows())


# -- learning ----------------------------------------------------------------------------------------------


def test_what_belongs_together_is_found_in_the_end(folder: Path, tmp_path: Path) -> None:
    """Words in pairs at random: nothing but learning tells which belong together."""
    words = [word for word in WORDS if len(word) > 2][:12]
    some: list[Row] = [
        Linked(file="f", line=at, anchor=f"{one} {one}", positive=f"it is {other}")
        for at, (one, other) in enumerate(zip(words[:6], words[6:], strict=True))
    ]
    task = Embed(symmetric=True, sizes=(8,)).learning(table(some)).begun(16)
    loop = loop_of(folder, tmp_path / "r", task, some, 3, steps=80, lr=3e-3)
    tokenizer = Tokenizer.load(folder)
    before = task.score(some, predictions_of(task, loop.module, tokenizer, some)).metrics
    loop.train()
    after = task.score(some, predictions_of(task, loop.module, tokenizer, some)).metrics
    assert before["mrr"] < 0.9
    assert after["mrr"] == after["mrr_8"] == after["recall@1"] == 1.0


def test_scores_are_learnt_in_their_order(folder: Path, tmp_path: Path) -> None:
    some = rows(scored=True)
    task = Embed().learning(table(some)).begun(16)
    loop = loop_of(folder, tmp_path / "r", task, some, 6, steps=80, lr=3e-3)
    loop.train()
    features = task.features(some, Tokenizer.load(folder), False)
    found = task.decode(some, features, outputs_of(task, loop.module, features))
    assert task.score(some, found).metrics["spearman"] > 0.98
    assert task.judged_by == ("spearman", True)


def test_the_commands(folder: Path, tmp_path: Path) -> None:
    """Trained in microbatches, evaluated, predicted, embedded: figures and vectors agree."""
    texts = [{"text_a": TEXTS[at], "text_b": CLOSE[at], "score": at} for at in range(6)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in texts))
    changes = ("batch.size=6", "batch.microbatch=2", "batch.length=16", "task.sizes=[8]", "run.precision=fp32")
    files = ("--train", tmp_path / "a.jsonl", "--dev", tmp_path / "a.jsonl", "--out", tmp_path / "r")
    value = shell("finetune", "embed", "--model", folder, *files, *changes, "budget.epochs=2", "--json").json()
    assert value["headline"] == "spearman"
    metrics = shell("evaluate", tmp_path / "r", "--data", tmp_path / "a.jsonl", "--json").json()["metrics"]
    assert metrics["spearman"] == pytest.approx(value["metrics"]["spearman"], abs=1e-6)
    assert "spearman_8" in metrics
    said = shell("predict", tmp_path / "r", tmp_path / "a.jsonl", "--dtype", "fp32").out.splitlines()
    vectors = bertworks.load(tmp_path / "r", dtype="fp32").embed([*TEXTS, *CLOSE])
    for at, line in enumerate(said):
        assert json.loads(line)["prediction"]["score"] == pytest.approx(float(vectors[at] @ vectors[6 + at]), abs=1e-5)


def test_a_sentence_encoder_is_evaluated_as_it_is(minilm: Path, tmp_path: Path) -> None:
    texts = [{"text_a": TEXTS[at], "text_b": CLOSE[at], "score": at} for at in range(6)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in texts))
    metrics = shell("evaluate", minilm, "--data", tmp_path / "a.jsonl", "--json", "--dtype", "fp32").json()["metrics"]
    model = SentenceTransformer(str(minilm), device="cpu")
    cosines = (model.encode(TEXTS) * model.encode(CLOSE)).sum(1)
    assert metrics["pearson"] == pytest.approx(float(np.corrcoef(cosines, range(6))[0, 1]), abs=1e-5)
