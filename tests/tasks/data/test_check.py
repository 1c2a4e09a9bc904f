"""What a check finds: each trouble planted, found, counted and placed; nothing found where there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertworks.tasks.data.check import examine
from bertworks.tasks.data.findings import Finding, Findings
from bertworks.tasks.data.read import Reading
from bertworks.text.tokenizer import Tokenizer

from .files import quiet, written

GOOD = [{"text": f"text number {at}", "label": "ab"[at % 2]} for at in range(40)]


def check(folder: Path, train: Any, dev: Any = None, name: str = "train.jsonl", **more: Any) -> Findings:
    how = more.pop("how", Reading())
    other = None if dev is None else written(folder, f"dev{Path(name).suffix}", dev)
    return examine(written(folder, name, train), how, dev=other, say=quiet, **more)


def kinds(found: Findings) -> dict[str, Finding]:
    return {one.kind: one for one in found.found}


def test_nothing_to_find(tmp_path: Path) -> None:
    dev = [{"text": f"another {at}", "label": "ab"[at % 2]} for at in range(9)]
    found = check(tmp_path, GOOD, dev)
    assert found.found == []
    assert found.facts["labels"] == {"a": 20, "b": 20}
    assert (found.facts["rows"], found.facts["dev"]["rows"]) == (40, 9)
    lengths = [len(row["text"]) for row in GOOD]
    assert found.facts["characters"]["longest"] == max(lengths)
    assert found.facts["characters"]["median"] == int(np.median(lengths))


def test_rows_there_twice(tmp_path: Path) -> None:
    rows = [*GOOD, {"text": "  TEXT number\t3 ", "label": "b"}, {"text": "text number 4", "label": "b"}]
    found = kinds(check(tmp_path, rows))
    assert set(found) == {"duplicate", "conflict"}
    assert (found["duplicate"].count, found["duplicate"].lines) == (1, (41,))
    assert (found["conflict"].count, found["conflict"].lines) == (1, (42,))
    assert found["conflict"].level == "warning"


def test_leakage(tmp_path: Path) -> None:
    dev = [
        {"text": "new", "label": "a"},
        {"text": "Text  number 7", "label": "b"},
        {"text": "text number 8", "label": "b"},
    ]
    found = kinds(check(tmp_path, GOOD, dev))
    assert set(found) == {"leak"}
    assert (found["leak"].count, found["leak"].lines, found["leak"].of_dev) == (2, (2, 3), True)
    assert "2 of 3 rows (66.7%)" in found["leak"].said
    assert "1 of them with another label" in found["leak"].said


def test_a_pair_is_the_same_only_if_both_are(tmp_path: Path) -> None:
    rows = [{"text": "a", "text_b": str(at), "label": at % 2} for at in range(20)]
    assert not check(
        tmp_path, rows, [{"text": "a", "text_b": "x", "label": 0}, {"text": "a", "text_b": "y", "label": 1}]
    ).found
    # What is joined must not run together.
    two = [{"text": "a b", "text_b": "c", "label": 0}, {"text": "a", "text_b": "b c", "label": 1}]
    assert "conflict" not in kinds(check(tmp_path, rows + two))


def test_labels_of_one_file_only(tmp_path: Path) -> None:
    dev = [{"text": "x", "label": "a"}, {"text": "y", "label": "new"}]
    found = kinds(check(tmp_path, GOOD, dev))
    assert set(found) == {"unseen", "not-met"}
    assert (found["unseen"].level, found["unseen"].lines) == ("error", (2,))
    assert found["not-met"].said.endswith("not met: b")


def test_labels_that_are_few_or_many(tmp_path: Path) -> None:
    rows = [
        *({"text": f"t{at}", "label": "a"} for at in range(90)),
        *({"text": f"r{at}", "label": "z"} for at in range(4)),
    ]
    found = kinds(check(tmp_path, rows))
    assert set(found) == {"rare", "imbalance"}
    assert found["rare"].lines == (91,)
    one = kinds(check(tmp_path, rows[:90]))
    assert set(one) == {"one-label"}
    assert one["one-label"].level == "error"
    ids = kinds(check(tmp_path, [{"text": f"t{at}", "label": f"id{at}"} for at in range(200)]))
    assert "many-labels" in ids


def test_rows_that_cannot_be_read_are_counted_and_the_rest_goes_on(tmp_path: Path) -> None:
    lines = ['{"text": "a", "label": "x"}', "{bad", '{"text": "b", "label": null}', '{"text": "c", "label": "y"}']
    data = "\n".join([*lines, '{"text": "", "label": "y"}'])
    found = check(tmp_path, data)
    by = kinds(found)
    assert (by["unreadable"].lines, by["no-label"].lines, by["empty"].lines) == ((2,), (3,), (5,))
    assert {one.kind for one in found.errors} == {"unreadable", "no-label"}
    assert (found.facts["rows"], found.facts["bad_rows"]) == (3, 2)
    assert kinds(check(tmp_path, ""))["no-rows"].level == "error"
    assert "that can be read" in kinds(check(tmp_path, "{bad\n"))["no-rows"].said


def test_broken_tags(tmp_path: Path) -> None:
    good = "EU B-ORG\nx I-ORG\n\n"
    found = kinds(check(tmp_path, good * 6 + "y O\nz I-ORG\n\n" + "a B-LOC\n\n" * 6, name="train.conll"))
    assert found["broken-tags"].lines == (19,)
    found = kinds(check(tmp_path, "a B-X\nb E-X\n\nc S-X\n\nd B-X\n\n", name="train.conll"))
    assert found["broken-tags"].lines == (6,)
    clean = check(tmp_path, "a I-X\n\nb I-X\nc B-X\nd O\n\n" * 5, name="train.conll")
    assert clean.facts["scheme"] == "iob1"
    assert "broken-tags" not in kinds(clean)
    assert clean.facts["entities"] == {"X": 15}
    assert kinds(check(tmp_path, "a O\n\nb O\n", name="train.conll"))["one-label"].level == "error"


def test_unequal_lengths_and_unseen_tags(tmp_path: Path) -> None:
    rows = [{"tokens": [f"w{at}", "y"], "tags": ["B-A", "O"]} for at in range(9)]
    bad = [*rows, {"tokens": ["x"], "tags": []}]
    assert kinds(check(tmp_path, bad))["unequal"].lines == (10,)
    dev = [{"tokens": ["q", "r"], "tags": ["B-A", "O"]}, {"tokens": ["x"], "tags": ["B-B"]}]
    unseen = kinds(check(tmp_path, rows, dev))["unseen"]
    assert (unseen.level, unseen.lines) == ("warning", (2,))


def test_entities_of_one_file_only(tmp_path: Path) -> None:
    def row(at: int, label: str) -> dict[str, Any]:
        return {"text": f"in Rome {at}", "entities": [{"start": 3, "end": 7, "label": label}]}

    found = check(tmp_path, [row(at, "LOC") for at in range(9)], [row(10, "LOC"), row(11, "CITY")])
    assert (found.facts["scheme"], found.facts["entities"]) == ("spans", {"LOC": 9})
    assert (kinds(found)["unseen"].level, kinds(found)["unseen"].lines) == ("warning", (2,))


def test_encoding_trouble(tmp_path: Path) -> None:
    texts = ["café".encode(), "cafÃ© trÃ¨s bien".encode(), b"caf\xe9", b"a\\u0000b", "锟斤拷烫".encode()]
    texts += [f"fine {at}".encode() for at in range(10)]
    data = b"".join(b'{"text": "%s", "label": "%d"}\n' % (text, at % 2) for at, text in enumerate(texts))
    found = kinds(check(tmp_path, data))
    assert found["mojibake"].lines == (2, 5)
    assert found["replacement"].lines == (3,)
    assert "1 line not UTF-8" in found["replacement"].said
    assert found["nul"].said.startswith("1 NUL")


def test_answers_outside_their_context(tmp_path: Path) -> None:
    def row(question: str, context: str, answer: Any) -> dict[str, Any]:
        return {"question": question, "context": context, "answers": answer}

    rows = [
        row("a", "one two", "two"),
        row("b", "one two", "three"),
        row("c", "a a", {"text": ["a"], "answer_start": [1]}),
    ]
    found = kinds(check(tmp_path, rows, [row("d", "ONE  two", "two")]))
    assert (found["bad-answer"].level, found["bad-answer"].lines) == ("error", (2,))
    assert found["answer-moved"].lines == (3,)
    assert found["shared-context"].lines == (1,)


def test_what_is_longer_than_the_model(tmp_path: Path, minilm: Path) -> None:
    bert = Tokenizer.load(minilm)
    rows = [{"text": f"{at} " + "word " * at, "label": at % 2} for at in range(1, 60)]
    found = check(tmp_path, rows, tokenizer=bert, length=32)
    long = sum(len(bert.encode(row["text"]).ids) > 32 for row in rows)  # type: ignore[arg-type]
    assert 20 < long == kinds(found)["cut"].count
    assert found.facts["tokens"]["longest"] == max(len(bert.encode(row["text"]).ids) for row in rows)  # type: ignore[arg-type]
    pairs = [{"text": "a", "text_b": row["text"], "label": row["label"]} for row in rows]
    found = check(tmp_path, pairs, tokenizer=bert, length=32)
    assert found.facts["tokens"]["longest"] == max(len(bert.encode("a", row["text_b"]).ids) for row in pairs)  # type: ignore[arg-type]


def test_words_the_tokenizer_cannot_take(tmp_path: Path, minilm: Path) -> None:
    rows = [{"tokens": ["word", f"n{at}"], "tags": ["B-A", "O"]} for at in range(8)]
    rows += [
        {"tokens": ["\u200b", "fine"], "tags": ["B-A", "O"]},
        {"tokens": ["\U0001f9ff", "fine"], "tags": ["B-A", "O"]},
    ]
    found = kinds(check(tmp_path, rows, tokenizer=Tokenizer.load(minilm)))
    assert found["word-nothing"].lines == (9,)
    assert found["word-unknown"].lines == (10,)
    texts = [*({"text": f"t{at}", "label": at % 2} for at in range(20)), {"text": "\U0001f9ff", "label": 1}]
    found = kinds(check(tmp_path, [*texts, {"text": "\u200b", "label": 0}], tokenizer=Tokenizer.load(minilm)))
    assert found["row-unknown"].lines == (21,)
    assert found["row-nothing"].lines == (22,)


def test_entities_inside_tokens(tmp_path: Path, minilm: Path) -> None:
    rows = [
        {"text": "Paris is fine", "entities": [{"start": 0, "end": 5, "label": "LOC"}]},
        {"text": "Paris is fine", "entities": [{"start": 1, "end": 5, "label": "LOC"}]},
        {"text": "a  Rome", "entities": [{"start": 2, "end": 7, "label": "LOC"}]},  # a blank before it is no fault
    ]
    assert kinds(check(tmp_path, rows, tokenizer=Tokenizer.load(minilm)))["unaligned"].lines == (2,)
    asked = [{"question": "q", "context": "Paris is fine", "answers": [text]} for text in ("Paris", "is fine", "aris")]
    assert kinds(check(tmp_path, asked, tokenizer=Tokenizer.load(minilm)))["unaligned"].lines == (3,)


def test_real_leakage_is_counted_exactly(data: Path) -> None:
    """The corpus is known to repeat itself; counted here another way."""
    from bertworks.tasks.data import Text, read

    folder = data / "chnsenticorp"
    if not folder.exists():
        pytest.skip("no chnsenticorp in the data folder")
    train, dev = (str(folder / f"{name}.jsonl.zst") for name in ("train", "dev"))
    texts = [
        [" ".join(row.text.lower().split()) for row in read(one).rows if isinstance(row, Text)] for one in (train, dev)
    ]
    found = examine(train, Reading(), dev=dev, say=quiet).found
    known = set(texts[0])
    leak = next(one for one in found if one.kind == "leak")
    assert leak.count == sum(text in known for text in texts[1]) > 300
    again = [one.count for one in found if one.kind in ("duplicate", "conflict") and not one.of_dev]
    assert sum(again) == len(texts[0]) - len(known)
