"""`check FILE` by the command line, as a person types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ..shell import bertworks


def rows(folder: Path, name: str, *lines: object) -> Path:
    path = folder / name
    path.write_text(
        "".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines), encoding="utf8"
    )
    return path


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return rows(tmp_path, "train.jsonl", *({"sentence": f"text {at}", "label": "ab"[at % 2]} for at in range(20)))


def test_a_file_that_is_well(good: Path) -> None:
    done = bertworks("check", good)
    assert done.code == 0
    assert f"{good}: 20 rows for classify" in done.out
    assert "columns     text = sentence, label" in done.out
    assert "a         10   50.0%" in done.out
    assert "nothing to complain of" in done.out
    assert f"next: bertworks finetune classify --model MODEL --train {good} --out run" in done.out
    assert done.err == f"{good}: column sentence is read as text\n"
    assert bertworks("check", good, "--quiet").err == ""


def test_warnings_pass_and_errors_do_not(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    good, dev = Path(good.name), Path("dev.jsonl")
    rows(tmp_path, "dev.jsonl", {"sentence": "TEXT 3", "label": "b"}, {"sentence": "x", "label": "a"})
    done = bertworks("check", good, "--dev", dev)
    assert done.code == 0
    assert f"  warning   1 of 2 rows (50.0%) are in {good} too (line 1)\n" in done.out
    assert "scores will be too good: take them out of one\n" in done.out
    rows(tmp_path, "dev.jsonl", {"sentence": "x", "label": "c"})
    done = bertworks("check", good, "--dev", dev)
    assert done.code == 1
    assert f"  error     1 label that {good} has not: c (line 1)" in done.out
    assert "next:" not in done.out


def test_as_json(good: Path, tmp_path: Path) -> None:
    value = bertworks("check", good, "--json").json()
    assert (value["errors"], value["warnings"], value["task"], value["rows"]) == ([], [], "classify", 20)
    assert value["labels"] == {"a": 10, "b": 10}
    bad = rows(tmp_path, "bad.jsonl", {"text": "a", "label": 1}, "{torn")
    done = bertworks("check", bad, "--json")
    assert done.code == 1
    value = json.loads(done.out)
    assert value["errors"][0].startswith(f"{bad}: not JSON: ")
    assert {one["kind"] for one in value["findings"]} == {"unreadable", "one-label", "rare"}
    assert value["findings"][0]["lines"] == [2]
    done = bertworks("check", rows(tmp_path, "a.csv", "txt,label", "a,b"), "--json")
    assert done.code == 1
    assert "no column 'text'" in json.loads(done.out)["errors"][0]


def test_columns_task_and_separator(tmp_path: Path) -> None:
    path = rows(tmp_path, "a.csv", "body,kind,stars", "one,x;y,1", "two,y,2")
    value = bertworks("check", path, "--columns", "text=body,label=kind", "--separator", ";", "--json").json()
    assert value["labels"] == {"x": 1, "y": 2}
    value = bertworks("check", path, "--task", "regress", "--columns", "data.text=body", "--json").json()
    assert value["scores"] == {"least": 1.0, "most": 2.0}


def test_with_a_model(good: Path, minilm: Path) -> None:
    done = bertworks("check", good, "--model", minilm)
    assert "tokens      median 4 tokens, nine of ten up to 4, longest 4; 0.0% over 512; 0.00% unknown" in done.out
    assert f"--model {minilm} --train {good}" in done.out
    done = bertworks("check", good, "--model", minilm, "--length", "8", "--json")
    assert done.json()["tokens"]["limit"] == 8


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nothing.jsonl"], 1, "nothing.jsonl is not a file"),
        (["{good}", "--columns", "text"], 2, "write OURS=THEIRS"),
        (["{good}", "--columns", "text=txt"], 1, "no column 'txt' (--columns text=txt)"),
        (["{good}", "--columns", "txt=sentence"], 1, "the task has no column 'txt'"),
        (["{good}", "--task", "tag"], 1, "no column 'tokens' or 'entities'"),
        (["{good}", "--show", "3"], 2, "--show is for a STORE"),
        (["{good}", "--length", "64"], 2, "name it with --model"),
        (["{good}", "--dev", "none.csv"], 1, "none.csv is not a file"),
        (["{folder}", "--dev", "{good}"], 2, "--dev is for a FILE"),
        (["{folder}"], 1, "is not a store"),
    ],
)
def test_misuse(good: Path, arguments: list[str], code: int, said: str) -> None:
    done = bertworks("check", *(one.format(good=good, folder=good.parent) for one in arguments))
    assert said in done.err
    assert done.code == code
    assert "Traceback" not in done.err


def test_from_standard_input() -> None:
    done = bertworks("check", "-", "--json", stdin='{"text": "a", "label": 0}\n{"text": "b", "label": 1}\n')
    assert done.json()["rows"] == 2
