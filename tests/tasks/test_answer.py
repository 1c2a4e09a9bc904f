"""Answering: the loss of transformers, offsets in odd texts, windows, n-best, no answer, and a made-up problem."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.errors import ConfigError, InputError
from bertworks.metrics import answering
from bertworks.tasks.answer import Answer
from bertworks.tasks.answer_spans import best_spans, in_context
from bertworks.tasks.batches import collated, inputs
from bertworks.tasks.data import Answer as Gold
from bertworks.tasks.data import Asked, Row, Table
from bertworks.tasks.features import Features
from bertworks.tasks.predicting import outputs_of
from bertworks.tasks.starting import starting_model, write_tuned
from bertworks.tasks.task import Output
from bertworks.text.tokenizer import Tokenizer

from ..tiny import tiny_folder
from .learning import learnt

ODD = [
    "A dog, the old cat; 今天天气很好。",
    "ＦＵＬＬ width ｄｏｇ ﬁne café cafe\u0301 İstanbul",
    "zero\u200bwidth \u00a0 no-break\u3000wide 👩‍👩‍👧 🇨🇳 flag",
    "tabs\tand\nlines\r\n\r\nand \ud800 half",
    "한국어 ไทย العربية हिन्दी ½ ㎏ ǅ ß",
]


def asked(question: str, context: str, *answers: tuple[int, int], line: int = 1) -> Asked:
    gold = tuple(Gold(context[start:end], start) for start, end in answers)
    return Asked(file="f", line=line, id=str(line), question=question, context=context, answers=gold)


def table(rows: list[Asked]) -> Table:
    return Table("f", "answer", tuple(rows), {})


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("answer")
    return {family: tiny_folder(root / family, family) for family in ("bert", "roberta", "albert")}


@pytest.fixture(scope="module")
def tokenizer(folders: dict[str, Path]) -> Tokenizer:
    return Tokenizer.load(folders["bert"])


def pointing(features: Features) -> list[Output]:
    """Outputs that point at the targets."""
    made = []
    for at in range(len(features)):
        scores = np.zeros((int(features.lengths[at]), 2), np.float32)
        scores[features.per_feature["starts"][at], 0] = 9
        scores[features.per_feature["ends"][at], 1] = 9
        made.append(scores)
    return made


# -- offsets -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["bert", "roberta", "albert"])
@pytest.mark.parametrize("context", ODD)
def test_answers_are_pieces_of_the_text_itself(folders: dict[str, Path], family: str, context: str) -> None:
    """Every stretch of words, taught and decoded again, is what it was, or lies around it or in it."""
    tokenizer = Tokenizer.load(folders[family])
    task = Answer(length=200, max_answer_length=150)
    edges = [at for at in range(len(context) + 1) if at in (0, len(context)) or " " in context[at - 1 : at + 1]]
    rows: list[Row] = []
    for start in edges:
        rows += [asked("where?", context, (start, end)) for end in edges if context[start:end].strip()]
    features = task.features(rows, tokenizer, True)
    exact = 0
    for row, one in zip(rows, task.decode(rows, features, pointing(features)), strict=True):
        gold = cast(Asked, row)
        wanted = cast(tuple[Gold, ...], gold.answers)[0].text.strip()
        assert one["answer"] == context[one["start"] : one["end"]]
        if one["no_answer"] < 0:
            assert wanted in one["answer"] or one["answer"] in wanted
            exact += one["answer"] == wanted
    assert exact >= len(rows) / 3


@given(st.text(max_size=40), st.integers(0, 39), st.integers(1, 40))
@settings(deadline=None, max_examples=150)
def test_any_text_gives_pieces_of_itself(context: str, start: int, size: int) -> None:
    tokenizer = _tokenizer()
    row = asked("where?", context, *([(start, start + size)] if context[start : start + size] else []))
    task = Answer(length=24, overlap=4)
    features = task.features([row], tokenizer, True)
    random = np.random.default_rng(0)
    outputs = [random.normal(size=(int(n), 2)).astype(np.float32) for n in features.lengths]
    for said in (outputs, pointing(features)):
        one = task.decode([row], features, said)[0]
        for answer in one["answers"]:
            assert answer["text"] == context[answer["start"] : answer["end"]]
            assert answer["text"] == answer["text"].strip() != ""
        shares = [answer["score"] for answer in one["answers"]]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) < 1 + 1e-9
        json.dumps(one)


def _tokenizer(kept: list[Tokenizer] = []) -> Tokenizer:  # noqa: B006 (made once, for hypothesis)
    from ..tiny import tiny_tokenizer

    if not kept:
        kept.append(tiny_tokenizer("bert"))
    return kept[0]


def test_targets_are_those_of_run_qa(folders: dict[str, Path]) -> None:
    """transformers' own way, feature by feature: windows, answers inside, across an edge and outside of them."""
    theirs = transformers.AutoTokenizer.from_pretrained(folders["bert"])
    tokenizer = Tokenizer.load(folders["bert"])
    words = [str(one) for one in np.random.default_rng(0).choice(["the", "cat", "zyx", "Park", "is"], 60)]
    context = " ".join(words)
    edges = np.cumsum([0, *(len(word) + 1 for word in words)])
    task = Answer(length=30, overlap=9)
    for first in range(0, 58, 3):
        span = (int(edges[first]), int(edges[first + 3] - 1))
        features = task.features([asked("where is it?", context, span)], tokenizer, True)
        found = theirs(
            "where is it?", context, truncation="only_second", max_length=30, stride=9,
            return_overflowing_tokens=True, return_offsets_mapping=True,
        )  # fmt: skip
        whole = len(found["input_ids"]) - 1  # the last window of ours is as long as the others
        for at in range(whole):
            assert features.ids[features.tokens_of(at)].tolist() == found["input_ids"][at]
            sequence, offsets = found.sequence_ids(at), found["offset_mapping"][at]
            low = sequence.index(1)
            high = len(sequence) - 1 - sequence[::-1].index(1)
            start, end = 0, 0
            if offsets[low][0] <= span[0] and offsets[high][1] >= span[1]:
                start = max(one for one in range(low, high + 1) if offsets[one][0] <= span[0])
                end = min(one for one in range(low, high + 1) if offsets[one][1] >= span[1])
            assert (features.per_feature["starts"][at], features.per_feature["ends"][at]) == (start, end)


@pytest.mark.parametrize("length", [24, 60])
def test_an_answer_anywhere_in_a_long_document_is_found(tokenizer: Tokenizer, length: int) -> None:
    filler = "the mat is near, it sat over there. 今天很好 "
    whole = (filler * 600)[:20_000]
    task = Answer(length=length, overlap=8)
    for place in (0, 1, 9_999, 19_999):
        at = place if place == 0 else whole.rfind(" ", 0, place) + 1
        context = whole[:at] + "Old  bridge " + whole[at:]
        row = asked("where is the dog?", context, (at, at + 11))
        features = task.features([row], tokenizer, True)
        assert (features.per_feature["starts"] > 0).sum() >= 1
        one = task.decode([row], features, pointing(features))[0]
        assert (one["answer"], one["start"], one["end"]) == ("Old  bridge", at, at + 11)


# -- decoding ----------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=40)
def test_the_best_spans_are_those_of_a_plain_loop(seed: int) -> None:
    random = np.random.default_rng(seed)
    tokenizer = _tokenizer()
    sizes = random.integers(1, 14, 5)
    pairs = [("where?", " ".join(random.choice(["the", "cat", "zz", "今"], n))) for n in sizes]
    task = Answer(length=14, overlap=3)
    features = task.features([asked(*pair) for pair in pairs], tokenizer, False)
    outputs = [random.normal(size=(int(n), 2)).astype(np.float32) for n in features.lengths]
    found = best_spans(features, outputs, 6, 4)
    context = in_context(features)
    for at, scores in enumerate(outputs):
        place = features.tokens_of(at)
        inside = np.flatnonzero(context[place])
        offsets = features.offsets[place]  # type: ignore[index]
        every = [
            (scores[one, 0] + scores[two, 1] - scores[0].sum(), offsets[one, 0], offsets[two, 1])
            for one in inside for two in inside if one <= two < one + 4
        ]  # fmt: skip
        best = sorted(every, key=lambda one: -one[0])[:6]
        there = np.isfinite(found.margins[at])
        assert there.sum() == len(best)
        assert found.margins[at][there] == pytest.approx([one[0] for one in best], abs=1e-5)
        assert found.starts[at][there].tolist() == [one[1] for one in best]
        assert found.ends[at][there].tolist() == [one[2] for one in best]


def test_windows_compete_by_what_is_above_no_answer(tokenizer: Tokenizer) -> None:
    task = Answer(length=16, overlap=2, no_answer=True)
    row = asked("where?", "the cat sat on the mat near the old bridge over there it is")
    features = task.features([row], tokenizer, False)
    assert len(features) >= 2
    outputs = [np.full((int(n), 2), -5, np.float32) for n in features.lengths]
    outputs[0][0] = 9  # sure that it is not here, however high another score stands
    outputs[0][5] = 8
    outputs[1][0] = 0
    outputs[1][5] = 1
    one = task.decode([row], features, outputs)[0]
    assert features.offsets is not None
    start, end = features.offsets[features.starts[1] + 5]
    assert (one["start"], one["end"]) == (start, end)
    assert one["no_answer"] == pytest.approx(-2)
    assert one["score"] == pytest.approx(np.e**2 / (np.e**2 + 1 + np.e**-2), abs=0.03)
    silent = replace(task, threshold=-3.0).decode([row], features, outputs)[0]
    assert (silent["answer"], silent["start"], silent["answers"]) == ("", None, one["answers"])
    sure = replace(task, threshold=-3.0, no_answer=False).decode([row], features, outputs)[0]
    assert sure["answer"] == one["answer"]


def test_1500_questions_are_decoded_in_seconds(tokenizer: Tokenizer) -> None:
    task = Answer(length=384)
    rows = [asked("where is the dog?", "the cat sat on it " * 55) for _ in range(1500)]
    features = task.features(rows, tokenizer, False)
    random = np.random.default_rng(0).normal(size=(len(features.ids), 2)).astype(np.float32)
    outputs = [random[features.tokens_of(at)] for at in range(len(features))]
    started = time.process_time()
    assert len(task.decode(rows, features, outputs)) == 1500
    assert time.process_time() - started < 15


def test_the_threshold_is_the_best_of_all(tokenizer: Tokenizer) -> None:
    """Tuned on held-out rows, and the figure is what score_answer says is best."""
    random = np.random.default_rng(5)
    rows: list[Row] = []
    for line in range(80):
        spans = [(4, 7)] if line % 3 else []
        rows.append(asked("where?", "the cat sat on the mat", *spans, line=line + 1))
    task = Answer(length=20, no_answer=True)
    features = task.features(rows, tokenizer, True)
    outputs = [
        one + random.normal(size=one.shape).astype(np.float32) * 4 + np.float32(3) * (np.arange(len(one)) == 0)[:, None]
        for one in pointing(features)
    ]
    tuned = task.fitted(rows, features, outputs)
    assert tuned.threshold != 0
    best = tuned.score(rows, tuned.decode(rows, features, outputs), resamples=5).metrics
    assert best["f1"] == pytest.approx(best["best_f1"], abs=1e-9)
    for threshold in np.linspace(-30, 30, 61):
        other = replace(task, threshold=float(threshold))
        predictions = other.decode(rows, features, outputs)
        assert other.score(rows, predictions, resamples=5).metrics["f1"] <= best["f1"] + 1e-9
        # What score does with scores is what predictions say.
        said = answering.answer_scores(
            [[one.text for one in cast(Asked, row).answers or ()] for row in rows],
            [one["answer"] for one in predictions],
        )
        assert other.score(rows, predictions, resamples=5).metrics["f1"] == pytest.approx(said[:, 1].mean())
    # Where nothing is right, nothing is said, however sure it seems.
    lost = [9 * np.repeat(np.arange(11)[:, None] == 9, 2, 1).astype(np.float32) for _ in rows]
    silent = task.fitted(rows, features, lost)
    assert not any(one["answer"] for one in silent.decode(rows, features, lost))
    assert task.fitted(rows[1:2], task.features(rows[1:2], tokenizer, False), outputs[1:2]).threshold == 0


# -- the loss ----------------------------------------------------------------------------------------------


def test_loss_and_gradients_are_those_of_transformers(tmp_path: Path) -> None:
    source = tiny_folder(tmp_path / "source", "bert")
    tokenizer = Tokenizer.load(source)
    task = Answer(length=24, overlap=4)
    model, description = starting_model(task, source, torch.Generator().manual_seed(0))
    write_tuned(tmp_path / "tuned", model, description, tokenizer, task)
    theirs = transformers.AutoModelForQuestionAnswering.from_pretrained(tmp_path / "tuned").eval()
    assert theirs.config.num_labels == 2
    context = "the cat sat on the old bridge over there near the park and a dog is running "
    rows = [
        asked("where is it?", context, (23, 29)),
        asked("is the dog running?", context),
        asked("cat?", context[:22]),
    ]
    features = task.features(rows, tokenizer, True)
    loss = task.loss()
    long = np.flatnonzero(features.lengths == 24)
    assert len(long) >= 2
    batch = collated(features, long)
    names = {"start_positions": "starts", "end_positions": "ends"}
    given = {name: torch.from_numpy(batch.per_feature[own]) for name, own in names.items()}
    segments = torch.from_numpy(cast(Any, batch.segments)).long()
    said = theirs(torch.from_numpy(batch.ids).long(), torch.from_numpy(batch.real).long(), segments, **given)
    found = loss(model, batch, loss.counts(batch), True)
    assert found.total.item() == pytest.approx(said.loss.item(), abs=1e-5)
    scores = model(**inputs(model, batch)).scores["answer"]
    assert torch.allclose(scores[..., 0], said.start_logits, atol=1e-5)
    assert torch.allclose(scores[..., 1], said.end_logits, atol=1e-5)
    said.loss.backward()
    for half in (long[:1], long[1:]):
        loss(model, collated(features, half), loss.counts(batch), False).total.backward()
    ours = model.heads["answer"].get_submodule("scores").weight.grad
    assert torch.allclose(ours, theirs.qa_outputs.weight.grad, atol=1e-5)
    tokens = cast(torch.Tensor, model.encoder.embeddings.tokens.weight.grad)
    assert torch.allclose(tokens, theirs.bert.embeddings.word_embeddings.weight.grad, atol=1e-5)
    # With padding: it takes no part, while transformers would share the probability with it.
    every = collated(features, np.arange(len(features)))
    assert not every.real.all()
    logits = theirs(
        torch.from_numpy(every.ids).long(),
        torch.from_numpy(every.real).long(),
        torch.from_numpy(cast(Any, every.segments)).long(),
    )
    total = 0.0
    for name, own in (("start_logits", "starts"), ("end_logits", "ends")):
        masked = logits[name].masked_fill(~torch.from_numpy(every.real), float("-inf"))
        total += torch.nn.functional.cross_entropy(masked, torch.from_numpy(every.per_feature[own])).item() / 2
    assert loss(model, every, loss.counts(every), False).total.item() == pytest.approx(total, abs=1e-5)


# -- learning ----------------------------------------------------------------------------------------------


def questions(count: int, seed: int, answerable: float = 1.0) -> list[Asked]:
    """The word behind the one that is asked for; none where that word does not stand there."""
    random = np.random.default_rng(seed)
    marks, things = ["cat", "dog", "station", "bridge"], ["park", "mat", "short", "old", "much"]
    rows = []
    for line in range(count):
        some = [str(one) for one in random.permutation(marks)[:3]]
        parts = [f"{mark} {random.choice(things)}" for mark in some]
        context = " the ".join(parts)
        has = random.random() < answerable
        mark = some[int(random.integers(3))] if has else next(one for one in marks if one not in some)
        at = context.find(mark) + len(mark) + 1
        end = context.find(" ", at) if " " in context[at:] else len(context)
        rows.append(asked(mark, context, *([(at, end)] if has else []), line=line + 1))
    return rows


def test_a_made_up_problem_is_learnt_whole(tmp_path: Path) -> None:
    source = tiny_folder(tmp_path / "source", "bert")
    tokenizer = Tokenizer.load(source)
    train, dev = questions(1000, 1, 0.7), questions(100, 2, 0.7)
    task = Answer().learning(table(train)).begun(40)
    assert (task.no_answer, task.max_answer_length) == (True, 30)
    model = learnt(task, source, train, tokenizer, steps=600, lr=3e-3)
    features = task.features(dev, tokenizer, False)
    outputs = outputs_of(task, model, features)
    task = task.fitted(dev, features, outputs)
    predictions = task.decode(dev, features, outputs)
    metrics = task.score(dev, predictions, resamples=10).metrics
    assert (metrics["exact"], metrics["f1"], metrics["no_answer_exact"]) == (1.0, 1.0, 1.0)
    assert not task.mistakes(dev, predictions)
    for rows in (dev[:1], dev[5:9], dev[::-1]):
        again = task.decode(rows, some := task.features(rows, tokenizer, False), outputs_of(task, model, some))
        for row, one in zip(rows, again, strict=True):
            before = predictions[dev.index(row)]
            assert (one["answer"], one["start"]) == (before["answer"], before["start"])
            assert one["score"] == pytest.approx(before["score"], abs=1e-5)
    told = json.loads(json.dumps(task.settings()))
    assert Answer.from_settings(told) == task


def test_rules_follow_the_data() -> None:
    english, chinese = asked("where?", "the cat", (0, 3)), asked("今天天气？", "今天很好", (0, 2))
    said = [{"answer": "cat", "score": 1.0, "no_answer": -1.0, "start": 4, "end": 7, "answers": [{"text": "cat"}]}]
    # The word `the` alone: SQuAD 1.1 drops it, and nothing is left to have in common.
    assert Answer().score([english], said, resamples=5).metrics["f1"] == 0
    own = [{**said[0], "answers": [{"text": "天"}]}]
    assert Answer().score([chinese], own, resamples=5).metrics["f1"] == pytest.approx(2 / 3)
    assert Answer(rule="squad").score([chinese], own, resamples=5).metrics["f1"] == 0


def test_long_answers_of_training_are_allowed_for() -> None:
    long = "今天天气很好" * 20
    rows = [asked("今天？", long, (0, size), line=size) for size in range(1, 101)]
    assert Answer().learning(table(rows)).max_answer_length == 99
    assert Answer(max_answer_length=12).learning(table(rows)).max_answer_length == 12
    assert Answer().learning(table([asked("where?", "the cat", (0, 3))])).max_answer_length == 30


def test_several_gold_answers_count_each(tokenizer: Tokenizer) -> None:
    row = asked("where?", "the old cat sat", (4, 7), (4, 11))
    task = Answer(length=20)
    one = {
        "answer": "old cat",
        "score": 0.9,
        "no_answer": -1.0,
        "start": 4,
        "end": 11,
        "answers": [{"text": "old cat"}],
    }
    assert task.score([row], [one], resamples=5).metrics["exact"] == 1
    assert task.features([row], tokenizer, True).per_feature["starts"].tolist() == [5]
    wrong = {**one, "answer": "sat", "start": 12, "end": 15, "answers": [{"text": "sat"}]}
    found = task.mistakes([row], [wrong])[0]
    assert (found.gold, found.predicted, found.text_b) == ("old / old cat", "sat", "where?")
    assert found.spans == ((4, 7, "gold", ""), (4, 11, "gold", ""), (12, 15, "predicted", ""))


def test_what_cannot_be_is_said(tokenizer: Tokenizer) -> None:
    with pytest.raises(ConfigError, match=r"task\.n_best is 0"):
        Answer(n_best=0)
    with pytest.raises(InputError, match="f: no question has an answer"):
        Answer().learning(table([asked("where?", "the cat")]))
    unasked = Asked(file="f", line=3, id="3", question="where?", context="the cat")
    with pytest.raises(InputError, match="f:3: no answers"):
        Answer(length=20).score([unasked], [{"answers": []}])
    said: list[str] = []
    Answer().require(table([asked("where?", "the cat", line=4)]), said.append)
    assert "f:4: no answer" in said[0]
    empty = Answer(length=20).features([asked("where?", "")], tokenizer, True)
    one = Answer(length=20).decode([asked("where?", "")], empty, pointing(empty))[0]
    assert (one["answer"], one["start"], one["answers"]) == ("", None, [])
