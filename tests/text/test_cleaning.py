"""What is mended, what is dropped, and what is found to be a duplicate."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from dataclasses import asdict
from hashlib import shake_128
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.errors import BertworksError, ConfigError
from bertworks.text import cleaning as module
from bertworks.text import duplicates
from bertworks.text.cleaning import Cleaning, Duplicates, fingerprint, mend

ALL = Cleaning(repair=True, controls=True, spaces=True)
FAMILY = "👩\u200d👩\u200d👧"
ENGLAND = "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"


def mended(text: str, **asked: Any) -> str | None:
    return mend(text, Cleaning(**asked))[0]


# -- options ---------------------------------------------------------------------------------------------


def test_nothing_is_done_unless_asked() -> None:
    for text in ("", " \r\n", "cafÃ©\x00\u200b  x ", "ab"):
        assert mend(text, Cleaning()) == (text, [])


def test_options_go_through_json() -> None:
    cleaning = Cleaning(repair=True, shortest=3, languages=("en", "zh"), duplicates="near", likeness=0.9)
    assert Cleaning(**json.loads(json.dumps(asdict(cleaning)))) == cleaning
    assert Cleaning(**json.loads(json.dumps(asdict(Cleaning())))) == Cleaning()


@pytest.mark.parametrize(
    ("asked", "key", "way_out"),
    [
        ({"duplicates": "nearly"}, "cleaning.duplicates", "'near'"),
        ({"duplicates": "qqq"}, "cleaning.duplicates", "keep, exact, near"),
        ({"languages": ("zh-cn",)}, "cleaning.languages", "'zh'"),
        ({"languages": ("en", "qqq")}, "cleaning.languages", "'qqq'|two letters"),
        ({"languages": "en"}, "cleaning.languages", "a list"),
        ({"likeness": 0}, "cleaning.likeness", "0.8"),
        ({"likeness": 1.1}, "cleaning.likeness", "0.8"),
        ({"likeness": float("nan")}, "cleaning.likeness", "0.8"),
        ({"shortest": -1}, "cleaning.shortest", "0 for any"),
    ],
)
def test_unknown_values_are_refused(asked: dict[str, Any], key: str, way_out: str) -> None:
    with pytest.raises(ConfigError, match=key) as caught:
        Cleaning(**asked)
    assert any(one in caught.value.way_out for one in way_out.split("|"))


@pytest.mark.parametrize(("name", "package"), [("repair", "ftfy"), ("languages", "py3langid.langid")])
def test_a_missing_library_is_named(name: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    for made in (module._repairer, module._identifier):
        made.cache_clear()
    with pytest.raises(BertworksError, match=package.split(".")[0]) as caught:
        mend("voilà un café", Cleaning(**{name: True if name == "repair" else ("en",)}))
    assert "pip install 'bertworks[train]'" in caught.value.way_out
    assert caught.value.message in str(caught.value)


# -- repair ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "good"),
    [
        ("â€œHelloâ€\x9d, it wasnâ€™t", "“Hello”, it wasn’t"),
        ("un cafÃ© trÃ¨s serrÃ©", "un café très serré"),
        ("Ð¿Ñ€Ð¸Ð²ÐµÑ‚", "привет"),
        ("ä¸\xadæ–‡ã€‚", "中文。"),  # a byte of it reads as a soft hyphen, which `controls` would take first
        ("eﬃcient", "efficient"),
        ("cafe\u0301", "café"),
    ],
)
def test_repair(bad: str, good: str) -> None:
    assert mend(bad, Cleaning(repair=True)) == (good, ["repaired"])
    assert mended(bad, repair=True, controls=True, spaces=True) == good


@pytest.mark.parametrize(
    "good",
    [
        "他说：“你好，世界！”《红楼梦》（上）……——、；？",
        "ＡＢＣ１２３～　全角",
        "“curly” ‘quotes’ naïve café, 10³ ½ №",
        "浣犲ソ锛屼笘鐣",  # UTF-8 read as GBK
        "锟斤拷烫烫烫",
        "ÄãºÃ£¬ÊÀ½ç",  # GBK read as Latin-1
        "AT&amp;T <b>x</b>",
        "line\u2028line",
        FAMILY,
    ],
)
def test_repair_leaves_alone_what_it_does_not_know_better(good: str) -> None:
    assert mend(good, Cleaning(repair=True)) == (good, [])


# -- controls --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "good"),
    [
        ("a\x00b\x07c\x7fd\x9fe", "abcde"),
        ("\ufeffco\xadop\u200bera\u2060tion\u200e", "cooperation"),
        ("\u202eabc\u202c \u2066x\u2069", "abc x"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("one\r\ntwo\rthree\x0cfour\x85five\u2029six\x1fseven\r", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"),
        ("zero\u200cwidth\u200djoiners", "zerowidthjoiners"),
        ("你\u200b好\u200d吗\ufeff？", "你好吗？"),
        ("x\U000e0041\U000e0042", "x"),
        ("👩\u200dx \u200d👧", "👩x 👧"),
        ("می\u200c\u200cخواهم", "می\u200cخواهم"),
    ],
)
def test_controls_are_removed(bad: str, good: str) -> None:
    assert mend(bad, Cleaning(controls=True)) == (good, ["controls_removed"])


@pytest.mark.parametrize(
    "good",
    [
        "line\nline\n\n\tindented",
        f"{FAMILY} 🧑🏽\u200d🚀 ❤️\u200d🔥 🏳️\u200d🌈 {ENGLAND} 1️⃣",
        "می\u200cخواهم کتاب\u200cها",
        "क्\u200dष र्\u200dय",
        "ශ්\u200dරී",
        "ភាសា\u200bខ្មែរ ภาษา\u200bไทย",
        "中文，　全角；“引号”",
        "\u0600١٢",
    ],
)
def test_what_is_spelling_stays(good: str) -> None:
    assert mend(good, Cleaning(controls=True)) == (good, [])


# -- spaces ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "good"),
    [
        ("  a \t b\xa0\xa0c  ", "a b c"),
        ("　　中文　　第一段。　\n　　第二段。", "中文 第一段。\n第二段。"),
        ("one  \n\n \n\n two\r\nthree\n", "one\n\ntwo\nthree"),
    ],
)
def test_spaces(bad: str, good: str) -> None:
    assert mend(bad, Cleaning(spaces=True)) == (good, ["spaces_mended"])
    assert mend(good, Cleaning(spaces=True)) == (good, [])


# -- all of it -------------------------------------------------------------------------------------------

TRICKY = st.sampled_from(
    [
        *("Ã", "©", "\xad", "\xa0", "â", "€", "œ", "™", "\x9d", "ã", "\u3000", " ", "\n", "\r", "\t", "\x85", "\u2028"),
        *(
            "\x1b[",
            "\u200b",
            "\u200c",
            "\u200d",
            "\ufeff",
            "م",
            "क",
            "्",
            "👩",
            "👧",
            "\ufe0f",
            "🏴",
            "\U000e0067",
            "\0",
        ),
        *("\x1f", "0", "m", "e", "\u0301", "ﬁ", "中", "。", "&amp;", "<", "ภ", "\u202e", "\udc80"),
    ]
)
TEXTS = st.one_of(st.text(), st.lists(TRICKY, max_size=30).map("".join))


@settings(max_examples=400, deadline=None)
@given(TEXTS, st.booleans(), st.booleans(), st.booleans())
def test_mending_what_is_mended_changes_nothing(text: str, repair: bool, controls: bool, spaces: bool) -> None:
    cleaning = Cleaning(repair=repair, controls=controls, spaces=spaces)
    once, notes = mend(text, cleaning)
    if once is None:
        assert notes == ["dropped_empty"]
    else:
        assert mend(once, cleaning) == (once, [])
        assert (once != text) == bool(notes)


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_words_and_paragraphs_outlive_spaces(text: str) -> None:
    even = mended(text, spaces=True) or ""
    assert even.split() == text.split()
    assert not set(even) & {"\t", "\r", "\xa0", "\u3000", "\u2028"}
    assert "  " not in even
    assert "\n\n\n" not in even
    assert even == even.strip()


def test_what_is_broken_by_what_is_removed_is_repaired_after_that() -> None:
    assert mend("caf\u00c3\u200b\u00a9", ALL) == ("café", ["controls_removed", "repaired"])


def test_a_dropped_document_is_counted_once() -> None:
    assert mend("\u200b \ufeff", ALL) == (None, ["dropped_empty"])
    assert mend(" \n ", Cleaning(shortest=1)) == (None, ["dropped_empty"])
    assert mend("  abc  ", Cleaning(spaces=True, shortest=4)) == (None, ["dropped_short"])
    assert mend("  abc  ", Cleaning(spaces=True, shortest=3)) == ("abc", ["spaces_mended"])
    assert mend("中文很好", Cleaning(shortest=4)) == ("中文很好", [])


@pytest.mark.parametrize(
    "piece",
    ["a", " ", "\u3000", "中", "\u200c", "\x1b[", "👩\u200d", ENGLAND[:2], "cafÃ© ", "&amp;", "Ã", "\n", "م\u200c"],
)
def test_time_is_linear_in_length(piece: str) -> None:
    def seconds(length: int) -> float:
        text = (piece * length)[:length]
        start = time.perf_counter()
        done = mend(text, ALL)[0]
        fingerprint(done or text, "near")
        return time.perf_counter() - start

    short, long = min(seconds(10_000) for _ in range(3)), seconds(160_000)
    assert long < 16 * 4 * short + 0.1


# -- languages -------------------------------------------------------------------------------------------

ENGLISH = [
    "The committee will meet again on Thursday to discuss the budget for next year.",
    "She left the house early because she wanted to see the sun rise over the lake.",
    "Water boils at a lower temperature in the mountains than it does at sea level.",
]
CHINESE = [
    "委员会将于星期四再次开会，讨论明年的预算。",
    "她很早就离开了家，因为她想看湖上的日出。",
    "在山上，水的沸點比在海平面上低。",
]
FRENCH = [
    "Le conseil se réunira de nouveau jeudi pour examiner le budget de l'année prochaine.",
    "Elle a quitté la maison très tôt parce qu'elle voulait voir le soleil se lever sur le lac.",
    "L'eau bout à une température plus basse à la montagne qu'au niveau de la mer.",
]


@pytest.mark.parametrize(("languages", "kept"), [(("en",), ENGLISH), (("zh",), CHINESE), (("fr",), FRENCH)])
def test_languages(languages: tuple[str, ...], kept: list[str]) -> None:
    for text in ENGLISH + CHINESE + FRENCH:
        wanted = (text, []) if text in kept else (None, ["dropped_language"])
        assert mend(text, Cleaning(languages=languages)) == wanted
        assert mended(text, languages=("en", "zh", "fr")) == text


def test_what_is_too_short_to_tell_stays() -> None:
    for text in ("Hello world", "OK", "12345", "New York 2012", "BERT", "???"):
        assert mended(text, languages=("en",)) == text
    assert mended("你好", languages=("zh",)) == "你好"
    assert mended("我哋今晚去邊度食飯呀，你話啦。", languages=("zh",)) is not None  # Cantonese
    assert mended("今日はとても天気がいいですね。", languages=("zh",)) is None


def test_a_long_text_is_judged_by_stretches_of_it() -> None:
    foreign = "\n".join(FRENCH * 200)
    assert mended("Chapter one. " + foreign, languages=("en",)) is None
    assert mended("Chapitre un. " + "\n".join(ENGLISH * 200), languages=("en",)) is not None


def test_the_known_languages_are_the_models() -> None:
    assert set(module.LANGUAGES) == {one for one in module._identifier().labels if len(one) == 2}
    assert set().union(*module.KINDS_OF.values()) <= set(module._identifier().labels)


# -- duplicates ------------------------------------------------------------------------------------------

SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er", "ing", "ol", "us")]
HAN = [chr(code) for code in range(0x4E00, 0x4E00 + 2500)]


def vocabulary(draw: random.Random, chinese: bool) -> list[str]:
    if chinese:
        return HAN
    return ["".join(draw.choices(SYLLABLES, k=draw.randint(1, 4))) for _ in range(5000)]


def written(draw: random.Random, words: list[str], count: int) -> list[str]:
    """Words as often as in real text: the n-th commonest 1/n as often as the first."""
    return draw.choices(words, [1 / (at + 1) for at in range(len(words))], k=count)


def edited(draw: random.Random, words: list[str], text: list[str], share: float) -> list[str]:
    """A copy in which that share of words is replaced, left out, or has another one before it."""
    copy = list(text)
    for at in sorted(draw.sample(range(len(text)), round(share * len(text))), reverse=True):
        new = draw.choice(words)
        copy[at : at + 1] = draw.choice([[new], [], [new, copy[at]]])
    return copy


def are_near(one: str, other: str, likeness: float = 0.8) -> bool:
    known = Duplicates("near", likeness)
    assert not known.seen(fingerprint(one, "near"))
    return known.seen(fingerprint(other, "near"))


@pytest.mark.parametrize("chinese", [False, True])
def test_near_duplicates_are_found_and_others_are_not(chinese: bool) -> None:
    draw = random.Random(7)
    words, gap = vocabulary(draw, chinese), "" if chinese else " "
    texts = [written(draw, words, draw.randint(80, 400)) for _ in range(300)]
    known = Duplicates("near")
    wrong = sum(known.seen(fingerprint(gap.join(text), "near")) for text in texts)
    assert wrong == 0  # 44,850 pairs
    rates = {}
    for share in (0.02, 0.05, 0.3):
        copies = [gap.join(edited(draw, words, text, share)) for text in texts]
        # Asked of a copy of what is known each: a copy that is not found would be known itself from then on.
        rates[share] = np.mean([are_near(gap.join(text), copy) for text, copy in zip(texts, copies, strict=True)])
    assert rates[0.02] == 1
    assert rates[0.05] >= 0.98
    assert rates[0.3] == 0
    again = [known.seen(fingerprint(gap.join(edited(draw, words, text, 0.05)), "near")) for text in texts]
    assert np.mean(again) >= 0.98


def test_the_likeness_told_is_the_true_one() -> None:
    draw = random.Random(3)
    words = vocabulary(draw, chinese=False)
    off = []
    for at in range(200):
        text = written(draw, words, 300)
        copy = edited(draw, words, text, 0.02 + at / 500)
        one, other = (set(duplicates._pairs(tokens).tolist()) for tokens in (text, copy))
        prints = [np.frombuffer(fingerprint(" ".join(tokens), "near"), "<u4") for tokens in (text, copy)]
        agreed = float((prints[0] == prints[1]).mean())
        off.append(2 * agreed / (1 + agreed) - 2 * len(one & other) / (len(one) + len(other)))
    assert abs(np.mean(off)) < 0.01
    assert np.std(off) < 0.05


def test_the_threshold_counts() -> None:
    draw = random.Random(5)
    words = vocabulary(draw, chinese=False)
    text = written(draw, words, 2000)
    one, other = " ".join(text), " ".join(edited(draw, words, text, 0.1))  # about 0.8
    assert are_near(one, other, 0.65)
    assert not are_near(one, other, 0.95)
    assert are_near(one, one, 1.0)
    assert not are_near(one, one + " and nine more words that were not there before", 1.0)


def test_near_does_not_look_at_case_signs_and_spaces() -> None:
    assert are_near("Hello, World! It's late.", "hello world -- it's\n late")
    assert are_near("你好，世界！今天", "你好 世界。今天")
    assert are_near("สวัสดีชาวโลก", "สวัสดี ชาวโลก")


def test_short_texts_are_not_taken_for_each_other() -> None:
    texts = [
        "",
        "!!!",
        "???",
        "👩",
        "👧",
        "a",
        "b",
        "是",
        "不",
        "Chapter 1",
        "Chapter 2",
        "第一章",
        "第二章",
        "yes it is",
    ]
    texts += ["no it is", "I like red apples", "I like green apples", "我喜欢红苹果", "我喜欢绿苹果", "a a", "a a b"]
    for kind in ("exact", "near"):
        known = Duplicates(kind)
        assert not any(known.seen(fingerprint(text, kind)) for text in texts)
        assert all(known.seen(fingerprint(text, kind)) for text in texts)


def test_exact_is_exact_but_for_white_space_at_the_ends() -> None:
    known = Duplicates("exact")
    assert not known.seen(fingerprint("Ein Haus.", "exact"))
    assert known.seen(fingerprint("\n Ein Haus.　", "exact"))
    for other in ("ein Haus.", "Ein  Haus.", "Ein Haus", "Ein\nHaus."):
        assert not known.seen(fingerprint(other, "exact"))
    assert len(fingerprint("x" * 1000, "exact")) == 16
    assert len(fingerprint("half a surrogate \ud800", "exact")) == 16
    assert len(fingerprint("half a surrogate \ud800", "near")) == 512


def test_the_first_stays_and_the_dropped_is_not_compared_with() -> None:
    draw = random.Random(11)
    words = vocabulary(draw, chinese=False)
    chain = [written(draw, words, 400)]
    for _ in range(6):
        chain.append(edited(draw, words, chain[-1], 0.06))
    known = Duplicates("near")
    seen = [known.seen(fingerprint(" ".join(text), "near")) for text in chain]
    assert seen[:2] == [False, True]
    assert False in seen[2:]  # too far from the first, though near the one before it


def test_many_documents_are_still_known_after_the_table_grew() -> None:
    draws = np.random.default_rng(0)
    prints = [row.tobytes() for row in draws.integers(0, 1 << 32, (20_000, duplicates.MINIMA), np.uint32)]
    known = Duplicates("near")
    assert not any(known.seen(one) for one in prints)
    assert all(known.seen(one) for one in prints)
    filled = np.count_nonzero(known._table) / (len(prints) * known._bands)
    assert filled > 0.98


SCRIPT = """
import hashlib, sys
from bertworks.text.cleaning import Duplicates, fingerprint
words = [f"w{at * at % 97}" for at in range(4000)] + list("今天天气很好我们去公园散步")
texts = [" ".join(words[at : at + 60 + at % 7]) for at in range(0, 3900, 9)]
prints = [fingerprint(text, kind) for kind in ("exact", "near") for text in texts]
known = Duplicates("near", 0.7)
seen = bytes(known.seen(one) for one in prints)
print(hashlib.sha256(b"".join(prints) + seen).hexdigest(), sum(seen))
"""


def test_the_hash_seed_does_not_matter() -> None:
    said = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        )
        said.add(done.stdout)
    assert len(said) == 1
    assert int(said.pop().split()[1]) > 0


def test_near_fingerprints_are_what_plain_integers_give() -> None:
    """The oracle: no NumPy, no type of this machine; so they are the same on every other."""
    tokens = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "今", "天", "天", "气", "很", "好"]
    odd = [int.from_bytes(shake_128(b"odd factors").digest(1024)[8 * at :][:8], "little") | 1 for at in range(128)]
    drawn = shake_128(b"bertworks near duplicates").digest(1024)
    numbers = [int.from_bytes(drawn[4 * at :][:4], "little") for at in range(256)]
    hashes = [0, *(crc32(token.encode()) for token in tokens), 0]
    pairs = set()
    for first, second in pairwise(hashes):
        bits = (first * odd[0] + second * odd[1]) % 2**64
        for factor in (odd[-1], odd[-2]):
            bits = (bits ^ bits >> 32) * factor % 2**64
        pairs.add(bits >> 32)
    least = [
        min((pair * (factor | 1) + term) % 2**32 for pair in pairs)
        for factor, term in zip(numbers[:128], numbers[128:], strict=True)
    ]
    text = "The quick brown fox jumps over the lazy dog. 今天天气很好。"
    assert fingerprint(text, "near") == b"".join(one.to_bytes(4, "little") for one in least)
