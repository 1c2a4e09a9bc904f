"""Where words begin: by a tokenizer's marks, and by a segmenter between Chinese characters."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers

from bertworks.errors import BertworksError, BertworksWarning
from bertworks.text.tokenizer import Tokenizer
from bertworks.text.training import train
from bertworks.text.words import Segmenter, WordFinder, chinese_segmenter

CORPUS = [
    "我们使用语言模型来预测下一个词。我用PyTorch训练BERT模型。",
    "The unbelievable tokenizers turn words into ids, 3.14 and 2024; don't they?",
] * 5
KINDS = ["wordpiece", "byte-bpe", "unigram"]


@cache
def small(kind: str) -> Tokenizer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BertworksWarning)
        return train(CORPUS, kind, {"wordpiece": 200, "byte-bpe": 300, "unigram": 180}[kind], cased=True)


@cache
def jieba(kind: str) -> WordFinder:
    return WordFinder(small(kind), chinese_segmenter())


def words(finder: WordFinder, text: str, specials: bool = False) -> list[str]:
    """The words of a text, each as the stretch of it that its tokens stand for."""
    encoded = finder._tokenizer.encode(text, specials=specials)
    numbers = finder.numbers(text, encoded)
    assert [number is None for number in numbers] == encoded.special
    spans: dict[int, tuple[int, int]] = {}
    for number, (start, end) in zip(numbers, encoded.offsets, strict=True):
        if number is not None:
            old = spans.get(number, (start, end))
            spans[number] = (min(old[0], start), max(old[1], end))
    assert list(spans) == list(range(len(spans))), "numbered from 0 without gaps, in order"
    return [text[start:end].strip() for start, end in spans.values()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("使用语言模型", ["使用", "语言", "模型"]),
        ("使用语言模型来预测", ["使用", "语言", "模型", "来", "预测"]),
        ("我用PyTorch训练BERT模型。", ["我用", "PyTorch", "训练", "BERT", "模型", "。"]),
        ("我用 PyTorch 训练 BERT 模型", ["我用", "PyTorch", "训练", "BERT", "模型"]),
        ("使用  语言", ["使用", "语言"]),
        ("语言，模型！", ["语言", "，", "模型", "！"]),
        ("用“语言”", ["用", "“", "语言", "”"]),
    ],
)
def test_chinese_words(kind: str, text: str, wanted: list[str]) -> None:
    assert words(jieba(kind), text) == wanted
    assert words(jieba(kind), text, specials=True) == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_digits_and_the_words_beside_them(kind: str) -> None:
    assert words(jieba(kind), "使用2024模型") == ["使用", "2024", "模型"]


@pytest.mark.parametrize("kind", KINDS)
def test_english_words_and_signs(kind: str) -> None:
    assert words(jieba(kind), "The unbelievable tokenizers, they turn.") == [
        *("The", "unbelievable", "tokenizers", ",", "they", "turn", "."),
    ]
    assert words(jieba(kind), "into 3.14,ids!") == ["into", "3", ".", "14", ",", "ids", "!"]
    pieces = small(kind).encode("unbelievably", specials=False)
    assert len(pieces.ids) > 1
    assert jieba(kind).numbers("unbelievably", pieces) == [0] * len(pieces.ids)


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_segmenter_the_marks_alone_count(kind: str) -> None:
    got = words(WordFinder(small(kind), None), "使用语言 模型")
    assert got == (list("使用语言模型") if kind == "wordpiece" else ["使用语言", "模型"])


def test_marks_of_byte_level_bpe_and_its_spaces() -> None:
    finder = jieba("byte-bpe")
    text = "into\nids\tturn  words"
    encoded = small("byte-bpe").encode(text, specials=False)
    begins = finder.by_marks(np.array(encoded.ids))
    for token, begin in zip(encoded.tokens, begins, strict=True):
        assert begin or token[0] not in "ĠĊĉ"
    # a space that is a token of its own begins the word that follows it
    encoded = small("byte-bpe").encode("a 龘靐", specials=False)
    numbers = WordFinder(small("byte-bpe"), lambda text: [text]).numbers("a 龘靐", encoded)
    assert numbers == [0] * len(numbers)
    numbers = WordFinder(small("byte-bpe"), lambda _: ["a ", "龘靐"]).numbers("a 龘靐", encoded)
    assert numbers == [0] + [1] * (len(numbers) - 1)


def test_of_the_tokens_of_one_character_only_the_first_may_begin_a_word() -> None:
    """Characters that the vocabulary has not seen, in three or four byte tokens each; every one a word."""
    finder = WordFinder(small("byte-bpe"), list)
    for text in ("龘靐", "a龘靐b𠀀𠀁", "龘 靐龘"):
        encoded = small("byte-bpe").encode(text, specials=False)
        assert len(encoded.ids) > 2 * len(text.replace(" ", ""))
        numbers = finder.numbers(text, encoded)
        assert max(n for n in numbers if n is not None) + 1 == len(text.replace(" ", ""))


def test_a_token_over_the_edge_of_two_characters_hides_it() -> None:
    """The last bytes of one character and the first of the next in one token: the next word has no beginning."""
    library = tokenizers.Tokenizer.from_str(small("byte-bpe")._library.to_str())
    letters = [token for token, _ in pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str("龘靐")]
    chars = list("".join(letters))
    assert len(chars) == 6
    vocab = {one: at for at, one in enumerate(pre_tokenizers.ByteLevel.alphabet())}
    vocab |= {"<s>": 256, "</s>": 257, chars[2] + chars[3]: 258}
    library.model = models.BPE(vocab, [(chars[2], chars[3])])
    tokenizer = Tokenizer(library, {})
    encoded = tokenizer.encode("龘靐", specials=False)
    assert [end for _, end in encoded.offsets] == [1, 1, 2, 2, 2]
    assert WordFinder(tokenizer, list).numbers("龘靐", encoded) == [0] * 5


def test_characters_that_give_no_token_hide_no_word() -> None:
    finder = WordFinder(small("wordpiece"), lambda text: [text[:2], text[2:]])
    assert words(finder, "使用\u200b语言") == ["使用", "语言"]
    cut: Segmenter = lambda _: ["使用", "\u200b语言"]  # noqa: E731
    assert words(WordFinder(small("wordpiece"), cut), "使用\u200b语言") == ["使用", "语言"]


def test_half_a_surrogate_does_not_stop_the_segmenter() -> None:
    assert words(jieba("wordpiece"), "使用\ud800语言") == ["使用", "语言"]
    for kind in KINDS[1:]:
        assert words(jieba(kind), "使用\ud800语言") == ["使用", "\ud800", "语言"]


def test_a_segmenter_of_ones_own() -> None:
    for kind in KINDS:
        each = WordFinder(small(kind), lambda text: [text[:3], text[3:]])
        assert words(each, "使用语言模型") == ["使用语", "言模型"]
    assert jieba("wordpiece").needs_segmenter("a 语言")
    assert not jieba("wordpiece").needs_segmenter("言 a 语 한국어")


@pytest.mark.parametrize(
    "cut", [lambda text: text.split(), lambda text: [text.lower()], lambda text: [], lambda text: [text, "。"]]
)
def test_a_segmenter_that_changes_text_is_refused(cut: Segmenter) -> None:
    text = "使用 Words 语言"
    with pytest.raises(BertworksError, match="segmenter changed"):
        WordFinder(small("wordpiece"), cut).numbers(text, small("wordpiece").encode(text))


def test_special_tokens_in_the_text_are_words() -> None:
    assert words(jieba("wordpiece"), "使用[MASK]语言") == ["使用", "[MASK]", "语言"]
    assert words(jieba("byte-bpe"), "turn <mask>words") == ["turn", "<mask>", "words"]


def test_nothing_has_no_words() -> None:
    for kind in KINDS:
        assert words(jieba(kind), "") == []
        assert words(jieba(kind), "", specials=True) == []
        assert len(jieba(kind).by_text("", [], [])) == 0


def test_another_pipeline_has_every_token_for_a_word() -> None:
    library = tokenizers.Tokenizer(models.WordLevel({"?": 0, "a": 1, "b": 2}, unk_token="?"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = Tokenizer(library, {})
    assert WordFinder(tokenizer, None).numbers("a b a", tokenizer.encode("a b a")) == [0, 1, 2]


# -- pairs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("specials", [True, False])
def test_words_of_a_pair_go_on_in_the_second_text(kind: str, specials: bool) -> None:
    finder, tokenizer = jieba(kind), small(kind)
    for one, two in [
        ("使用语言模型", "The unbelievable words"),
        ("a", "b"),
        ("龘", "龘"),
        ("", "语言"),
        ("语言", ""),
        ("words", "words words"),
    ]:
        encoded = tokenizer.encode(one, two, specials=specials)
        got = [number for number in finder.pair_numbers(one, two, encoded) if number is not None]
        first = [n for n in finder.numbers(one, tokenizer.encode(one, specials=False)) if n is not None]
        second = [n for n in finder.numbers(two, tokenizer.encode(two, specials=False)) if n is not None]
        count = len(set(first))
        assert got == first + [count + number for number in second]


@pytest.mark.parametrize("kind", KINDS)
def test_words_of_a_pair_that_was_cut(kind: str) -> None:
    finder, tokenizer = jieba(kind), small(kind)
    one, two = "使用语言模型来预测下一个词。", "The unbelievable tokenizers"
    whole = finder.pair_numbers(one, two, tokenizer.encode(one, two, specials=False))
    for limit in range(1, len(whole) + 1):
        encoded = tokenizer.encode(one, two, max_length=limit, specials=False)
        got = finder.pair_numbers(one, two, encoded)
        assert len(got) == len(encoded.ids) == limit
        assert got[0] == 0
        assert all(b in (a, a + 1) for a, b in itertools.pairwise(got) if a is not None)


def _texts() -> Callable[..., object]:
    alphabet = "使用语言模型龘𠀀aB1 ,。\u200b\u0301\t[]한\ud800▁Ġ#"
    return given(st.text(alphabet=alphabet, max_size=30), st.text(max_size=30))


@pytest.mark.parametrize("kind", KINDS)
def test_any_text_has_whole_words(kind: str) -> None:
    finder = jieba(kind)

    @settings(max_examples=150, deadline=None, database=None)
    @_texts()
    def holds(one: str, two: str) -> None:
        for text in (one, two):
            words(finder, text)
        encoded = small(kind).encode(one, two)
        got = [number for number in finder.pair_numbers(one, two, encoded) if number is not None]
        assert sorted(set(got)) == list(range(len(set(got))))

    holds()
