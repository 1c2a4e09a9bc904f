"""Whatever stands in a file, it is rows or an error that a person can read: never another exception."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bertworks.errors import BertworksError
from bertworks.tasks.data import Labels, folds, read, split
from bertworks.tasks.data.check import examine
from bertworks.tasks.data.columns import ROLES
from bertworks.tasks.data.read import Reading

from .files import quiet, written

DOCS = Path(__file__).parents[3] / "docs" / "task-data.md"
WORDS = st.sampled_from(
    ["", " ", "a", "b c", "1", "[", '["a"]', "O", "B-X", "-1", "1e999", "(1,", "{}", "\u200b", "A", "é"]
)
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-2, 3), st.floats(), st.just(1 << 70), WORDS)
KEYS = st.sampled_from(["text", "start", "end", "label", "answer_start", "x"])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)
ODD = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.mark.parametrize("task", ROLES)
@ODD
@given(data=st.data())
def test_odd_rows(tmp_path: Path, task: str, data: st.DataObject) -> None:
    names = [name for name in ROLES[task] if name not in ("answer_start", "is_impossible")]
    made = [{name: data.draw(VALUES) for name in names} for _ in range(data.draw(st.integers(1, 3)))]
    path = written(tmp_path, "a.jsonl", "".join(json.dumps(row) + "\n" for row in made))
    with contextlib.suppress(BertworksError):
        table = read(path, task, say=quiet)
        assert len(table) >= 1
        if task in ("classify", "tag"):
            assert len(Labels.of(table)) >= 1
        split(table.rows, 0.5, 0)
        folds(table.rows, 2, 0)
    found = examine(path, Reading(task), say=quiet)
    assert found.facts["bad_rows"] > 0 or found.facts["rows"] >= len(made) or task == "embed"
    json.dumps(found.value())


@pytest.mark.parametrize("name", ["a.conll", "a.conllu", "a.csv", "a.tsv", "a.json", "a.txt"])
@ODD
@given(text=st.text(st.sampled_from('a\t \n"\r,#-{}[]:O1\x00中\ufeff'), max_size=60))
def test_odd_files(tmp_path: Path, name: str, text: str) -> None:
    path = written(tmp_path, name, text)
    for task in ("tag", "classify"):
        for labelled in (True, False):
            with contextlib.suppress(BertworksError):
                read(path, task, labelled=labelled, say=quiet)


@ODD
@given(value=VALUES, inner=VALUES)
def test_odd_squad(tmp_path: Path, value: Any, inner: Any) -> None:
    for data in (
        {"data": value},
        {"data": [{"paragraphs": value}]},
        {"data": [{"paragraphs": [{"context": inner, "qas": value}]}]},
        {"data": [{"paragraphs": [{"context": "a b", "qas": [{"question": inner, "answers": value}]}]}]},
    ):
        with contextlib.suppress(BertworksError):
            read(written(tmp_path, "a.json", json.dumps(data)), say=quiet)


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "train.csv", "body,label\n" + "".join(f"t{at},{['bad', 'good'][at % 2]}\n" for at in range(40)))
    (code,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    assert repr(names["labels"]) == "Labels(names=('bad', 'good'))"
    assert len(names["dev"]) == 4


def test_the_page_names_every_kind() -> None:
    package = Path(__file__).parents[3] / "src" / "bertworks" / "tasks" / "data"
    source = "".join(
        (package / f"{name}.py").read_text(encoding="utf8") for name in ("build", "check", "beside", "conll")
    )
    kinds = re.findall(r'found\.add\(\s*"\w+"[^,]*, "([\w-]+)"', source)
    kinds += re.findall(r'wrong\("([\w-]+)"', source) + re.findall(r'RowError\("([\w-]+)"', source)
    assert len(set(kinds)) > 20
    page = DOCS.read_text(encoding="utf8")
    assert [kind for kind in set(kinds) if f"`{kind}`" not in page] == []
