"""`bertworks tokenizer train` and `encode`, as a person types them."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from pathlib import Path

import pytest

from bertworks.text.tokenizer import Tokenizer
from tests.shell import bertworks
from tests.text.oracles import made_text

SENTENCE = "使用语言模型来预测下一个词。"
WORDS = ["使用", "语言", "模型", "来", "预测", "下", "一个", "词", "。"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text("\n".join([*made_text(21, 1500), *(SENTENCE, "Hello, world! the cat's life") * 20]), "utf8")
    return path


@pytest.fixture(scope="module", params=["wordpiece", "byte-bpe", "unigram"])
def folder(request: pytest.FixtureRequest, corpus: Path) -> Path:
    out = corpus.parent / request.param
    done = bertworks("tokenizer", "train", corpus, "--out", out, "--kind", request.param, "--vocab-size", 2000)
    assert done.code == 0, done.err
    assert done.out == f"{out}: {request.param}, 2,000 tokens from 1,540 documents in {done.out.split()[-2]} s\n"
    said = done.err.splitlines()
    assert said[0].startswith("read 1,540 documents, 0.")
    assert said[1].startswith("training on ")
    assert not said[2:] or said[2].startswith("note: ")
    return out


def rows(text: str) -> list[dict[str, list]]:
    return [json.loads(line) for line in text.splitlines()]


# -- train -----------------------------------------------------------------------------------------------


def test_what_is_trained_is_told_and_there(corpus: Path, tmp_path: Path) -> None:
    done = bertworks(
        *("tokenizer", "train", corpus, "--out", tmp_path / "tok", "--kind", "wordpiece"),
        *("--vocab-size", 2000, "--cased", "--json", "--quiet"),
    )
    result = done.json()
    assert done.err == ""
    seconds, megabytes = result.pop("seconds"), result.pop("megabytes")
    assert 0 < seconds < 60
    assert abs(megabytes - corpus.stat().st_size / 1e6) < 0.01
    assert result == {
        "out": str(tmp_path / "tok"),
        "kind": "wordpiece",
        "vocab_size": 2000,
        "cased": True,
        "documents": 1540,
    }
    assert not Tokenizer.load(tmp_path / "tok").lowercase
    assert sorted(path.name for path in (tmp_path / "tok").iterdir()) == [
        "special_tokens_map.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "vocab.txt",
    ]


def test_many_files_of_many_kinds_give_what_one_gives(corpus: Path, tmp_path: Path) -> None:
    lines = corpus.read_text("utf8").split("\n")
    (tmp_path / "a.txt").write_text("\n".join(lines[:500]), "utf8")
    (tmp_path / "b.jsonl").write_text("".join(json.dumps({"body": line}) + "\n" for line in lines[500:]), "utf8")
    options = ("--kind", "unigram", "--vocab-size", 1500)
    one = bertworks("tokenizer", "train", corpus, "--out", tmp_path / "one", *options)
    two = bertworks(
        *("tokenizer", "train", tmp_path / "b.jsonl", tmp_path / "a.txt", "--column", "body"),
        *("--out", tmp_path / "two", *options),
    )
    assert (one.code, two.code) == (0, 0), two.err
    assert (tmp_path / "one/tokenizer.json").read_bytes() == (tmp_path / "two/tokenizer.json").read_bytes()


def test_what_is_wrong_in_the_files_is_counted(tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_bytes(b"fine words here\nbad \xff\xfe bytes\nnul \0 here\n" * 40)
    done = bertworks(
        *("tokenizer", "train", tmp_path / "bad.txt", "--out", tmp_path / "tok"),
        *("--kind", "byte-bpe", "--vocab-size", 300),
    )
    assert done.code == 0
    assert "bad utf8 lines: 40" in done.err
    assert "nul characters: 40" in done.err
    assert "the text is enough for" in done.err
    assert "_" not in done.err


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ({"FILE": "nothing.txt"}, 1, "nothing.txt"),
        ({"FILE": "empty.txt"}, 1, "there is no text to learn from"),
        ({"FILE": "rows.jsonl"}, 1, "no column 'text'"),
        ({"--out": "taken"}, 1, "is there already and not empty"),
        ({"--out": "empty.txt"}, 2, "is a file"),
        ({"--vocab-size": "50"}, 1, "ask for at least 109"),
        ({"--vocab-size": "0"}, 2, "--vocab-size"),
        ({"--vocab-size": None}, 2, "--vocab-size"),
        ({"--kind": "bpe"}, 2, "'wordpiece', 'byte-bpe', 'unigram'"),
        ({"--kind": None}, 2, "--kind"),
        ({"--out": None}, 2, "--out"),
        ({"FILE": None}, 2, "FILE"),
    ],
)
def test_mistakes_are_told_in_a_line_or_two(
    change: dict[str, str | None], code: int, said: str, corpus: Path, tmp_path: Path
) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine.txt").write_text("keep me")
    (tmp_path / "empty.txt").touch()
    (tmp_path / "rows.jsonl").write_text('{"body": "words"}\n')
    before = sorted(tmp_path.rglob("*"))
    given = {"FILE": str(corpus), "--out": "out", "--kind": "wordpiece", "--vocab-size": "1000"} | change
    arguments: list[object] = []
    for name, value in given.items():
        if value is not None:
            path = tmp_path / value if name in ("FILE", "--out") else value
            arguments += [path] if name == "FILE" else [name, path]
    done = bertworks("tokenizer", "train", *arguments)
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert "Traceback" not in done.err
    if code == 1:
        error = done.err[done.err.index("error:") :]
        assert len(error.splitlines()) <= 2
    assert sorted(tmp_path.rglob("*")) == before, "nothing is left behind"


# -- encode ----------------------------------------------------------------------------------------------


def test_a_text_is_shown_token_by_token(folder: Path) -> None:
    text = "Hello, the cat's life [MASK]" if folder.name != "byte-bpe" else "Hello, the cat's life <mask>"
    done = bertworks("tokenizer", "encode", folder, text)
    (row,) = rows(done.out)
    assert list(row) == ["ids", "tokens", "offsets", "words"]
    assert len({len(column) for column in row.values()}) == 1
    ours = Tokenizer.load(folder)
    assert row["ids"] == ours.encode(text).ids
    assert row["tokens"] == [ours.token(at) for at in row["ids"]]
    assert [tuple(span) for span in row["offsets"]] == ours.encode(text).offsets
    assert row["words"][0] is row["words"][-1] is None
    assert row["tokens"][-2] == ours.mask_token


def test_chinese_words_are_marked(folder: Path) -> None:
    (row,) = rows(bertworks("tokenizer", "encode", folder, SENTENCE).out)
    found: dict[int, list[int]] = {}
    for (start, end), number in zip(row["offsets"], row["words"], strict=True):
        if number is not None:
            span = found.setdefault(number, [start, end])
            span[1] = max(span[1], end)
    whole = [SENTENCE[start:end] for start, end in found.values()]
    assert "".join(whole) == SENTENCE
    if folder.name == "wordpiece":  # one token a character, so that words are the segmenter's
        assert whole == WORDS
        (row,) = rows(bertworks("tokenizer", "encode", folder, SENTENCE, "--no-segment").out)
        assert row["words"] == [None, *range(len(SENTENCE)), None]


def test_standard_input_is_a_text_a_line(folder: Path) -> None:
    lines = ["Hello, world!", "", SENTENCE, "a\tb\x85c\u2028d"]
    done = bertworks("tokenizer", "encode", folder, "-", stdin="\n".join(lines) + "\r\n")
    assert done.code == 0
    alone = [rows(bertworks("tokenizer", "encode", folder, line).out)[0] for line in lines]
    assert rows(done.out) == alone
    assert bertworks("tokenizer", "encode", folder, stdin="\n".join(lines)).out == done.out
    many = bertworks("tokenizer", "encode", folder, stdin="Hello, world!\n" * 700)
    assert rows(many.out) == alone[:1] * 700
    assert bertworks("tokenizer", "encode", folder, stdin="").out == ""
    bad = bertworks("tokenizer", "encode", folder, stdin=b"a \xff b\n")
    assert rows(bad.out) == rows(bertworks("tokenizer", "encode", folder, "a \ufffd b").out)


def test_a_pipe_is_answered_line_by_line(folder: Path) -> None:
    command = [sys.executable, "-m", "bertworks", "tokenizer", "encode", str(folder), "-"]
    told = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            for asked in ("\ufeffHello, world!\na", f"b\n{SENTENCE[:4]}", f"{SENTENCE[4:]}\n"):  # some in halves
                process.stdin.write(asked.encode())
                assert select.select([process.stdout], [], [], 60)[0], "no answer"
                told.append(json.loads(process.stdout.readline()))
            process.stdin.close()
            assert process.stdout.read() == b""
            assert process.wait(60) == 0
        finally:
            process.kill()
    texts = ("Hello, world!", "ab", SENTENCE)
    assert told == [rows(bertworks("tokenizer", "encode", folder, text).out)[0] for text in texts]


def test_a_byte_order_mark_is_no_part_of_the_first_line(folder: Path) -> None:
    (wanted,) = rows(bertworks("tokenizer", "encode", folder, "Hello").out)
    for ending in ("", "\n"):
        assert rows(bertworks("tokenizer", "encode", folder, stdin=f"\ufeffHello{ending}").out) == [wanted]
    marked = rows(bertworks("tokenizer", "encode", folder, stdin="Hello\n\ufeffHello\n").out)
    assert marked[1] == rows(bertworks("tokenizer", "encode", folder, "\ufeffHello").out)[0], "only the first line's"
    assert bertworks("tokenizer", "encode", folder, stdin="\ufeff").out == ""


def test_pairs_and_limits(folder: Path) -> None:
    ours = Tokenizer.load(folder)
    (row,) = rows(bertworks("tokenizer", "encode", folder, SENTENCE, "--pair", "Hello, world!").out)
    encoded = ours.encode(SENTENCE, "Hello, world!")
    assert row["ids"] == encoded.ids
    own = [number for number in row["words"] if number is not None]
    assert own == sorted(own), "words of the second text are not those of the first"
    assert [number is None for number in row["words"]] == encoded.special
    (row,) = rows(bertworks("tokenizer", "encode", folder, SENTENCE, "--max-length", 3).out)
    assert row["ids"] == ours.encode(SENTENCE, max_length=3).ids
    assert (len(row["ids"]), len(row["words"])) == (3, 3)
    (row,) = rows(bertworks("tokenizer", "encode", folder, SENTENCE, "--no-specials").out)
    assert None not in row["words"]
    assert row["ids"] == ours.encode(SENTENCE, specials=False).ids


def test_mistakes_in_encode(folder: Path, tmp_path: Path) -> None:
    for arguments, code, said in (
        (("encode", tmp_path / "nothing", "a"), 1, "nothing"),
        (("encode", tmp_path, "a"), 1, "holds no tokenizer"),
        (("encode", folder, "a", "--max-length", 1), 1, "special tokens alone"),
        (("encode", folder, "-", "--pair", "b"), 1, "--pair goes with one TEXT"),
        (("encode", folder, "a", "--max-length", 0), 2, "--max-length"),
        (("encode",), 2, "MODEL"),
        (("encode", folder, "a", "b"), 2, "unexpected extra argument"),
        (("show", folder), 2, "No such command 'show'"),
    ):
        done = bertworks("tokenizer", *arguments)
        assert (done.code, done.out) == (code, ""), arguments
        assert said in done.err
        assert "Traceback" not in done.err


def test_options_may_come_from_the_environment(folder: Path) -> None:
    done = bertworks("tokenizer", "encode", folder, SENTENCE, BERTWORKS_TOKENIZER_ENCODE_MAX_LENGTH="3")
    assert len(rows(done.out)[0]["ids"]) == 3


def test_help_says_what_there_is() -> None:
    said = bertworks("tokenizer", "--help").out
    assert "Learn a vocabulary from files" in said
    assert "..." not in said.replace("[ARGS]...", ""), "no line is cut short"
    assert "--vocab-size" in bertworks("tokenizer", "train", "--help").out
    assert SENTENCE in bertworks("tokenizer", "encode", "--help").out
