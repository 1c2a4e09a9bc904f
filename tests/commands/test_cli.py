"""The command line: verbs, shapes of --json, exit codes, environment, speed of starting."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pytest

import bertworks as package
from bertworks.cli import VERBS, main_group
from bertworks.commands.reporting import Counter, Report, counted
from tests.shell import bertworks, python
from tests.tiny import TEXTS, tiny_folder


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("tiny"), "bert")


def best_seconds(*arguments: str) -> float:
    """Of several starts, less what an empty Python takes here."""
    times = {}
    for name, line in {"bare": ("-c", "pass"), "ours": arguments}.items():
        times[name] = min(_seconds(line) for _ in range(5))
    return times["ours"] - times["bare"]


def _seconds(line: tuple[str, ...]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *line], check=True, capture_output=True)
    return time.perf_counter() - start


def test_help_starts_fast() -> None:
    assert best_seconds("-m", "bertworks", "--help") < 0.3


def test_import_is_fast_and_leaves_torch_alone() -> None:
    assert best_seconds("-c", "import bertworks") < 0.15
    done = python(
        "-c", "import bertworks, sys; print([m for m in ('torch', 'numpy', 'transformers') if m in sys.modules])"
    )
    assert done.out.strip() == "[]"


@pytest.mark.parametrize("verb", list(VERBS))
def test_every_verb_has_help_without_torch(verb: str) -> None:
    code = f"import sys; from bertworks.cli import main\ntry: main(['{verb}', '--help'])\n"
    done = python("-c", code + "except SystemExit as stop: assert not stop.code\nassert 'torch' not in sys.modules")
    assert done.code == 0, done.err
    for option in ("--json", "--quiet", "--seed", "--debug"):
        assert option in done.out


def test_nothing_here_needs_transformers(tiny: Path) -> None:
    code = "import sys; sys.modules |= dict.fromkeys(['transformers', 'sentence_transformers', 'datasets'])\n"
    done = python("-c", code + "from bertworks.cli import main; main(sys.argv[1:])", "fill", tiny, "a [MASK]")
    assert done.code == 0, done.err


def test_fill(tiny: Path) -> None:
    result = bertworks("fill", tiny, "the cat [MASK] on the mat", "--json", "--top-k", "3").json()
    assert list(result) == ["results"]
    assert [list(row) for row in result["results"]] == [["score", "token", "token_str", "sequence"]] * 3
    scores = [row["score"] for row in result["results"]]
    assert scores == sorted(scores, reverse=True)
    several = bertworks("fill", tiny, "[MASK] cat [MASK]", "--json").json()["results"]
    assert [len(blank) for blank in several] == [5, 5]
    text = bertworks("fill", tiny, "the cat [MASK] on the mat")
    assert text.code == 0
    assert len(text.out.splitlines()) == 5
    assert "%" in text.out
    assert bertworks("fill", tiny, "-", stdin="a [MASK]\n").code == 0


def test_embed_lines(tiny: Path) -> None:
    done = bertworks("embed", tiny, "-", stdin="\n".join(TEXTS) + "\n")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["text"] for row in rows] == TEXTS
    assert {len(row["embedding"]) for row in rows} == {24}
    whole = bertworks("embed", tiny, "-", "--json", stdin="\n".join(TEXTS)).json()
    assert whole["count"] == len(TEXTS)
    assert whole["dimensions"] == 24
    assert whole["embeddings"] == [row["embedding"] for row in rows]


def test_embed_from_and_into_every_format(tiny: Path, tmp_path: Path) -> None:
    import gzip

    import pyarrow
    import pyarrow.parquet

    texts = [*TEXTS, "", 'it\'s "quoted", here', "tab\there"]
    sources = {
        name: tmp_path / name for name in ("a.jsonl", "a.csv", "a.tsv", "a.parquet", "a.jsonl.gz", "a.jsonl.zst")
    }
    lines = "".join(json.dumps({"id": 1, "text": text}) + "\n" for text in texts)
    sources["a.jsonl"].write_text(lines)
    sources["a.jsonl.gz"].write_bytes(gzip.compress(lines.encode()))
    sources["a.jsonl.zst"].write_bytes(pyarrow.Codec("zstd").compress(lines.encode(), asbytes=True))
    pyarrow.parquet.write_table(pyarrow.table({"text": texts, "n": list(range(len(texts)))}), sources["a.parquet"])
    import csv

    for name, separator in (("a.csv", ","), ("a.tsv", "\t")):
        with sources[name].open("w", newline="", encoding="utf8") as stream:
            writer = csv.writer(stream, delimiter=separator)
            writer.writerows([["n", "text"], *([str(i), text] for i, text in enumerate(texts))])
    wanted = package.load(tiny).embed(texts)
    for source in sources.values():
        for kind in (".npy", ".jsonl", ".parquet"):
            out = tmp_path / f"{source.name}{kind}"
            done = bertworks("embed", tiny, source, "--out", out, "--json")
            assert done.json() == {"model": str(tiny), "count": len(texts), "dimensions": 24, "out": str(out)}
            if kind == ".npy":
                got = np.load(out)
            elif kind == ".jsonl":
                got = np.array([json.loads(line)["embedding"] for line in out.read_text().splitlines()])
            else:
                got = np.stack(pyarrow.parquet.read_table(out)["embedding"].to_numpy())
            assert np.abs(got - wanted).max() < 1e-6, out
    assert not list(tmp_path.glob(".*"))


def test_embed_of_nothing(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    assert bertworks("embed", tiny, tmp_path / "empty.txt", "--json").json()["embeddings"] == []
    for kind in ("npy", "parquet", "jsonl"):
        assert bertworks("embed", tiny, tmp_path / "empty.txt", "--out", tmp_path / f"x.{kind}").code == 0
    assert np.load(tmp_path / "x.npy").shape[0] == 0


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.jsonl", b'{"text": "a"}\n{"txt": "b"}\n', "line 2: no column 'text'"),
        ("a.jsonl", b'{"text": "a"}\nnonsense\n', "line 2: not JSON"),
        ("a.jsonl", b'{"text": 3}\n', "is a int, not a text"),
        ("a.csv", b"txt,n\na,1\n", "did you mean 'txt'"),
        ("a.parquet", b"nonsense", "not a whole Parquet file"),
        ("a.jsonl.gz", b"nonsense", "cannot be read"),
        ("a.jsonl.zst", b"nonsense", "cannot be read"),
    ],
)
def test_embed_of_bad_files(tiny: Path, tmp_path: Path, name: str, content: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(content)
    done = bertworks("embed", tiny, tmp_path / name, "--out", tmp_path / "x.npy")
    assert done.code == 1
    assert says in done.err
    assert not (tmp_path / "x.npy").exists()
    assert not list(tmp_path.glob(".*"))


def test_bad_utf8_is_replaced_and_counted(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"the cat\n\xff\xfe dog\nmat\n")
    done = bertworks("embed", tiny, tmp_path / "a.txt")
    assert done.code == 0
    assert len(done.out.splitlines()) == 3
    assert "1 lines are not UTF-8" in done.err


def test_inspect_matches_the_contract() -> None:
    totals = {
        "bert-base-uncased": 109_482_240,
        "bert-large-uncased": 335_141_888,
        "bert-base-chinese": 102_267_648,
        "roberta-base": 124_645_632,
        "roberta-large": 355_359_744,
        "albert-base-v2": 11_683_584,
        "albert-large-v2": 17_683_968,
        "albert-xlarge-v2": 58_724_864,
        "albert-xxlarge-v2": 222_595_584,
        "google-bert/bert-base-uncased": 109_482_240,
    }
    for name, total in totals.items():
        assert bertworks("inspect", name, "--json").json()["parameters"]["total"] == total, name
    base = bertworks("inspect", "bert-base-uncased", "--json").json()
    assert {key: base["parameters"][key] for key in ("embeddings", "encoder", "layer", "pooler")} == {
        "embeddings": 23_837_184,
        "encoder": 85_054_464,
        "layer": 7_087_872,
        "pooler": 590_592,
    }
    assert {"model", "parameters", "flops", "memory"} <= set(base)


def test_inspect_a_folder(tiny: Path, minilm: Path) -> None:
    assert bertworks("inspect", minilm, "--json").json()["parameters"]["total"] == 22_713_216
    value = bertworks("inspect", tiny, "--json").json()
    assert value["heads"] == ["masked_lm"]
    assert value["parameters"]["pooler"] == 0
    held = sum(weight.numel() for weight in package.load(tiny).model.parameters())
    assert value["parameters"]["total_with_heads"] == held
    assert bertworks("inspect", tiny, "--verify").code == 0
    assert bertworks("inspect", "bert-base-uncased", "--length", "513").code == 1


def test_doctor() -> None:
    value = bertworks("doctor", "--json").json()
    assert value["bertworks"] == package.__version__
    assert value["cpu"]["cores_granted"] >= 1
    assert bertworks("doctor").out.startswith("bertworks")


def test_misuse_is_2_and_says_what_to_do(tiny: Path) -> None:
    for arguments, says in {
        ("fil", "x", "y"): "did you mean 'fill'",
        ("fill",): "Missing argument",
        ("fill", tiny, "a [MASK]", "--top-k", "0"): "--top-k",
        ("fill", tiny, "a [MASK]", "--topk", "3"): "--top-k",
        ("fill", tiny, "a [MASK]", "--dtype", "fp7"): "--dtype",
        ("fill", tiny, "a [MASK]", "--seed", 2**63): "--seed",
    }.items():
        done = bertworks(*arguments)
        assert done.code == 2, arguments
        assert says in done.err, done.err
        assert done.out == ""


def test_failure_is_1_and_two_lines(tiny: Path, tmp_path: Path) -> None:
    for arguments, says in {
        ("fill", tmp_path / "nowhere", "a [MASK]"): "is not here",
        ("fill", tiny / "config.json", "a [MASK]"): "is a file, not a model folder",
        ("embed", tiny, tmp_path / "nowhere.txt"): "is not a file",
        ("embed", tiny, "-", "--out", tmp_path / "x.docx"): "unknown kind",
        ("embed", tiny, "-", "--out", tmp_path / "no" / "x.npy"): "no folder",
        ("inspect", "bert-bse-uncased"): "did you mean 'bert-base-uncased'",
        ("import", tmp_path / "nowhere", "--out", tmp_path / "o"): "nowhere",
    }.items():
        done = bertworks(*arguments)
        assert done.code == 1, arguments
        assert says in done.err, done.err
        assert len(done.err.strip().splitlines()) <= 2


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    done = python("-m", "bertworks", "inspect", tmp_path, "--debug")
    assert done.code == 1
    assert "Traceback" in done.err


def test_interrupted_is_130(tiny: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "bertworks", "embed", str(tiny), "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(b"the cat\n" * 5000)
    process.stdin.flush()
    assert process.stdout is not None
    process.stdout.readline()  # it is at work
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in err


def test_a_closed_pipe_is_quiet(tiny: Path) -> None:
    line = f"yes 'the cat' | head -20000 | {sys.executable} -m bertworks embed {tiny} - | head -1"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=120)
    assert "Traceback" not in done.stderr
    assert len(done.stdout.splitlines()) == 1


def test_options_from_the_environment(tiny: Path) -> None:
    done = bertworks("fill", tiny, "a [MASK]", "--json", BERTWORKS_FILL_TOP_K="2")
    assert len(done.json()["results"]) == 2
    assert bertworks("fill", tiny, "a [MASK]", BERTWORKS_FILL_DTYPE="fp7").code == 2


def options_of(context: click.Context, words: list[str]) -> Iterator[tuple[str, click.Option, click.Context]]:
    """Every option with the name that the contract gives its variable, and the context that it is read in."""
    command = context.command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from options_of(click.Context(inner, parent=context, info_name=name), [*words, name])
    for option in command.params if words else ():
        if isinstance(option, click.Option):
            long = next(one for one in option.opts if one.startswith("--"))
            yield "_".join(["BERTWORKS", *words, long[2:]]).replace("-", "_").upper(), option, context


def test_every_option_answers_to_its_own_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    root = click.Context(main_group, info_name="bertworks", auto_envvar_prefix="BERTWORKS")
    found = {name: (option, context) for name, option, context in options_of(root, [])}
    assert {
        "BERTWORKS_PREPARE_DOCUMENTS", "BERTWORKS_PREPARE_LANGUAGE", "BERTWORKS_CHECK_JSON",
        "BERTWORKS_TOKENIZER_TRAIN_DOCUMENTS", "BERTWORKS_IMPORT_OUT", "BERTWORKS_PRETRAIN_DEV",
    } <= set(found)  # fmt: skip
    for name in found:
        monkeypatch.setenv(name, "1")
    for name, (option, context) in found.items():
        source = option.consume_value(context, {})[1]
        assert source is click.core.ParameterSource.ENVIRONMENT, name
        monkeypatch.delenv(name)
        source = option.consume_value(context, {})[1]
        assert source is not click.core.ParameterSource.ENVIRONMENT, f"{name} is not the only one"
        monkeypatch.setenv(name, "1")


def test_debug_from_the_environment_shows_the_traceback(tmp_path: Path) -> None:
    done = python("-m", "bertworks", "inspect", tmp_path, BERTWORKS_INSPECT_DEBUG="1")
    assert done.code == 1
    assert "Traceback" in done.err


def test_quiet_says_nothing_but_the_result(tiny: Path) -> None:
    done = bertworks("embed", tiny, "-", "--quiet", stdin="the cat\n" + "the cat " * 99)
    assert done.err == ""
    assert len(done.out.splitlines()) == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    script = bertworks("--completion", shell)
    assert script.code == 0
    assert "_BERTWORKS_COMPLETE" in script.out
    done = python("-m", "bertworks", _BERTWORKS_COMPLETE="bash_complete", COMP_WORDS="bertworks fi", COMP_CWORD="1")
    assert "fill" in done.out


def test_one_is_singular(capsys: pytest.CaptureFixture[str]) -> None:
    assert [counted(count, "sentence") for count in (0, 1, 1540)] == ["0 sentences", "1 sentence", "1,540 sentences"]
    counter = Counter(Report(as_json=False, quiet=False, seed=0), "texts")
    counter.add(1)
    counter.end()
    assert capsys.readouterr().err.startswith("1 text in ")


def test_version() -> None:
    assert package.__version__ in bertworks("--version").out
