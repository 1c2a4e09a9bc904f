"""Tokenizers trained from text: the same from the same, whole, of the size asked, and as good as the libraries' own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
import tokenizers
from tokenizers import models, pre_tokenizers, trainers
from transformers import AutoTokenizer

from bertworks.errors import BertworksWarning, ConfigError, InputError
from bertworks.text import training
from bertworks.text.tokenizer import Tokenizer
from tests.text.oracles import made_text

KINDS = ["wordpiece", "byte-bpe", "unigram"]
TEXTS = made_text(11, 6000)
ODD = [
    "The quick brown fox — 敏捷的棕色狐狸。",
    "Ünïcödé [MASK] <mask> <s> İstanbul",
    "",
    " \t ",
    "don't 3.14 👩\u200d👧",
]
ASCII = "".join(map(chr, range(0x20, 0x7F)))


def quiet(texts: list[str], kind: str, size: int, cased: bool = False) -> Tokenizer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BertworksWarning)
        return training.train(texts, kind, size, cased=cased)


@pytest.fixture(scope="module", params=[(kind, cased) for kind in KINDS for cased in (False, True)], ids=str)
def made(request: pytest.FixtureRequest) -> tuple[str, bool, Tokenizer]:
    kind, cased = request.param
    with warnings.catch_warnings():
        warnings.simplefilter("error", BertworksWarning)  # of enough text nothing is told
        return kind, cased, training.train(TEXTS, kind, 3000, cased=cased)


# -- what comes out --------------------------------------------------------------------------------------


def test_size_family_and_case_are_as_asked(made: tuple[str, bool, Tokenizer]) -> None:
    kind, cased, ours = made
    assert (ours.vocab_size, len(set(ours.tokens)), ours.kind) == (3000, 3000, kind)
    assert ours.family == training.KINDS[kind].family
    assert ours.lowercase == (kind != "byte-bpe" and not cased)


def test_special_tokens_have_the_published_places(made: tuple[str, bool, Tokenizer]) -> None:
    kind, _, ours = made
    first, last = {
        "wordpiece": (["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], None),
        "byte-bpe": (["<s>", "<pad>", "</s>", "<unk>"], "<mask>"),
        "unigram": (["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"], None),
    }[kind]
    assert ours.tokens[: len(first)] == first
    assert ours.mask_id == (2999 if last else 4)
    assert ours.tokens[ours.mask_id] == (last or "[MASK]")
    encoded = ours.encode(f"a {ours.mask_token} b")
    assert encoded.ids.count(ours.mask_id) == 1
    assert (encoded.ids[0], encoded.ids[-1]) == (ours.cls_id, ours.sep_id)


def test_nothing_ordinary_is_unknown(made: tuple[str, bool, Tokenizer]) -> None:
    _, _, ours = made
    texts = [ASCII, *ASCII, " ".join(ASCII), "x".join(ASCII), *TEXTS]  # all of its Chinese as well
    for text, ids in zip(texts, ours.ids_of(texts), strict=True):
        assert ours.unk_id not in ids, text


def test_transformers_opens_the_folder_with_equal_ids(made: tuple[str, bool, Tokenizer], tmp_path: Path) -> None:
    kind, cased, ours = made
    ours.save(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    names = {"wordpiece": "BertTokenizer", "byte-bpe": "RobertaTokenizer", "unigram": "AlbertTokenizer"}
    assert type(theirs).__name__ == names[kind]
    assert theirs.mask_token_id == ours.mask_id
    texts = [*TEXTS[:300], *ODD]
    wanted = theirs(texts, return_offsets_mapping=True)
    for text, item, ids, offsets in zip(
        texts, ours.encode_batch(texts), wanted["input_ids"], wanted["offset_mapping"], strict=True
    ):
        assert (item.ids, item.offsets) == (ids, offsets), text
    assert Tokenizer.load(tmp_path).digest == ours.digest
    if not cased or kind == "byte-bpe":
        assert ours.decode(ours.encode("the quick brown fox").ids).strip() == "the quick brown fox"


def test_merges_of_a_byte_bpe_are_in_its_vocabulary() -> None:
    ours = quiet(TEXTS, "byte-bpe", 1000)
    known = set(ours.tokens)
    assert all({one, two, one + two} <= known for one, two in ours._state["model"]["merges"])
    assert len(ours._state["model"]["merges"]) == 1000 - 256 - 5


# -- the same from the same ------------------------------------------------------------------------------

CODE = """
import hashlib, sys, warnings
from pathlib import Path
from bertworks.text import training
from tests.text.oracles import made_text
warnings.simplefilter("ignore")
for kind in ("wordpiece", "byte-bpe", "unigram"):
    for cased in (False, True):
        made = training.train(made_text(12, 2500) + ["中文和 English é ñ 😀" * 9], kind, 1500, cased=cased)
        made.save(Path(sys.argv[1]) / f"{kind}-{cased}")
"""


def test_the_same_bytes_in_any_process(tmp_path: Path) -> None:
    """Under other hash seeds, numbers of threads and locales."""
    runs = [
        {"PYTHONHASHSEED": "0", "RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        {"PYTHONHASHSEED": "1", "RAYON_NUM_THREADS": "2", "LC_ALL": "C"},
        {"PYTHONHASHSEED": "77", "RAYON_NUM_THREADS": "5", "TOKENIZERS_PARALLELISM": "false"},
    ]
    seen = []
    for at, environment in enumerate(runs):
        folder = tmp_path / str(at)
        root = Path(__file__).parents[2]
        subprocess.run([sys.executable, "-c", CODE, folder], check=True, cwd=root, env={**os.environ, **environment})
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        seen.append({str(path.relative_to(folder)): path.read_bytes() for path in files})
    assert len(seen[0]) == 2 * (4 + 5 + 3)
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize("kind", KINDS)
def test_folding_on_the_way_changes_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = quiet(TEXTS, kind, 1000)
    monkeypatch.setattr(training, "HELD_CHARACTERS", 10_000)
    assert quiet(TEXTS, kind, 1000).digest == whole.digest
    assert quiet(list(iter(TEXTS)), kind, 1000).digest == whole.digest


def test_when_there_are_too_many_words_once_seen_ones_go_and_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "HELD_CHARACTERS", 10_000)
    monkeypatch.setattr(training, "MOST_WORDS", 2_000)
    with pytest.warns(BertworksWarning, match="forgotten"):
        made = training.train(TEXTS, "wordpiece", 1000)
    assert made.vocab_size == 1000
    monkeypatch.setattr(training, "MOST_LETTERS", 5_000)
    with pytest.warns(BertworksWarning, match="learnt from the"):
        training.train(TEXTS, "wordpiece", 600, cased=True)


# -- too little, too small, too odd ----------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "least"), [("wordpiece", 109), ("byte-bpe", 261), ("unigram", 74)])
def test_too_small_a_vocabulary_is_refused_before_reading(kind: str, least: int) -> None:
    def unread() -> None:
        raise AssertionError("it was read")
        yield

    with pytest.raises(ConfigError, match=f"ask for at least {least}"):
        training.train(unread(), kind, least - 1)
    made = quiet(["a text"], kind, least)
    assert made.vocab_size <= least
    assert made.unk_id not in made.ids_of([ASCII])[0]


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_is_an_error_and_little_is_told(kind: str) -> None:
    for texts in ([], [""], [" ", "\n\t", "\u3000"] if kind != "byte-bpe" else [""]):
        with pytest.raises(InputError, match="no text to learn from"):
            training.train(texts, kind, 1000)
    with pytest.warns(BertworksWarning, match="the text is enough for"):
        made = training.train(["hello 世界"], kind, 1000)
    assert made.vocab_size < 1000
    assert made.unk_id not in made.ids_of([ASCII + " hello"])[0]


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(InputError, match="the kinds are"):
        training.train(["a"], "bpe", 1000)


@pytest.mark.parametrize("kind", KINDS)
def test_odd_texts_are_learnt_from(kind: str, tmp_path: Path) -> None:
    odd = [*ODD, "\ud800 half \udfff", "NUL\0NUL\0", "\ufeff\u200b", "[MASK] [UNK] <s> ▁ ## Ġ", "\u2028", "x" * 99_999]
    made = quiet([*TEXTS[:600], *odd * 20], kind, 1200)
    assert made.encode("NUL\0 \ud800").ids
    made.save(tmp_path)
    assert Tokenizer.load(tmp_path).digest == made.digest
    assert AutoTokenizer.from_pretrained(tmp_path)(ODD)["input_ids"] == [one.ids for one in made.encode_batch(ODD)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", ["abcdefghij", "自然语言处理很有意思", "-=", "é", "ก็ไม่รู้"])
def test_a_megabyte_without_a_space(kind: str, unit: str) -> None:
    start = time.monotonic()
    made = quiet([unit * (1_000_000 // len(unit.encode())), *TEXTS[:300]], kind, 900)
    assert time.monotonic() - start < 30
    assert made.vocab_size <= 900
    if unit[0] == "自":
        assert made.unk_id not in made.ids_of([unit])[0]


@pytest.mark.parametrize("kind", ["wordpiece", "unigram"])
def test_chinese_characters_come_before_others(kind: str) -> None:
    chinese = "".join(map(chr, range(0x4E00, 0x4E00 + 400)))
    others = " ".join(map(chr, range(0x1400, 0x1400 + 300)))
    with pytest.warns(BertworksWarning, match="300 of 7.. different characters have no room"):
        made = training.train([*(chinese,) * 6, *(others,) * 5, ASCII], kind, 640)
    assert made.unk_id not in made.ids_of([chinese])[0]  # these may fill more than half of it
    assert made.unk_id in made.ids_of([others])[0]


# -- as good as the libraries' own -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_as_good_as_the_library(kind: str) -> None:
    _as_good(kind, TEXTS[:5000], TEXTS[5000:], 3000)


@pytest.mark.parametrize("kind", KINDS)
def test_as_few_tokens_as_the_library_makes_of_real_text(kind: str, data: Path) -> None:
    import zstandard

    with zstandard.open(data / "enwiki_2006" / "dev.jsonl.zst", "rt", encoding="utf8") as file:
        texts = [json.loads(line)["text"] for line in file]
    tokens = _as_good(kind, texts[30:150], texts[:30], 4000)
    assert tokens <= (1.02 if kind == "unigram" else 1.005)


def _as_good(kind: str, texts: list[str], others: list[str], size: int) -> float:
    """How many tokens of other text for each of the library's own; a Unigram is held to what it is trained for."""
    ours = quiet(texts, kind, size)
    of = training.KINDS[kind]
    common = {"vocab_size": size, "special_tokens": [*of.specials, *of.last], "show_progress": False}
    theirs, trainer = {
        "wordpiece": lambda: (models.WordPiece(unk_token="[UNK]"), trainers.WordPieceTrainer(**common)),
        "byte-bpe": lambda: (
            models.BPE(),
            trainers.BpeTrainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **common),
        ),
        "unigram": lambda: (models.Unigram(), trainers.UnigramTrainer(unk_token="<unk>", **common)),
    }[kind]()
    library = tokenizers.Tokenizer(theirs)
    library.normalizer, library.pre_tokenizer = ours._library.normalizer, ours._library.pre_tokenizer
    library.train_from_iterator(texts, trainer)
    own = [id for ids in ours.ids_of(others) for id in ids]
    peer = [id for one in library.encode_batch(others, add_special_tokens=False) for id in one.ids]
    if kind == "unigram":
        assert nats(ours._library, own) <= nats(library, peer) * 1.01
    else:
        assert len(own) <= len(peer) * 1.005
    return len(own) / len(peer)


def nats(library: tokenizers.Tokenizer, ids: list[int]) -> float:
    """How unlikely a Unigram finds its own segmentation; an unknown is as costly in any."""
    model = json.loads(library.to_str())["model"]
    scores = [score for _, score in model["vocab"]]
    return -sum(scores[at] if at != model["unk_id"] else -20.0 for at in ids)


# -- stopped on the way ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stage", ["reading", "training"])
def test_ctrl_c_ends_it_at_once_and_leaves_nothing(kind: str, stage: str, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(made_text(14, 100_000)), encoding="utf8")
    out = tmp_path / "there" / "out"
    out.parent.mkdir()
    command = [sys.executable, "-m", "bertworks", "tokenizer", "train", corpus, "--out", out, "--kind", kind]
    run = subprocess.Popen([*command, "--vocab-size", "30000"], stderr=subprocess.PIPE, text=True)
    assert run.stderr is not None
    if stage == "training":
        assert any(line.startswith("training on") for line in run.stderr)
    else:
        while not list(out.parent.iterdir()):
            time.sleep(0.01)
    time.sleep(0.2)
    run.send_signal(signal.SIGINT)
    start = time.monotonic()
    said = run.communicate(timeout=60)[1]
    assert run.returncode == 130, said
    assert time.monotonic() - start < 5
    assert "interrupted" in said
    assert "Traceback" not in said
    assert not list(out.parent.iterdir())
