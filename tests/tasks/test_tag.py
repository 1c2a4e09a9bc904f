"""Tagging: the loss of transformers, windows, offsets, BIO, and a made-up language learnt whole."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from bertworks.errors import BertworksWarning, ConfigError, InputError
from bertworks.tasks.batches import collated, inputs
from bertworks.tasks.data import Entity, Row, Table, Tagged
from bertworks.tasks.data.tags import broken, entities
from bertworks.tasks.features import IGNORED, Features
from bertworks.tasks.predicting import outputs_of
from bertworks.tasks.starting import starting_model, write_tuned
from bertworks.tasks.tag import Tag
from bertworks.tasks.tag_path import Bio
from bertworks.tasks.tag_words import Words, carriers, cuts
from bertworks.tasks.task import Output, write_settings
from bertworks.text.tokenizer import Tokenizer

from ..tiny import tiny_folder
from .learning import learnt

PERSONS, PLACES = ("cat", "dog"), ("park", "station", "bridge")
NAMES = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")


def worded(tokens: str | list[str], tags: str | list[str] | None = None, line: int = 1) -> Tagged:
    words = tokens.split() if isinstance(tokens, str) else tokens
    given = tags.split() if isinstance(tags, str) else tags
    return Tagged(file="f", line=line, tokens=tuple(words), tags=None if given is None else tuple(given))


def raw(text: str, *spans: tuple[int, int, str], line: int = 1) -> Tagged:
    return Tagged(file="f", line=line, text=text, entities=tuple(Entity(*one) for one in spans))


def table(rows: list[Tagged]) -> Table:
    return Table("f", "tag", tuple(rows), {})


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("tag")
    return {family: tiny_folder(root / family, family) for family in ("bert", "roberta", "albert")}


@pytest.fixture(scope="module")
def tokenizer(folders: dict[str, Path]) -> Tokenizer:
    return Tokenizer.load(folders["bert"])


def sayings(task: Tag, features: Features, says: dict[int, str], labels: tuple[str, ...] = NAMES) -> list[Output]:
    """Outputs that give chosen tokens (by their id) a label, all others O."""
    table = np.zeros((len(features.ids), len(labels)), np.float32)
    table[:, labels.index("O")] = 3
    for at, label in says.items():
        table[features.ids == at, labels.index(label)] = 9
    assert task.labels == labels
    return [table[features.tokens_of(at)] for at in range(len(features))]


# -- words and characters ----------------------------------------------------------------------------------


@given(st.text(max_size=60))
@settings(deadline=None)
def test_words_of_a_text_are_its_characters_in_order(text: str) -> None:
    spans = list(cuts(text))
    assert all(start < end for start, end in spans)
    assert all(one[1] <= two[0] for one, two in itertools.pairwise(spans))
    left = list(text)
    for start, end in spans:
        left[start:end] = [" "] * (end - start)
    assert not "".join(left).strip()
    assert not any(any(char.isspace() for char in text[start:end]) for start, end in spans)


@given(st.text(alphabet=st.characters(codec="utf-8", categories=("L", "N", "P", "Z")), max_size=60))
@settings(deadline=None)
def test_a_text_is_cut_where_bert_cuts(text: str) -> None:
    from tokenizers import normalizers, pre_tokenizers

    clean = normalizers.BertNormalizer(handle_chinese_chars=True, strip_accents=False, lowercase=False)
    theirs = [word for word, _ in pre_tokenizers.BertPreTokenizer().pre_tokenize_str(clean.normalize_str(text))]
    assert [text[start:end] for start, end in cuts(text)] == theirs


def test_words_are_joined_as_they_are_written() -> None:
    words = Words.of(worded("Ann lives in 北 京 now ."))
    assert words.text == "Ann lives in 北京 now ."
    assert words.tokens == ["Ann", "lives", "in", "北", "京", "now", "."]
    assert words.items == ["Ann", " lives", " in", " 北", "京", " now", " ."]
    assert Words.of(raw("今天  in\nPark")).items == ["今", "天", " in", " Park"]


@pytest.mark.parametrize("family", ["bert", "roberta", "albert"])
@pytest.mark.parametrize("length", [90, 12])
def test_the_first_piece_of_each_word_speaks(folders: dict[str, Path], family: str, length: int) -> None:
    """Beside transformers' word_ids, which run_ner aligns labels by."""
    words = [
        "the",
        "cats",
        "sat",
        "zyx",
        "on",
        "a",
        "running",
        "bridge",
        "and",
        "今天",
        "wxyz",
        "?",
        "the",
        "old",
        "mat",
    ]
    theirs = transformers.AutoTokenizer.from_pretrained(
        folders[family], **({"add_prefix_space": True} if family == "roberta" else {})
    )
    tokenizer = Tokenizer.load(folders[family])
    row = worded(words, ["B-PER"] * len(words))
    task = Tag(labels=NAMES, length=length, overlap=4)
    features = task.features([row], tokenizer, True)
    assert (len(features) > 1) == (length == 12)
    places = carriers(features, [len(words)])
    known = places[places >= 0]
    if length == 90:
        found = theirs(words, is_split_into_words=True)
        first = [
            at for at, word in enumerate(found.word_ids()) if word is not None and word != found.word_ids()[at - 1]
        ]
        if family != "roberta":  # it puts a space before the very first word as well, which the text has not
            assert features.ids.tolist() == found["input_ids"]
        assert known.tolist() == first
    assert len(known) == len(words)
    assert (np.flatnonzero(features.per_token["tags"] != IGNORED) == np.sort(known)).all()
    whole = Tag(labels=NAMES, length=90).features([row], tokenizer, False)
    assert features.ids[known].tolist() == whole.ids[carriers(whole, [len(words)])].tolist()


def test_a_word_is_decided_where_most_is_around_it(tokenizer: Tokenizer) -> None:
    task = Tag(labels=NAMES, length=12, overlap=4)
    row = worded(" ".join(["the", "cat"] * 20))
    features = task.features([row], tokenizer, False)
    lengths = features.lengths
    places = carriers(features, [40])
    feature = np.searchsorted(features.starts, places, "right") - 1
    for word, place in enumerate(places):
        room = []
        for at in range(len(features)):
            tokens = np.flatnonzero(features.words[features.tokens_of(at)] == word)  # type: ignore[index]
            room += [(min(one, lengths[at] - 1 - one), at) for one in tokens]
        own = place - features.starts[feature[word]]
        assert min(own, lengths[feature[word]] - 1 - own) == max(room)[0]
    assert len(room) > 0


def test_words_that_become_nothing_are_told_and_outside(tokenizer: Tokenizer) -> None:
    task = Tag(labels=NAMES, length=20)
    row = worded(["\u200b", "cat", "\u200b", "the", "dog", "\ufeff"])
    with pytest.warns(BertworksWarning, match=r"f:1: the tokenizer makes nothing of '\\u200b' and 2 more words"):
        features = task.features([row], tokenizer, False)
    ids = {word: cast(int, tokenizer.id(word)) for word in ("cat", "the", "dog")}
    said = sayings(task, features, {ids["cat"]: "B-PER", ids["the"]: "I-PER"})
    found = task.decode([row], features, said)[0]
    assert found["tags"] == ["O", "B-PER", "I-PER", "I-PER", "O", "O"]
    with pytest.warns(BertworksWarning, match="makes nothing"):
        empty = task.features([worded(["\u200b"]), worded([]), worded("cat")], tokenizer, False)
    found = task.decode([worded(["\u200b"]), worded([]), worded("cat")], empty, sayings(task, empty, {}))
    assert [one["tags"] for one in found] == [["O"], [], ["O"]]


@pytest.mark.parametrize("length", [24, 40])
def test_an_entity_anywhere_in_a_long_document_is_found(tokenizer: Tokenizer, length: int) -> None:
    filler = "the mat is near, it sat over there. 今天很好 "
    task = Tag(labels=NAMES, length=length, overlap=8)
    first, second = (cast(int, tokenizer.id(word)) for word in ("old", "bridge"))
    whole = (filler * 600)[:20_000]
    for place in (0, 1, 9_999, 19_999):
        at = place if place == 0 else whole.rfind(" ", 0, place) + 1
        text = whole[:at] + "old  bridge " + whole[at:]
        features = task.features([raw(text)], tokenizer, False)
        found = task.decode([raw(text)], features, sayings(task, features, {first: "B-LOC", second: "I-LOC"}))
        told = [(one["start"], one["end"], one["label"], one["text"]) for one in found[0]["entities"]]
        assert told == [(at, at + 11, "LOC", "old  bridge")]
        assert text[at : at + 11] == "old  bridge"


def test_chinese_goes_by_characters(folders: dict[str, Path]) -> None:
    text = "今天天气很好 the"
    for family, folder in folders.items():
        tokenizer = Tokenizer.load(folder)
        task = Tag(labels=NAMES, length=40)
        rows: list[Row] = [raw(text, (2, 4, "LOC")), worded(list(text[:6]), "O O B-LOC I-LOC O O")]
        features = task.features(rows, tokenizer, True)
        gold = features.per_token["tags"]
        for at in range(2):
            tags = gold[features.tokens_of(at)]
            assert [NAMES[one] for one in tags[tags != IGNORED]][:6] == ["O", "O", "B-LOC", "I-LOC", "O", "O"], family
        outputs = [np.eye(5, dtype=np.float32)[np.maximum(gold, 0)][features.tokens_of(at)] for at in range(2)]
        for found in task.decode(rows, features, outputs):
            assert [(one["start"], one["end"], one["text"]) for one in found["entities"]] == [(2, 4, "天气")]


# -- tags --------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=60)
def test_the_path_is_the_best_that_bio_allows(seed: int) -> None:
    """Beside all paths, one by one."""
    random = np.random.default_rng(seed)
    bio = cast(Bio, Bio.of(NAMES))
    sizes = random.integers(0, 5, 4)
    scores = random.normal(size=(int(sizes.sum()), 5))
    edges = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    found = bio.best(scores, edges)
    for first, last in itertools.pairwise(edges):
        own = scores[first:last]
        paths = itertools.product(range(5), repeat=len(own))
        allowed = [path for path in paths if broken([NAMES[at] for at in path], "bio") is None]
        best = max(sum(own[at, one] for at, one in enumerate(path)) for path in allowed)
        mine = found[first:last]
        assert broken([NAMES[at] for at in mine], "bio") is None
        assert own[np.arange(len(own)), mine].sum() == pytest.approx(best)


def test_labels_of_other_schemes_are_left_alone(tokenizer: Tokenizer) -> None:
    assert Bio.of(("NN", "VB")) is None
    assert Bio.of(("O", "I-PER")) is None
    assert Bio.of(("O", "B-X", "I-X", "E-X", "S-X")) is None
    labels = ("O", "B-X", "I-X", "E-X", "S-X")
    task = Tag(labels=labels, length=20)
    row = worded("cat dog the old")
    features = task.features([row], tokenizer, False)
    ids = {cast(int, tokenizer.id(word)): tag for word, tag in (("cat", "B-X"), ("dog", "E-X"), ("old", "S-X"))}
    found = task.decode([row], features, sayings(task, features, ids, labels))[0]
    assert found["tags"] == ["B-X", "I-X", "O", "B-X"]


def test_other_schemes_are_learnt_as_bio(tokenizer: Tokenizer) -> None:
    bio = [worded("cat dog the", "B-A I-A O"), worded("cat", "B-A"), worded("a the dog", "O O B-A")]
    others = [worded("cat dog the", "B-A E-A O"), worded("cat", "S-A"), worded("a the dog", "O O S-A")]
    wanted, task = [], Tag(length=20)
    for rows in (bio, others):
        taught = task.learning(table(rows))
        wanted.append(taught.features(rows, tokenizer, True).per_token["tags"].tolist())
        assert taught.labels == ("O", "B-A", "I-A")
    assert wanted[0] == wanted[1]


def test_scores_are_seqevals(tokenizer: Tokenizer) -> None:
    from seqeval.metrics import f1_score, precision_score

    random = np.random.default_rng(3)
    rows = [worded("cat " * n, list(random.choice(NAMES, n))) for n in random.integers(1, 9, 50)]
    said = [{"tags": list(random.choice(NAMES, len(row.tokens or ())))} for row in rows]
    scores = Tag(labels=NAMES).score(rows, said, resamples=10)
    gold = [list(row.tags or ()) for row in rows]
    assert scores.metrics["f1"] == pytest.approx(f1_score(gold, [one["tags"] for one in said]), abs=1e-9)
    assert scores.metrics["precision"] == pytest.approx(precision_score(gold, [one["tags"] for one in said]), abs=1e-9)


def test_raw_texts_are_scored_by_their_characters() -> None:
    rows = [raw("iphone4 in 北京", (0, 6, "X"), (11, 13, "Y")), raw("none")]
    task = Tag(labels=("O", "B-X", "I-X", "B-Y", "I-Y"))

    def said(*spans: tuple[int, int, str]) -> dict[str, Any]:
        return {"entities": [{"start": start, "end": end, "label": label} for start, end, label in spans]}

    half = task.score(rows, [said((0, 7, "X"), (11, 13, "Y")), said()], resamples=10)
    assert half.metrics["precision"] == half.metrics["recall"] == 0.5
    wrong = task.mistakes(rows, [said((0, 7, "X"), (11, 13, "Y")), said()])
    assert [(one.gold, one.predicted) for one in wrong] == [("iphone (X)", "iphone4 (X)")]
    assert wrong[0].spans == ((0, 6, "gold", "X"), (0, 7, "predicted", "X"))
    assert task.score(rows, [said((0, 6, "X"), (11, 13, "Y")), said()], resamples=10).metrics["f1"] == 1


# -- the loss ----------------------------------------------------------------------------------------------


def test_loss_and_gradients_are_those_of_transformers(tmp_path: Path) -> None:
    """Padding and windows included, and the same in two microbatches."""
    source = tiny_folder(tmp_path / "source", "bert")
    task = Tag(labels=NAMES, length=16, overlap=4)
    tokenizer = Tokenizer.load(source)
    model, description = starting_model(task, source, torch.Generator().manual_seed(0))
    write_tuned(tmp_path / "tuned", model, description, tokenizer, task)
    theirs = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path / "tuned").eval()
    assert theirs.config.id2label == dict(enumerate(NAMES))
    rows = [
        worded("the cat is running " * 8, "O B-PER O O " * 8),
        worded("old bridge", "B-LOC I-LOC"),
        worded("it", "O"),
    ]
    features = task.features(rows, tokenizer, True)
    batch = collated(features, np.arange(len(features)))
    loss = task.loss()
    found = loss(model, batch, loss.counts(batch), True)
    ids = torch.from_numpy(batch.ids).long()
    said = theirs(ids, torch.from_numpy(batch.real).long(), labels=torch.from_numpy(batch.per_token["tags"]))
    assert found.total.item() == pytest.approx(said.loss.item(), abs=1e-5)
    logits = model(**inputs(model, batch)).scores["tag"]
    assert torch.allclose(logits[batch.real], said.logits[batch.real], atol=1e-5)
    cast(Any, said.loss).backward()
    halves = [collated(features, np.arange(2)), collated(features, np.arange(2, len(features)))]
    for half in halves:
        loss(model, half, loss.counts(batch), False).total.backward()
    assert found.facts["loss"] == pytest.approx(said.loss.item(), abs=1e-5)
    ours = model.heads["tag"].get_submodule("scores").weight.grad
    assert torch.allclose(ours, theirs.classifier.weight.grad, atol=1e-5)
    tokens = model.encoder.embeddings.tokens.weight.grad
    assert torch.allclose(tokens, theirs.bert.embeddings.word_embeddings.weight.grad, atol=1e-5)


def test_smoothing_is_torchs(tokenizer: Tokenizer) -> None:
    class Given(nn.Module):
        def forward(self, ids: torch.Tensor, real: torch.Tensor) -> Any:
            return type("Said", (), {"scores": {"tag": torch.sin(ids[..., None] * torch.arange(1, 6.0))}})

    class Held(Given):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Module()
            self.encoder.embeddings = nn.Module()
            self.weight = nn.Parameter(torch.zeros(1))

    row = worded("the cat sat", "O B-PER I-PER")
    plain = Tag(labels=NAMES, length=20)
    features = plain.features([row], tokenizer, True)
    batch = collated(features, np.arange(1))
    module = Held()
    scores = module(torch.from_numpy(batch.ids), torch.tensor(0)).scores["tag"][0]
    gold = torch.from_numpy(batch.per_token["tags"][0])
    for task, wanted in (
        (plain, nn.functional.cross_entropy(scores, gold)),
        (replace(plain, label_smoothing=0.2), nn.functional.cross_entropy(scores, gold, label_smoothing=0.2)),
    ):
        loss = task.loss()
        assert float(loss(module, batch, loss.counts(batch), False).total) == pytest.approx(float(wanted), abs=1e-6)
    focal = replace(plain, focal=2.0).loss()
    picked = scores[gold >= 0].softmax(-1)[torch.arange(3), gold[gold >= 0]]
    wanted = (-((1 - picked) ** 2) * picked.log()).mean()
    assert float(focal(module, batch, focal.counts(batch), False).total) == pytest.approx(float(wanted), abs=1e-6)


# -- learning ----------------------------------------------------------------------------------------------


def sentences(count: int, seed: int) -> list[Tagged]:
    """A person before `is`, a place after `near`; the same words elsewhere are nothing."""
    random = np.random.default_rng(seed)
    rows = []
    for line in range(count):
        one, two, three = (str(random.choice(PERSONS + PLACES)) for _ in range(3))
        size = int(random.integers(1, 3))
        words = ["the", one, "is", "near", *["old", two][-size:], "on", three]
        tags = ["O", "B-PER", "O", "O", *["B-LOC", "I-LOC"][:size], "O", "O"]
        rows.append(worded(words, tags, line + 1))
    return rows


def test_a_made_up_language_is_learnt_whole(tmp_path: Path) -> None:
    source = tiny_folder(tmp_path / "source", "bert")
    tokenizer = Tokenizer.load(source)
    train, dev = sentences(200, 1), sentences(60, 2)
    task = Tag().learning(table(train)).begun(40)
    assert task.labels == NAMES
    task.require(table(dev))
    model = learnt(task, source, train, tokenizer, steps=160, lr=5e-3)
    features = task.features(dev, tokenizer, False)
    outputs = outputs_of(task, model, features)
    predictions = task.decode(dev, features, outputs)
    assert task.score(dev, predictions, resamples=10).metrics["f1"] == 1.0
    assert not task.mistakes(dev, predictions)
    # Alone, in any company and in any order the same is said.
    for rows in (dev[:1], dev[5:9], dev[::-1]):
        again = task.decode(rows, some := task.features(rows, tokenizer, False), outputs_of(task, model, some))
        for row, one in zip(rows, again, strict=True):
            before = predictions[dev.index(row)]
            assert one["tags"] == before["tags"]
            assert [x["score"] for x in one["entities"]] == pytest.approx(
                [x["score"] for x in before["entities"]], abs=1e-5
            )
    # The same words as one raw text, in characters.
    text = raw(" ".join(dev[0].tokens or ()))
    features = task.features([text], tokenizer, False)
    found = task.decode([text], features, outputs_of(task, model, features))[0]
    assert found["tags"] == predictions[0]["tags"]
    for one, other in zip(found["entities"], predictions[0]["entities"], strict=True):  # another batch rounds otherwise
        assert one == {**other, "score": pytest.approx(other["score"], abs=1e-5)}
    assert json.loads(json.dumps(found)) == found
    # A folder keeps it all.
    write_settings(tmp_path, task)
    assert Tag.from_settings(json.loads((tmp_path / "task.json").read_text())) == task


def test_parts_of_speech_are_plain_tags(tokenizer: Tokenizer) -> None:
    rows = [worded("the cat sat", "DET NOUN VERB"), worded("dog", "NOUN")]
    task = Tag(length=20).learning(table(rows))
    assert task.labels == ("DET", "NOUN", "VERB")
    assert task.judged_by == ("accuracy", True)
    features = task.features(rows, tokenizer, True)
    gold = np.maximum(features.per_token["tags"], 0)
    outputs = [np.eye(3, dtype=np.float32)[gold[features.tokens_of(at)]] for at in range(2)]
    found = task.decode(rows, features, outputs)
    assert found == [{"tags": ["DET", "NOUN", "VERB"]}, {"tags": ["NOUN"]}]
    assert task.score(rows, found, resamples=10).metrics["accuracy"] == 1
    wrong = [{"tags": ["DET", "VERB", "VERB"]}, {"tags": ["NOUN"]}]
    assert [(one.gold, one.predicted) for one in task.mistakes(rows, wrong)] == [("cat (NOUN)", "cat (VERB)")]


def test_what_cannot_be_is_said(tokenizer: Tokenizer) -> None:
    with pytest.raises(ConfigError, match="overlap -1"):
        Tag(overlap=-1)
    with pytest.raises(InputError, match="f: every tag is 'O'"):
        Tag().learning(table([worded("the cat", "O O")]))
    with pytest.raises(InputError, match="f:1: no tags"):
        Tag(labels=NAMES, length=20).features([worded("the cat")], tokenizer, True)
    said: list[str] = []
    Tag(labels=NAMES).require(table([worded("the cat", "O B-ANIMAL", 7)]), said.append)
    assert said == ["f:7: tags that training has not (ANIMAL) count as answered wrongly"]


def test_entities_are_read_back() -> None:
    """What `entities` finds in the tags of words is what a row's own entities were."""
    words = Words.of(raw("old  bridge, the cat"))
    spans = [Entity(0, 11, "LOC"), Entity(17, 20, "PER")]
    assert words.covering(spans) == [Entity(0, 2, "LOC"), Entity(4, 5, "PER")]
    assert entities(["B-LOC", "I-LOC", "O", "O", "B-PER"]) == words.covering(spans)
    assert words.covering([Entity(3, 5, "X")]) == []
