"""The fast way of encoding documents against the plain one: each sentence by itself, with the tokenizer.

`ids_of` is the oracle of ids and `WordFinder.by_text` that of word beginnings, for small vocabularies trained here and,
where the data folder is, for the published ones.
"""

from __future__ import annotations

import io
import itertools
import json
import random
import shutil
import warnings
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.errors import BertworksWarning
from bertworks.text import encoding
from bertworks.text.encoding import DocumentEncoder, EncodedDocuments
from bertworks.text.sentences import sentences
from bertworks.text.tokenizer import Tokenizer
from bertworks.text.training import train
from bertworks.text.words import HAN, ONE_HAN, Segmenter, WordFinder, chinese_segmenter

CORPUS = [
    "The quick brown fox jumps over the lazy dog. It didn't see the dog's tail, naïve café!",
    "Tokenizers turn words into ids; ids turn into vectors: 3.14, 2024, U.S. and e.g. this one?",
    "自然语言处理是人工智能的一个重要方向。我们训练一个小模型，使用语言模型来预测下一个词。",
    "中文和 English 混排，数字 2024 年。我用PyTorch训练BERT模型！买T恤，唱卡拉OK。",
    "if  so:    return   x\t\t \t# and    so   on"
    + "    x" * 20,  # so that byte-level BPE has tokens of several spaces
] * 4
KINDS = ["wordpiece", "wordpiece-cased", "byte-bpe", "unigram", "unigram-cased"]
PUBLISHED = [
    "bert-base-uncased",
    "bert-base-cased",
    "bert-base-chinese",
    "roberta",
    "roberta-prefix",
    "albert",
    "albert-accents",
]


@cache
def small(name: str) -> Tokenizer:
    kind = name.removesuffix("-cased")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BertworksWarning)
        return train(CORPUS, kind, 500, cased=name.endswith("-cased"))


@pytest.fixture(scope="module")
def published(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Tokenizer]:
    @cache
    def load(name: str) -> Tokenizer:
        vocabs, folder = data / "vocabs", tmp_path_factory.mktemp(name)
        options: dict[str, bool] = {}
        if name.startswith("bert"):
            shutil.copy(vocabs / f"{name}.vocab.txt", folder / "vocab.txt")
            options = {"do_lower_case": not name.endswith("-cased")}
        elif name.startswith("roberta"):
            tokens = (vocabs / "roberta-base.vocab-in-id-order.txt").read_text("utf-8").split("\n")[:-1]
            (folder / "vocab.json").write_text(json.dumps({token: at for at, token in enumerate(tokens)}))
            shutil.copy(vocabs / "gpt2.merges.txt", folder / "merges.txt")
            options = {"add_prefix_space": True} if name.endswith("-prefix") else {}
        else:
            shutil.copy(vocabs / "albert-base-v2.spiece.model", folder / "spiece.model")
            options = {"keep_accents": True, "do_lower_case": False} if name.endswith("-accents") else {}
        (folder / "tokenizer_config.json").write_text(json.dumps(options))
        return Tokenizer.load(folder)

    return load


def rows(data: Path, name: str, some: int, column: str = "text") -> list[str]:
    import zstandard

    with (data / name).open("rb") as file:
        lines = io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(file), "utf-8")
        return [json.loads(line)[column] for line in itertools.islice(lines, some)]


def plainly(tokenizer: Tokenizer, segmenter: Segmenter | None, texts: Iterable[str], words: bool) -> EncodedDocuments:
    """What the encoder is to give: every sentence encoded by itself, every word found from its text."""
    finder, led = WordFinder(tokenizer, segmenter), tokenizer.kind == "byte-bpe"
    ids: list[int] = []
    begins: list[bool] = []
    sizes: list[int] = []
    counts: list[int] = []
    for text in texts:
        pieces = sentences(text, led=led)
        found = [one for one in zip(pieces, tokenizer.ids_of(pieces), strict=True) if one[1]]
        counts.append(len(found))
        sizes += [len(row) for _, row in found]
        for piece, row in found:
            ids += row
            if words:
                offsets = tokenizer.encode(piece, specials=False).offsets
                begins += finder.by_text(piece, row, offsets).tolist()
    return EncodedDocuments(
        np.array(ids, np.int64), np.array(begins, np.bool_), np.array(sizes, np.int64), np.array(counts, np.int64)
    )


def same(encoder: DocumentEncoder, texts: list[str], words: bool = True) -> None:
    got = encoder.encode(texts)
    want = plainly(encoder.tokenizer, encoder.words.segmenter, texts, words)
    if not _equal(got, want, words) and len(texts) > 1:
        for text in texts:  # name the one that differs
            same(encoder, [text], words)
    assert _equal(got, want, words), (
        texts,
        [encoder.tokenizer.token(int(at)) for at in got.ids],
        [encoder.tokenizer.token(int(at)) for at in want.ids],
        got.begins.tolist(),
        want.begins.tolist(),
    )


def _equal(got: EncodedDocuments, want: EncodedDocuments, words: bool) -> bool:
    pairs = [(got.ids, want.ids), (got.sentences, want.sentences), (got.documents, want.documents)]
    return all(np.array_equal(*pair) for pair in [*pairs, *([(got.begins, want.begins)] if words else [])])


# fmt: off
# What is next to a space, or takes the place of one, or looks like a mark of some pipeline.
PIECES = [
    *("a", "The", "dog's", "it''s", "``so''", "naïve", "İ", "ß", "ﬁ", "½", "²", "ª", "Å", "Ａｂ", "１２", "x" * 120, "ab" * 15),  # noqa: E501
    *("中", "国", "语言", "模型", "T恤", "AB", "卡拉OK", "一", "、", "。", "，", "（", "「", "…", "豈", "\uf900", "㍿", "ㄅ", "あ", "カ"),  # noqa: E501
    *("한국", "ㅎ", "\u1112\u1161\u11ab", "\u1161", "𠀀", "𪚥", "\U0002b820", "\U0002b920", "\U0002f800", "\U00030000"),
    *("\u0301", "\u0345", "\u20e3", "\u200b", "\u200c", "\u200d", "\u00ad", "\u0e33", "\u0e4d", "\uff9e", "\uff9f", "\u309b"),  # noqa: E501
    *("\u0600", "\u06dd", "\u0d4e", "ا", "ﷺ", "क्षि", "ก", "\u093f", "👍🏽", "👨\u200d👩", "🇨🇳", "\U0001f3fd", "😀", "\ufe0f"),  # noqa: E501
    *("\xa0", "\t", "\u3000", "\u2003", "\x1f", "\x1c", "\x00", "\x01", "\x7f", "\x85", "\ufeff", "\u2028", "\u180e", "\u200e"),  # noqa: E501
    *("\ufffd", "\ud800", "\udfff", "\ue000", "\uffff", "¨", "´", "¸", "˚", "῾", "\u1fbd", "–", "—", "‘", "’", "“", "”", "№"),  # noqa: E501
    *("[MASK]", "[mask]", "<mask>", "[CLS]", "<s>", "</s>", "[UNK]", "<unk>", "[", "MASK", "]", "▁", "▁a", "Ġ", "Ġa", "##", "##a"),  # noqa: E501
    *("!", "?", ".", ",", "'", '"', "-", "$", "_", "~", "^", "(", "{", "|", "\n", "'s", "'ll", "1", "3.14"),
    *(" ", " ", " ", " ", " ", " ", " ", " ", "  ", "   "),
]
# fmt: on


def made_up(seed: int, count: int, most: int = 12) -> list[str]:
    """Random texts of the pieces above, with single spaces between half of them, and some of any code point."""
    rng = random.Random(seed)
    texts = []
    for _ in range(count):
        some = rng.choices(PIECES, k=rng.randint(1, most))
        if rng.random() < 0.2:
            some += [chr(rng.randrange(1 << rng.choice((8, 12, 16, 20)))) for _ in range(3)]
            rng.shuffle(some)
        texts.append(rng.choice(("", " ")).join(some))
    return texts


def segmented(tokenizer: Tokenizer) -> list[DocumentEncoder]:
    return [DocumentEncoder(tokenizer, None), DocumentEncoder(tokenizer, chinese_segmenter())]


# -- small vocabularies ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS)
def test_plain_documents(name: str) -> None:
    texts = [
        *CORPUS[:5],
        "",
        "y\t \t \tx \t \tx",
        " \n ",
        "Two lines\nof it.  And more.",
        "\u200b",
        "一",
        "a",
        " ".join(CORPUS),
    ]
    for encoder in segmented(small(name)):
        same(encoder, texts)
        same(encoder, texts)  # now most chunks are known


@pytest.mark.parametrize("name", KINDS)
def test_odd_unicode(name: str) -> None:
    texts = made_up(1, 1500)
    for encoder in segmented(small(name)):
        same(encoder, texts)


@pytest.mark.parametrize("name", KINDS)
def test_any_text(name: str) -> None:
    encoder = DocumentEncoder(small(name), chinese_segmenter())

    @settings(max_examples=150, deadline=None, database=None)
    @given(
        st.lists(
            st.one_of(st.text(max_size=40), st.lists(st.sampled_from(PIECES), max_size=15).map("".join)), max_size=4
        )
    )
    def agree(texts: list[str]) -> None:
        same(encoder, texts)

    agree()


@pytest.mark.parametrize("name", ["wordpiece", "byte-bpe", "unigram"])
def test_every_pair_of_pieces_around_a_space(name: str) -> None:
    rng = random.Random(2)
    texts = [f"{one} {two}" for one in PIECES for two in PIECES]
    same(DocumentEncoder(small(name), None), rng.sample(texts, 6000), words=False)


def test_documents_are_counted_and_empty_ones_kept() -> None:
    encoder = DocumentEncoder(small("wordpiece"), None)
    got = encoder.encode(["One. Two three.", "", "\x01\u0301\n\x02", "一二。"])
    assert got.documents.tolist() == [2, 0, 0, 1]
    assert got.sentences.sum() == len(got.ids) == len(got.begins)
    assert got.ids.dtype == np.uint16
    none = encoder.encode([])
    assert (len(none.ids), len(none.sentences), len(none.documents)) == (0, 0, 0)
    only = got.only(np.array([False, True, True, True]))
    assert only.documents.tolist() == [0, 0, 1]
    assert only.ids.tolist() == encoder.encode(["", "", "一二。"]).ids.tolist()
    assert len(got.only(np.zeros(4, np.bool_)).ids) == 0


def test_what_is_known_may_overflow_without_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "KNOWN_CHUNKS", 20)
    for name in ("wordpiece", "byte-bpe", "unigram"):
        encoder = DocumentEncoder(small(name), chinese_segmenter())
        for at in range(30):
            same(encoder, [f"fox{at} dog{at * 7} the lazy {'long' * 10}{at}", *made_up(at, 5), CORPUS[at % 5]])
        assert not any(len(chunk) > encoding.LONGEST_KNOWN for chunk in encoder._known)


def test_a_segmenter_may_cut_where_the_tokenizer_does_not() -> None:
    texts = ["大号ABT恤很好", "x国y语 z言w", "ab中国cd", "中国 ab 语言", "买xT恤吧"]
    cuts: list[Segmenter] = [
        list,
        lambda text: [text],
        lambda text: [text[at : at + 2] for at in range(0, len(text), 2)],
        lambda text: [text[at : at + 3] for at in range(0, len(text), 3)],
    ]
    for name in KINDS:
        for cut in cuts:
            same(DocumentEncoder(small(name), cut), [*texts, *made_up(3, 200)])


def test_characters_taken_for_chinese_are_those_the_library_sets_apart() -> None:
    library = small("wordpiece-cased")._library
    wrong = [
        hex(point)
        for point in range(0x80, 0x32400)
        if not 0xD800 <= point < 0xE000
        and (
            (library.normalizer.normalize_str(f"a{chr(point)}b")[1:2] == " ") != (ONE_HAN.match(chr(point)) is not None)
        )
        and not chr(point).isspace()
    ]
    assert wrong == []
    assert "\\uf900" in HAN


# -- published vocabularies ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_vocabularies_over_odd_text(name: str, published: Callable[[str], Tokenizer], data: Path) -> None:
    naughty = rows(data, "naughty_strings/all.jsonl.zst", 1000)
    tokenizer = published(name)
    for encoder in segmented(tokenizer):
        same(encoder, [*naughty, *CORPUS[:5], *made_up(4, 800)])
    assert encoder._cut is not None


def test_graphemes_around_a_space(published: Callable[[str], Tokenizer]) -> None:
    """SentencePiece's normaliser may see a character and the space beside it as one, and treat them otherwise."""
    marks = [
        "\u0e33\u0301",
        "\u0340\u0301",
        "\uff9e\u0301",
        "\u0600\u0340\u0301",
        "\u200c\u0340",
        "\u0eb3\u0341",
        "´\u0340",
    ]
    texts = [f"{one} {two}" for one in ["a", "\u0600", "\u0d4e", "\u0600\u0301"] for two in [*marks, "b"]]
    for name in ("albert", "albert-accents"):
        same(DocumentEncoder(published(name), None), texts)


@pytest.mark.parametrize("kind", ["wordpiece", "byte-bpe", "unigram"])
def test_added_tokens_may_hold_spaces_and_take_those_around(kind: str, tmp_path: Path) -> None:
    small(kind).save(tmp_path)
    state = json.loads((tmp_path / "tokenizer.json").read_text())
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    next_id = small(kind).vocab_size
    extra = [("the lazy", {}), ("<x>", {"lstrip": True, "rstrip": True}), ("fox", {"single_word": True})]
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    rows = [{"content": text, **plain, **more} for text, more in extra]
    state["added_tokens"] += [{"id": next_id + at, **row} for at, row in enumerate(rows)]
    config["added_tokens_decoder"] = {str(row["id"]): row for row in state["added_tokens"]}
    (tmp_path / "tokenizer.json").write_text(json.dumps(state))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.encode("over the lazy dog", specials=False).ids.count(next_id) == 1
    texts = [
        "over the lazy dog",
        "a <x> b <x>c",
        "the fox foxes fox.",
        "the  lazy",
        "语言 <x> 模型the lazy",
        "a [MASK] <mask> b",
    ]
    for encoder in segmented(tokenizer):
        same(encoder, texts)
        assert encoder._cut is not None


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_vocabularies_over_real_text(name: str, published: Callable[[str], Tokenizer], data: Path) -> None:
    english = [text[:6000] for text in rows(data, "enwiki_2006/train.jsonl.zst", 12)]
    chinese = [text[:3000] for text in rows(data, "zh_tech_docs/dev.jsonl.zst", 6)]
    news = rows(data, "zh_cluecorpussmall_sample/dev.jsonl.zst", 15)
    for encoder in segmented(published(name)):
        same(encoder, [*english, *chinese, *news])


@pytest.mark.full
@pytest.mark.parametrize("name", [*KINDS, *PUBLISHED])
def test_a_hundred_thousand_odd_texts(name: str, request: pytest.FixtureRequest) -> None:
    tokenizer = small(name) if name in KINDS else request.getfixturevalue("published")(name)
    for encoder in segmented(tokenizer):
        for seed in range(200):
            same(encoder, made_up(1000 + seed, 500))
