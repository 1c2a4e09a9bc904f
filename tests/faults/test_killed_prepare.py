"""A preparation killed, short of disk, or interrupted: run again it gives the store it would have given."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from bertworks.errors import BertworksWarning, InputError
from bertworks.text import growing
from bertworks.text.cleaning import Cleaning
from bertworks.text.preparing import Plan, prepare

from ..text import corpora

SCRIPT = """
import resource, sys, warnings
from bertworks.text.cleaning import Cleaning
from bertworks.text.preparing import Plan, prepare
from bertworks.text import working
if __name__ == "__main__":
    from pathlib import Path
    corpus, tokenizer, out, workers, near, most = sys.argv[1:]
    if int(most):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(most), int(most)))
    working.TASK_CHARACTERS = 1 << 13
    cleaning = Cleaning(duplicates="exact") if int(near) else Cleaning()
    print("begun", flush=True)
    prepare(Plan((corpus,), Path(tokenizer), cleaning=cleaning, shard_tokens=5000), Path(out), workers=int(workers))
    print("done", flush=True)
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("script") / "prepare_it.py"
    path.write_text(SCRIPT)
    return path


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("inputs")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BertworksWarning)
        corpora.tokenizer(folder / "t")
    return corpora.written(folder / "c.jsonl", corpora.documents(1200)), folder / "t"


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def start(
    script: Path, inputs: tuple[Path, Path], out: Path, workers: int, near: bool, most: int = 0
) -> subprocess.Popen[str]:
    arguments = [*map(str, inputs), str(out), str(workers), str(int(near)), str(most)]
    return subprocess.Popen(
        [sys.executable, str(script), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize(("workers", "near"), [(1, False), (2, True)])
def test_killed_at_random_times(
    script: Path, inputs: tuple[Path, Path], tmp_path: Path, workers: int, near: bool
) -> None:
    """kill -9 ten times for each way of working, each after a random stretch of work; then once to the end."""
    cleaning = Cleaning(duplicates="exact") if near else Cleaning()
    wanted = bytes_of(
        prepare(Plan((str(inputs[0]),), inputs[1], cleaning=cleaning, shard_tokens=5000), tmp_path / "w").folder
    )
    out, part = tmp_path / "s", tmp_path / "s.part"
    draw = random.Random(workers)

    def notes() -> int:
        return len(list(part.glob("shards/*.json")))

    kills = 0
    shards = []
    for _ in range(10):
        run = start(script, inputs, out, workers, near)
        assert run.stdout is not None
        run.stdout.readline()
        wanted_shards = notes() + draw.randint(0, 2)  # by progress: on a busy machine the clock says little
        while run.poll() is None and notes() < wanted_shards:
            time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.05))
        run.kill()
        run.wait()
        if out.exists():  # it was quicker: begin again from nothing
            assert bytes_of(out) == wanted
            for path in sorted(out.rglob("*"), reverse=True):
                path.unlink() if path.is_file() else path.rmdir()
            out.rmdir()
            continue
        kills += 1
        shards.append(notes())
    assert kills >= 5
    assert max(shards) > 0  # so that there was something to go on from
    run = start(script, inputs, out, workers, near)
    said, wrong = run.communicate(timeout=120)
    assert run.returncode == 0, wrong
    assert "done" in said
    assert bytes_of(out) == wanted
    assert not part.exists()


def test_workers_do_not_outlive_a_killed_parent(script: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    run = start(script, inputs, tmp_path / "s", 2, False)
    assert run.stdout is not None
    run.stdout.readline()
    workers: list[int] = []
    deadline = time.monotonic() + 30
    while len(workers) < 3 and time.monotonic() < deadline:  # two workers and multiprocessing's own helper
        path = Path(f"/proc/{run.pid}/task/{run.pid}/children")
        if not path.exists():
            pytest.skip("no /proc to find children in")
        workers = [int(one) for one in path.read_text().split()]
        time.sleep(0.02)
    run.kill()
    run.wait()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and any(_runs(one) for one in workers):
        time.sleep(0.05)
    assert not [one for one in workers if _runs(one)]


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split(")")[-1].split()[0] != "Z"
    except OSError:
        return False


def test_a_full_disk_is_told_and_nothing_is_lost(script: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    """A limit on the size of files does what a full disk does, wherever the test runs."""
    out = tmp_path / "s"
    run = start(script, inputs, out, 1, False, most=9000)
    _, wrong = run.communicate(timeout=120)
    assert run.returncode == 1
    assert "cannot be written" in wrong
    assert "run the same command again" in wrong
    assert not out.exists()
    run = start(script, inputs, out, 1, False)
    assert "done" in run.communicate(timeout=120)[0]
    whole = prepare(Plan((str(inputs[0]),), inputs[1], shard_tokens=5000), tmp_path / "w")
    assert bytes_of(out) == bytes_of(whole.folder)


@pytest.mark.parametrize("fails", [0, 3, 11])
def test_a_disk_that_fills_up_at_any_shard(
    inputs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: int
) -> None:
    plan = Plan((str(inputs[0]),), inputs[1], shard_tokens=5000)
    written = growing.write_shard

    def full(path: Path, file: str, parts: object) -> object:
        if int(Path(file).stem) >= fails:
            raise OSError(errno.ENOSPC, "No space left on device")
        return written(path, file, parts)  # type: ignore[arg-type]

    monkeypatch.setattr(growing, "write_shard", full)
    with pytest.raises(InputError, match=r"No space left on device[\s\S]*free space, then run the same command again"):
        prepare(plan, tmp_path / "s")
    monkeypatch.undo()
    seen: list[int] = []
    store = prepare(plan, tmp_path / "s", progress=lambda state: seen.append(state.resumed))
    assert (seen[0] > 0) == (fails > 0)
    assert bytes_of(store.folder) == bytes_of(prepare(plan, tmp_path / "w").folder)


def test_a_torn_shard_of_an_earlier_run_is_made_again(
    inputs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan((str(inputs[0]),), inputs[1], shard_tokens=5000)
    whole = bytes_of(prepare(plan, tmp_path / "w").folder)
    monkeypatch.setattr("bertworks.text.preparing._seal", lambda part, out: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        prepare(plan, tmp_path / "s")
    monkeypatch.undo()
    part = tmp_path / "s.part"
    (part / "manifest.json").unlink()
    torn = part / "shards" / "000004.arrow"
    data = bytearray(torn.read_bytes())
    data[len(data) // 2] ^= 1
    torn.write_bytes(data)
    (part / "shards" / ".000009.arrow.abc").write_bytes(b"a draft")
    (part / ".manifest.json.abc").write_bytes(b"a draft")
    prepare(plan, tmp_path / "s")
    assert bytes_of(tmp_path / "s") == whole


@pytest.mark.parametrize("step", ["unlink", "rename"])
def test_stopped_between_its_last_steps(
    inputs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """All is written, and only notes are to go and the folder to get its name."""
    plan = Plan((str(inputs[0]),), inputs[1], shard_tokens=5000)
    whole = bytes_of(prepare(plan, tmp_path / "w").folder)
    right = getattr(Path, step)

    def stop(path: Path, *rest: object, **more: object) -> object:
        if path.name in ("plan.json", "s.part"):
            raise KeyboardInterrupt
        return right(path, *rest, **more)

    monkeypatch.setattr(Path, step, stop)
    with pytest.raises(KeyboardInterrupt):
        prepare(plan, tmp_path / "s")
    monkeypatch.undo()
    assert (tmp_path / "s.part" / "manifest.json").exists()
    assert bytes_of(prepare(plan, tmp_path / "s").folder) == whole


def test_an_interrupt_ends_it_soon(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    """Ctrl-C, which a terminal sends to the workers as well: exit 130, one line, and nothing left that is not whole."""
    big = corpora.written(tmp_path / "big.jsonl", corpora.documents(2000) * 10)
    arguments = ["prepare", str(big), "--tokenizer", str(inputs[1]), "--out", str(tmp_path / "s"), "--workers", "2"]
    run = subprocess.Popen(
        [sys.executable, "-m", "bertworks", *arguments], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 30
    while not (tmp_path / "s.part").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(1.0)
    os.killpg(run.pid, signal.SIGINT)
    started = time.monotonic()
    _, wrong = run.communicate(timeout=30)
    assert time.monotonic() - started < 10
    assert run.returncode == 130, wrong
    assert "interrupted" in wrong
    assert "Traceback" not in wrong
    assert not (tmp_path / "s").exists()
    assert not (tmp_path / "s.part").exists()  # no shard was whole: there was nothing to keep
