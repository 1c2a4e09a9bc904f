"""`prepare` and `check` by the command line, as a person types them."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bertworks.errors import BertworksWarning
from bertworks.inspect.examples import Spelling, shown
from bertworks.objectives.batches import Examples
from bertworks.objectives.published import PUBLISHED
from bertworks.text.store import Store
from bertworks.text.tokenizer import Tokenizer

from ..shell import bertworks
from ..stores import SPECIALS, plain_tokenizer, random_documents, store_of
from ..text import corpora


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A corpus, a tokenizer, a store."""
    folder = tmp_path_factory.mktemp("prepare")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BertworksWarning)
        corpora.tokenizer(folder / "t")
    corpus = corpora.written(folder / "c.jsonl", corpora.documents(300))
    done = bertworks("prepare", corpus, "--tokenizer", folder / "t", "--out", folder / "s", "--workers", 1)
    assert done.code == 0, done.err
    assert f"{sum(bool(one.strip()) for one in corpora.documents(300))} documents" in done.out
    assert "documents read" in done.out
    assert f"next: bertworks check {folder / 's'}" in done.out
    return corpus, folder / "t", folder / "s"


def test_prepare_as_json(made: tuple[Path, Path, Path], tmp_path: Path) -> None:
    corpus, tokenizer, store = made
    value = bertworks(
        "prepare", corpus, "--tokenizer", tokenizer, "--out", tmp_path / "s", "--duplicates", "exact", "--shortest", 50,
        "--spaces", "--json", "--workers", 1,
    ).json()  # fmt: skip
    assert value["documents"] == Store(tmp_path / "s").documents < Store(store).documents
    assert value["report"]["dropped_short"] > 0
    assert value["report"]["dropped_duplicate"] > 0
    assert set(value) == {
        "out", "documents", "sentences", "tokens", "words", "unknown", "dtype", "shards", "report", "seconds"
    }  # fmt: skip


def test_prepare_takes_a_stores_or_models_tokenizer(made: tuple[Path, Path, Path], tmp_path: Path) -> None:
    done = bertworks("prepare", made[0], "--tokenizer", made[2], "--out", tmp_path / "s", "--workers", 1, "--json")
    assert done.json()["tokens"] == Store(made[2]).tokens
    assert Store(tmp_path / "s").digest == Store(made[2]).digest


def test_prepare_from_standard_input(made: tuple[Path, Path, Path], tmp_path: Path) -> None:
    done = bertworks(
        "prepare", "-", "--tokenizer", made[1], "--out", tmp_path / "s", "--workers", 1, stdin="one line\nanother one\n"
    )
    assert done.code == 0, done.err
    assert Store(tmp_path / "s").documents == 2


def test_one_of_each_into_an_empty_folder(made: tuple[Path, Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "a store"
    out.mkdir()
    done = bertworks("prepare", "-", "--tokenizer", made[1], "--out", out, "--workers", 1, stdin="the river\n")
    assert done.code == 0, done.err
    assert ": 1 document, 1 sentence, 2 tokens in 1 shard, " in done.out
    assert f"next: bertworks check '{out}'\n" in done.out
    done = bertworks("check", out)
    assert ": 1 document, 1 sentence, 2 tokens\n" in done.out
    assert f"next: bertworks check '{out}' --show 3 --objective bert\n" in done.out


def test_options_from_the_environment(made: tuple[Path, Path, Path], tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("the river\nthe bridge\n")
    done = bertworks(
        *("prepare", tmp_path / "c.txt", "--tokenizer", made[1], "--out", tmp_path / "s", "--workers", 1),
        BERTWORKS_PREPARE_DOCUMENTS="file",
        BERTWORKS_PREPARE_JSON="1",
    )
    assert done.json()["documents"] == 1


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nothing.jsonl"], 1, "nothing.jsonl is not a file"),
        (["{corpus}", "--column", "txt"], 1, "no column 'txt'"),
        (["{corpus}", "--documents", "lines"], 2, "'lines' is not one of"),
        (["{corpus}", "--language", "english"], 1, "cleaning.languages has 'english'"),
        (["{corpus}", "--out", "{store}"], 1, "is there already"),
        (["{corpus}", "--tokenizer", "{corpus}"], 1, "is a file, not a model folder"),
        (["{corpus}", "--likeness", "0.8"], 2, "--likeness goes with --duplicates near"),
        (["{corpus}", "--duplicates", "exact", "--likeness", "0.9"], 2, "--likeness goes with --duplicates near"),
        ([], 2, "Missing argument 'SOURCE...'"),
    ],
)
def test_misuse_is_told_in_a_line_or_two(
    made: tuple[Path, Path, Path], tmp_path: Path, arguments: list[str], code: int, said: str
) -> None:
    names = dict(zip(("corpus", "tokenizer", "store"), made, strict=True))
    given = [one.format(**names) for one in arguments]
    if "--out" not in given:
        given += ["--out", str(tmp_path / "s")]
    if "--tokenizer" not in given:
        given += ["--tokenizer", str(made[1])]
    done = bertworks("prepare", *given)
    assert done.code == code
    assert said in done.err
    assert "Traceback" not in done.err
    if code == 1:
        assert len(done.err.strip().splitlines()) <= 2
    assert not (tmp_path / "s").exists()


def test_check_reports_and_passes(made: tuple[Path, Path, Path]) -> None:
    done = bertworks("check", made[2])
    assert done.code == 0
    assert "every digest matches" in done.out
    assert "padding       in rows of 128: segment-pairs" in done.out
    assert "warning: " in done.out  # so little text is worth one
    assert "tokens are few" in done.out
    value = bertworks("check", made[2], "--json").json()
    assert value["errors"] == []
    store = Store(made[2])
    assert (value["documents"], value["sentences"], value["tokens"]) == (store.documents, store.sentences, store.tokens)
    assert value["duplicate_documents"] > 5
    assert any("more than once" in one for one in value["warnings"])
    lengths = np.concatenate([np.diff(shard.document_tokens) for shard in store.shards()])
    assert value["document_tokens"]["longest"] == lengths.max()
    assert value["document_tokens"]["median"] == int(np.median(lengths))
    assert set(value["languages"]) >= {"en", "zh"}
    assert 0 <= value["padding"]["packed"] < value["padding"]["documents"] < 1


def test_check_finds_what_is_broken(made: tuple[Path, Path, Path], tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "s"
    shutil.copytree(made[2], folder)
    shard = next((folder / "shards").iterdir())
    data = bytearray(shard.read_bytes())
    data[len(data) // 3] ^= 4
    shard.write_bytes(data)
    done = bertworks("check", folder)
    assert done.code == 1
    assert f"{shard.name} was changed since it was written" in done.out
    value = json.loads(bertworks("check", folder, "--json").out)
    assert len(value["errors"]) == 1
    done = bertworks("check", tmp_path / "none")
    assert done.code == 1
    assert "is not a store" in done.err


def test_check_verifies_the_indexes_too(made: tuple[Path, Path, Path], tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "s"
    shutil.copytree(made[2], folder)
    assert bertworks("check", folder, "--show", 1).code == 0
    start = next((folder / "indexes").glob("*/start"))
    data = bytearray(start.read_bytes())
    data[5] ^= 1
    start.write_bytes(data)
    done = bertworks("check", folder)
    assert done.code == 1
    assert "start was changed since it was written; remove" in done.out


def test_check_against_a_model(made: tuple[Path, Path, Path], tmp_path: Path) -> None:
    assert bertworks("check", made[2], "--model", made[1]).code == 0
    plain_tokenizer(tmp_path / "other")
    done = bertworks("check", made[2], "--model", tmp_path / "other")
    assert done.code == 1
    assert "prepared with another tokenizer" in done.err


@pytest.mark.parametrize("objective", ["bert", "bert-wwm", "roberta", "albert", "macbert"])
def test_show_prints_examples_as_they_are(made: tuple[Path, Path, Path], objective: str) -> None:
    done = bertworks("check", made[2], "--show", 3, "--objective", objective, "--length", 64)
    assert done.code == 0, done.err
    assert done.out.count("example ") == 3
    assert "→" in done.out
    value = json.loads(bertworks("check", made[2], "--show", 3, "--objective", objective, "--length", 64, "--json").out)
    tokenizer = Store(made[2]).tokenizer
    for one in value["examples"]:
        ids = [token for stretch in one["stretches"] for token in stretch["ids"]]
        assert len(ids) == one["tokens"] <= 64
        chosen = [s for s in one["stretches"] if s["kind"] in ("masked", "replaced", "kept")]
        assert sum(len(stretch["right"]) for stretch in chosen) == one["chosen"]
        assert all(set(s["ids"]) == {tokenizer.mask_id} for s in chosen if s["kind"] == "masked")
        assert all(s["ids"] == s["right"] for s in chosen if s["kind"] == "kept")
        assert bool(one["answers"]) == (objective != "roberta")
        assert one["documents"][0].startswith(str(made[0]))
    again = bertworks("check", made[2], "--show", 3, "--objective", objective, "--length", 64)
    assert again.out == done.out
    other = bertworks("check", made[2], "--show", 3, "--objective", objective, "--length", 64, "--seed", 5)
    assert other.out != done.out


def test_show_keeps_chinese_words_whole(made: tuple[Path, Path, Path]) -> None:
    done = bertworks("check", made[2], "--show", 12, "--objective", "bert-wwm", "--json")
    words = [s["was"] for one in done.json()["examples"] for s in one["stretches"] if s["kind"] == "masked"]
    assert {one for one in words if len(one) > 1} & set(corpora.CHINESE)


def test_no_colour_where_it_is_not_wanted(made: tuple[Path, Path, Path]) -> None:
    assert "\x1b[" not in bertworks("check", made[2], "--show", 1).out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--show", "1", "--objective", "robert"], "'bert', 'bert-wwm', 'roberta', 'albert', 'macbert'"),
        (["--objective", "albert"], "--objective goes with --show N"),
        (["--objective", "bert"], "--objective goes with --show N"),  # though it is what is taken anyway
        (["--epoch", "0"], "--epoch goes with --show N"),
        (["--vectors", "x.vec"], "--vectors goes with --show N"),
        (["--length", "7"], "8<=x<=65535"),
        (["--length", "65536"], "8<=x<=65535"),
        (["--show", "1", "--length", "65536"], "8<=x<=65535"),
        (["--show", "65536"], "1<=x<=65535"),
        (["--seed", str(2**63)], "--seed"),
    ],
)
def test_misuse_of_check(made: tuple[Path, Path, Path], arguments: list[str], said: str) -> None:
    done = bertworks("check", made[2], *arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_what_only_show_needs_may_stand_in_the_environment(made: tuple[Path, Path, Path]) -> None:
    done = bertworks("check", made[2], BERTWORKS_CHECK_OBJECTIVE="albert", BERTWORKS_CHECK_JSON="1")
    assert done.json()["errors"] == []


# -- what an example says of itself ----------------------------------------------------------------------


def test_a_stranger_was_not_swapped(tmp_path: Path) -> None:
    tokenizer = plain_tokenizer(tmp_path / "t")
    texts = random_documents(tokenizer, 60, 2, sentences=3)
    lone = store_of(tmp_path / "lone", tokenizer, [document[:1] for document in texts])
    done = bertworks("check", lone.folder, "--show", 5, "--objective", "albert", "--json")
    assert [one["answers"] for one in done.json()["examples"]] == [["B is from elsewhere"]] * 5
    mixed = store_of(tmp_path / "mixed", tokenizer, texts[:30] + [document[:1] for document in texts[30:]])
    for layout in ("segment-pairs", "packed"):
        examples = Examples(mixed, replace(PUBLISHED["albert"], layout=layout), 256, say=lambda _: None)
        rows = shown(examples, 0, list(range(examples.count(0))))
        told = [set(one.answers) for one in rows]
        assert set().union(*told) == {"A and B in order", "A and B swapped", "B is from elsewhere"}
        if layout == "packed":
            assert any(len(one) == 3 for one in told), "each sequence of a row is told for itself"
        else:
            assert all((one.answers == ["B is from elsewhere"]) == (len(one.documents) > 1) for one in rows)


def test_a_chosen_word_stays_apart_from_the_next(made: tuple[Path, Path, Path]) -> None:
    all_masked = replace(PUBLISHED["bert-wwm"], rate=0.9, corrupt="mask")
    examples = Examples(Store(made[2]), all_masked, 64)
    numbers = list(range(20))
    rows, chosen, _ = examples.made(0, np.array(numbers))
    for at, one in enumerate(shown(examples, 0, numbers)):
        masked = [stretch for stretch in one.stretches if stretch.kind == "masked"]
        assert len(masked) == int((chosen[at] & rows.begins[at]).sum())


def test_no_space_is_made_up_before_full_width_signs(tmp_path: Path) -> None:
    words = ["词", "。", "模", "“", "”", "…", "—", "，", "hello", ",", "한국"]
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIALS["bert"], *words]) + "\n", encoding="utf8")
    tokenizer = Tokenizer.load(tmp_path)
    spelling = Spelling(tokenizer)

    def text(*tokens: str) -> str:
        return spelling.text([tokenizer.tokens.index(one) for one in tokens])

    assert text("词", "。", "模", "，", "“", "词", "”", "—", "…", "模") == "词。模，“词”—…模"
    assert text("hello", "한국", "hello", ",") == "hello 한국 hello ,"


@pytest.mark.parametrize("objective", ["bert", "macbert"])
def test_the_legend_promises_what_there_is(made: tuple[Path, Path, Path], objective: str) -> None:
    done = bertworks("check", made[2], "--show", 12, "--objective", objective)
    *examples, legend = done.out.strip().splitlines()
    assert ("→[MASK]" in legend) == ("→[MASK]" in "".join(examples)) == (objective == "bert")
    assert ("a similar or random word" in legend) == (objective == "macbert")


def test_a_warning_for_lone_sentences(tmp_path: Path) -> None:
    tokenizer = plain_tokenizer(tmp_path / "t")
    documents = [document[:1] for document in random_documents(tokenizer, 50, 1)]
    store_of(tmp_path / "s", tokenizer, documents)
    value = bertworks("check", tmp_path / "s", "--json").json()
    assert any("50 of 50 documents have one sentence" in one for one in value["warnings"])
