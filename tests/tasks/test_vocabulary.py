"""A trained model under another vocabulary: what is known stays, what is new is made of its pieces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from bertworks.errors import BertworksWarning, ConfigError
from bertworks.folders import new_folder
from bertworks.models.folder import load_model, write_model
from bertworks.tasks.pretrain import Made, Recipe, make_model
from bertworks.tasks.vocabulary import Origins, origins
from bertworks.text.store import Store
from bertworks.text.tokenizer import Tokenizer

from ..stores import store_of
from ..tiny import tiny_folder, tiny_tokenizer

FAMILIES = ("bert", "roberta", "roberta-prelayernorm", "albert")
OLD_TEXTS = ["the cat sat on the mat .", "where is the station ?", "today 今天天气"]


def extended(folder: Path, *words: str, shuffled: bool = False) -> Tokenizer:
    """The tiny WordPiece with these words added; its tokens in the same order, or in the opposite one."""
    texts = tiny_tokenizer("bert").tokens
    texts = [*texts[:5], *reversed(texts[5:])] if shuffled else texts
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join([*texts, *words]) + "\n", encoding="utf8")
    return Tokenizer.load(folder)


def store_for(folder: Path, tokenizer: Tokenizer) -> Store:
    return store_of(folder, tokenizer, [[ids] for ids in tokenizer.ids_of(OLD_TEXTS * 3)])


def table(model: Path, **more: Any) -> dict[str, Any]:
    return {
        "model": {"from": str(model)} | more,
        "objective": {"preset": "roberta"},
        "batch": {"length": 16, "tokens": 64},
        "budget": {"steps": 1},
    }


def carried(model: Path, store: Store, **more: Any) -> tuple[Made, str]:
    with pytest.warns(BertworksWarning) as said:
        ready = make_model(Recipe.of(table(model, vocabulary="store", **more)), store)
    return ready, next(str(one.message) for one in said if "tokens" in str(one.message))


def tables_of(model: Any) -> list[torch.Tensor]:
    head = model.heads["masked_lm"]
    return [model.encoder.embeddings.tokens.weight.detach(), head.bias.detach()[:, None]]


# -- which pieces ------------------------------------------------------------------------------------------


def test_wordpiece_with_domain_words(tmp_path: Path) -> None:
    old = tiny_tokenizer("bert")
    words = ["catmat", "##thecat", "##q.", "stationery", "☃", "##☃", "天文", "##今", "Bridge", "[NEW]"]
    new = extended(tmp_path / "t", *words, shuffled=True)
    found = origins(old, new)
    first = old.vocab_size
    assert found.pieces[:first] == [[old.id(text)] for text in new.tokens[:first]]
    made = [[old.token(at) for at in pieces] for pieces in found.pieces[first:]]
    peer = transformers.BertTokenizerFast(tokenizer_object=old.library)
    assert made == [
        peer.tokenize("catmat"),
        ["##t", "##h", "##e", "##c", "##a", "##t"],
        ["##q", "."],
        peer.tokenize("stationery"),
        [],
        [],
        ["天"],  # 文 is not known
        ["今"],  # the old tokenizer sets every Chinese character apart
        ["bridge"],
        ["n", "##e", "##w"],
    ]
    assert found.counts() == (first + 3, len(words) - 5, 2)


def test_wordpiece_to_byte_bpe() -> None:
    old, new = tiny_tokenizer("bert"), tiny_tokenizer("roberta")
    found = origins(old, new)
    for role in ("pad", "unk", "cls", "sep", "mask"):
        assert found.pieces[getattr(new, f"{role}_id")] == [getattr(old, f"{role}_id")]
    for at, text in enumerate(new.tokens):
        if at in new.special_ids or not text.removeprefix("Ġ").isascii() or not text.removeprefix("Ġ").isalpha():
            continue
        word, begins = text.removeprefix("Ġ").lower(), text.startswith("Ġ")
        pieces = [old.token(one) for one in found.pieces[at]]
        assert "".join(one.removeprefix("##") for one in pieces) == word, text
        assert pieces[0].startswith("##") != begins
        if begins:
            assert found.pieces[at] == old.ids_of([word])[0]
    half = new.id("Ń")  # a byte that is no character by itself
    assert half is not None
    assert found.pieces[half] == []
    back = origins(new, old)  # every text has bytes
    assert all(back.pieces)
    assert back.pieces[old.id("今") or 0] == new.ids_of(["今"])[0]
    assert [new.token(at) for at in back.pieces[old.id(".") or 0]] == ["."]
    the = old.id("the")
    assert the is not None
    assert back.pieces[the] == new.ids_of([" the"])[0]


def test_chinese_characters_to_words(tmp_path: Path) -> None:
    from tokenizers import Tokenizer as Library
    from tokenizers import models, pre_tokenizers

    old = tiny_tokenizer("bert")
    pieces = [
        "<pad>",
        "<unk>",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "▁",
        "今天",
        "▁今天",
        "天气",
        "今",
        "很好",
        "雨",
        "▁the",
        "the",
    ]
    library = Library(models.Unigram([(one, -float(at)) for at, one in enumerate(pieces)], 1))
    library.pre_tokenizer = pre_tokenizers.Metaspace()
    library.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "AlbertTokenizer"}')
    new = Tokenizer.load(tmp_path)
    found = origins(old, new)
    made = {new.token(at): [old.token(one) for one in pieces] for at, pieces in enumerate(found.pieces)}
    assert made["今天"] == made["▁今天"] == ["今", "天"]
    assert made["天气"] == ["天", "气"]
    assert made["很好"] == ["很", "好"]
    assert made["今"] == ["今"]
    assert made["雨"] == made["▁"] == []
    assert made["▁the"] == ["the"]
    assert made["the"] == ["##t", "##h", "##e"]
    assert made["<pad>"] == ["[PAD]"]
    back = origins(new, old)
    assert [new.token(at) for at in back.pieces[old.id("今") or 0]] == ["今"]


@pytest.mark.parametrize("one", ["bert", "roberta", "albert"])
def test_a_vocabulary_comes_back_to_itself(one: str) -> None:
    tokenizer = tiny_tokenizer(one)
    found = origins(tokenizer, tokenizer)
    assert found.pieces == [[at] for at in range(tokenizer.vocab_size)]


def test_values() -> None:
    generator = torch.Generator().manual_seed(0)
    old = torch.randn(50, 400, generator=generator) * 0.3 + 1
    found = Origins([[7], [7, 8], [], [9, 9, 7]], list(range(5, 50)))
    made = found.vectors(old, generator)
    assert torch.equal(made[0], old[7])
    torch.testing.assert_close(made[1], (old[7] + old[8]) / 2)
    torch.testing.assert_close(made[3], (2 * old[9] + old[7]) / 3)
    assert float(made[2].mean()) == pytest.approx(1, abs=0.08)
    assert float(made[2].std()) == pytest.approx(0.3, rel=0.2)
    bias = old[:, 0]
    rare = float(np.quantile(bias[5:].numpy(), 0.01))
    wanted = [bias[7], min(bias[7], bias[8]), rare, min(bias[9], bias[7])]
    assert found.biases(bias).tolist() == pytest.approx([float(one) for one in wanted])


# -- models ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_old_words_have_the_very_outputs_that_they_had(tmp_path: Path, family: str, shuffled: bool) -> None:
    folder = tiny_folder(tmp_path / "old", family, tokenizer_of="bert")
    new = extended(tmp_path / "t", "catmat", "##park", "☃", shuffled=shuffled)
    ready, said = carried(folder, store_for(tmp_path / "s", new))
    size = new.vocab_size - 3
    assert f"of {new.vocab_size} tokens, {size} are one of {folder}'s, 2 made of several, 1 drawn" in said
    model, _ = load_model(folder, ("masked_lm",), dtype=torch.float32)
    old = Tokenizer.load(folder)
    for text in OLD_TEXTS:
        before, now = (torch.tensor([one.encode(text).ids]) for one in (old, new))
        with torch.inference_mode():
            theirs, ours = model.eval()(before), ready.model.eval()(now)
        assert torch.equal(theirs.last, ours.last)
        same = [old.id(token) for token in new.tokens[:size]]
        for table, other in zip(tables_of(ready.model), tables_of(model), strict=True):
            assert torch.equal(table[:size], other[same])
        # The same products of the same numbers; cut among threads by the width, so their last bit may differ.
        assert (ours.scores["masked_lm"][..., :size] - theirs.scores["masked_lm"][..., same]).abs().max() < 1e-6
    with new_folder(tmp_path / "new") as place:
        write_model(place, ready.model, ready.description)
    peer = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "new").eval()
    with torch.inference_mode():
        torch.testing.assert_close(peer(now).logits, ours.scores["masked_lm"], atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tokenizer", ["bert", "roberta", "albert"])
def test_any_model_with_any_tokenizer_trains(tmp_path: Path, family: str, tokenizer: str) -> None:
    """Also RoBERTa's positions, which are counted from a padding id that changes: as long a text goes in as before."""
    folder = tiny_folder(tmp_path / "old", family)
    new = tiny_tokenizer(tokenizer)
    if new.digest == Tokenizer.load(folder).digest:
        return
    ready, _ = carried(folder, store_for(tmp_path / "s", new))
    config = ready.description.config
    assert (config.vocab_size, config.pad_id, config.max_length) == (new.vocab_size, new.pad_id, 40)
    ids = torch.randint(5, 50, (2, 40))
    ready.model.train()(ids).scores["masked_lm"].sum().backward()
    with new_folder(tmp_path / "new") as place:
        write_model(place, ready.model, ready.description)
        new.save(place)
    peer = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "new").eval()
    with torch.inference_mode():
        ours = ready.model.eval()(ids).scores["masked_lm"]
        torch.testing.assert_close(peer(ids).logits, ours, atol=5e-5, rtol=0)
    old = Tokenizer.load(folder)
    before, _ = load_model(folder, ("masked_lm",), dtype=torch.float32)
    frame = torch.tensor([[new.cls_id, new.mask_id, new.sep_id]])
    theirs = torch.tensor([[old.cls_id, old.mask_id, old.sep_id]])
    with torch.inference_mode():  # a text of special tokens alone is the same in all: positions moved with the padding
        assert torch.equal(ready.model(frame).last, before(theirs).last)


def test_an_untied_decoder_is_carried_by_itself(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "old", "bert")
    peer = transformers.BertForMaskedLM.from_pretrained(folder, tie_word_embeddings=False)
    torch.nn.init.normal_(peer.cls.predictions.decoder.weight)
    torch.nn.init.normal_(peer.cls.predictions.bias)
    with torch.no_grad():
        peer.cls.predictions.decoder.bias.copy_(peer.cls.predictions.bias)
    peer.save_pretrained(folder)
    new = extended(tmp_path / "t", "catmat")
    ready, _ = carried(folder, store_for(tmp_path / "s", new))
    head = ready.model.heads["masked_lm"]
    pieces = Tokenizer.load(folder).ids_of(["catmat"])[0]
    torch.testing.assert_close(head.decoder[-1], peer.cls.predictions.decoder.weight[pieces].mean(0))
    torch.testing.assert_close(head.bias[-1], peer.cls.predictions.bias[pieces].min())
    embeddings = ready.model.encoder.embeddings.tokens.weight
    torch.testing.assert_close(embeddings[-1], peer.bert.embeddings.word_embeddings.weight[pieces].mean(0))
    assert torch.equal(head.decoder[:-1], peer.cls.predictions.decoder.weight)


def test_it_is_asked_for(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "old", "bert")
    store = store_for(tmp_path / "s", extended(tmp_path / "t", "catmat"))
    with pytest.raises(ConfigError, match=r"another tokenizer[\s\S]*model.vocabulary=store"):
        make_model(Recipe.of(table(folder)), store)
    with pytest.raises(ConfigError, match=r"model\.vocabulary is 'mine'"):
        make_model(Recipe.of(table(folder, vocabulary="mine")), store)
    with pytest.raises(ConfigError, match=r"layers stands beside model\.from"):
        make_model(Recipe.of(table(folder, layers=3)), store)
    recipe = Recipe.of(table(folder, vocabulary="store", dropout=0.25))
    with pytest.warns(BertworksWarning):
        ready = make_model(recipe, store)
    assert ready.model.encoder.embeddings.dropout.rate == 0.25  # type: ignore[union-attr]
    again = Recipe.of(recipe.resolved(ready.description.config, "bert"))
    assert again.model == recipe.model  # a resumed run makes the same
    with pytest.warns(BertworksWarning):
        second = make_model(again, store)
    for one, other in zip(tables_of(second.model), tables_of(ready.model), strict=True):
        assert torch.equal(one, other)


def test_a_models_own_tokenizer_changes_nothing(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "old", "albert")
    store = store_for(tmp_path / "s", Tokenizer.load(folder))
    ready = make_model(Recipe.of(table(folder, vocabulary="store", attention_dropout=0.3)), store)
    before, _ = load_model(folder, ("masked_lm",), dtype=torch.float32)
    assert ready.description.config.attention_dropout == 0.3
    ours, theirs = ready.model.state_dict(), before.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
