"""What a person sees of a training: the display on a fake terminal, the files, the warnings, the card."""

from __future__ import annotations

import io
import json
import math
import random
import re
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bertworks.train.card import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, model_card
from bertworks.train.watch import Total, Watch, metrics

PLATEAU = 7.0


class Terminal(io.StringIO):
    """As much of a terminal as the display uses: what a person would see of what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.row, self.column = [""], 0, 0

    def write(self, text: str) -> int:
        super().write(text)
        for part in re.findall(r"\x1b\[\d*[A-Za-z]|[^\x1b]", text):
            if part == "\n":
                self.row, self.column = self.row + 1, 0
                self.rows += [""] * (self.row + 1 - len(self.rows))
            elif part == "\r":
                self.column = 0
            elif part[0] != "\x1b":
                line = self.rows[self.row].ljust(self.column)
                self.rows[self.row] = line[: self.column] + part + line[self.column + 1 :]
                self.column += 1
            elif part[-1] == "A":
                self.row -= int(part[2:-1])
            elif part[-1] in "KJ":
                self.rows[self.row] = self.rows[self.row][: self.column]
                self.rows = self.rows[: self.row + 1] if part[-1] == "J" else self.rows
            else:
                assert part[-1] == "m", part
        return len(text)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def row(step: int, **other: float) -> dict[str, float | int]:
    """A healthy step of a second, of 4,096 tokens, of a hundred."""
    facts: dict[str, float | int] = {"step": step, "tokens": 4096 * step, "epoch": 0, "loss": 5.0, "lr": 1.2e-4}
    facts |= {"masked_accuracy": 0.234, "pair_loss": 0.6, "pair_accuracy": 0.712, "grad_norm": 0.87}
    facts |= {"seconds": 1.0, "data_seconds": 0.01, "share": step / 100, "minutes": step / 60}
    return facts | other


class Run:
    """A watch with what it said and what it wrote."""

    def __init__(self, folder: Path, live: bool = False, **options: Any) -> None:
        self.folder, self.terminal, self.clock, self.said = folder, Terminal(), Clock(), list[str]()
        say: Callable[[str], Any] = (lambda line: self.terminal.write(line + "\n")) if live else self.said.append
        given = {"total": Total("steps", 100), "say": say, "live": live, "stream": self.terminal, "clock": self.clock}
        self.watch = Watch(folder, **{**given, **options})

    def steps(self, first: int, last: int, **other: float) -> None:
        for step in range(first, last + 1):
            self.clock.now += 1
            self.watch.step(row(step, **other))

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "metrics.jsonl").read_text().splitlines()]

    def warnings(self) -> list[str]:
        return [one["warning"] for one in self.rows() if "warning" in one]


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)


# -- the files -----------------------------------------------------------------------------------------------


def test_each_step_is_a_whole_line_at_once(tmp_path: Path) -> None:
    run = Run(tmp_path, flops_per_token=1e9, peak_flops=1e13)
    for step in range(1, 4):
        run.watch.step(row(step, seconds=0.5))
        assert len(run.rows()) == step  # no buffer that a kill could take
    assert run.rows()[2] == row(3, seconds=0.5) | {"tokens_per_second": 8192.0, "peak_share": 0.8192}
    assert list(metrics(tmp_path)) == run.rows()


def test_no_share_of_an_unknown_peak(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.steps(1, 1)
    assert "peak_share" not in run.rows()[0]
    assert "peak" not in run.said[0]


def test_what_is_not_finite_is_null(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.watch.step(row(1, loss=math.nan, grad_norm=math.inf))
    assert run.rows()[0]["loss"] is run.rows()[0]["grad_norm"] is None
    assert "loss not finite" in run.said[0]
    run.watch.step(row(2))
    run.watch.end("finished")
    assert "loss 5.000" in run.said[-1]


def test_a_look_at_held_out_text_is_written_and_said(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.steps(1, 1)
    run.watch.evaluated({"step": 1, "dev_loss": 5.4321, "dev_accuracy": 0.25})
    assert run.rows()[1] == {"step": 1, "dev_loss": 5.4321, "dev_accuracy": 0.25}
    assert run.said[-1] == "step 1: dev loss 5.432, dev accuracy 25.0%"


@pytest.mark.parametrize("torn", [b"", b'{"step": 10, "lo', b"\0\0\0\n"])
def test_a_resumed_run_tells_each_step_once(tmp_path: Path, torn: bytes) -> None:
    before = Run(tmp_path)
    before.steps(1, 6)
    before.watch.evaluated({"step": 6, "dev_loss": 5.0})
    before.steps(7, 9)
    before.watch.evaluated({"step": 9, "dev_loss": 4.0})
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(torn)
    after = Run(tmp_path)
    after.watch.resumed(6)
    assert [(one["step"], "dev_loss" in one) for one in after.rows()] == [(n, False) for n in range(1, 7)] + [(6, True)]
    after.steps(7, 9)
    assert [one["step"] for one in after.rows() if "loss" in one] == list(range(1, 10))
    assert after.rows()[-3]["tokens_per_second"] == 4096  # of the step, not of all before it


def test_a_run_begun_again_without_a_checkpoint_drops_all(tmp_path: Path) -> None:
    Run(tmp_path).steps(1, 3)
    after = Run(tmp_path)
    after.steps(1, 2)
    assert [one["step"] for one in after.rows()] == [1, 2]


@pytest.mark.parametrize("text", ["", '{"step": 1, "lo', "\n\n"])
def test_resuming_on_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "metrics.jsonl").write_text(text)
    run = Run(tmp_path)
    run.watch.resumed(5)
    run.watch.step(row(6))
    assert [one["step"] for one in run.rows()] == [6]
    assert run.rows()[0]["tokens_per_second"] == 4096


def test_a_full_disk_is_said_once_and_training_goes_on(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.steps(1, 1)

    class Full:
        """Takes half a line, as a disk does that has little room."""

        def __init__(self, file: io.FileIO) -> None:
            self.file, self.seek, self.truncate = file, file.seek, file.truncate

        def write(self, line: bytes) -> int:
            return self.file.write(line[: len(line) // 2])

    real = run.watch._lines.file
    assert real is not None
    run.watch._lines.file = Full(real)  # type: ignore[assignment]
    run.steps(2, 5)
    run.watch._lines.file = real
    run.steps(6, 7)
    assert [one["step"] for one in run.rows()] == [1, 6, 7]
    assert [line for line in run.said if "warning" in line] == [
        f"warning: {tmp_path / 'metrics.jsonl'} cannot be written: No space left on device; training goes on"
    ]


# -- TensorBoard ---------------------------------------------------------------------------------------------


def test_without_tensorboard_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "tensorboard"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)  # the import fails
    run = Run(tmp_path)
    run.steps(1, 2)
    run.watch.end("finished")
    assert not (tmp_path / "tensorboard").exists()
    assert not any("warning" in line for line in run.said)


def test_tensorboard_reads_each_step_once(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    before = Run(tmp_path)
    before.steps(1, 9)
    before.watch.close()
    after = Run(tmp_path)
    after.watch.resumed(6)
    after.steps(7, 8, loss=4.0)
    after.watch.evaluated({"step": 8, "dev_loss": 4.5})
    after.watch.end("finished")
    assert "tensorflow" not in sys.modules
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(one.step, one.value) for one in events.Scalars("train/loss")] == [
        *((step, 5.0) for step in range(1, 7)),
        (7, 4.0),
        (8, 4.0),
    ]
    assert [(one.step, one.value) for one in events.Scalars("dev/loss")] == [(8, 4.5)]
    assert events.Scalars("train/tokens_per_second")[0].value == 4096


# -- the display ---------------------------------------------------------------------------------------------


def test_the_display_tells_all_within_80_columns(tmp_path: Path) -> None:
    run = Run(tmp_path, live=True, flops_per_token=1e9, peak_flops=1e13)
    run.watch.step(row(1, seconds=20.0))  # compiles
    run.steps(2, 42)
    first, second, third = run.terminal.rows
    assert re.fullmatch(r"step 42  \[#+\.+\]  42\.0% of 100 steps", first)
    assert 0.4 < first.count("#") / (first.count("#") + first.count(".")) < 0.44
    assert second == "loss 5.000  masked 23.4%  pair 71.2%  lr 1.20e-04  gradient 0.87"
    assert third == "4,096 tokens/s  41% of peak  0:42 elapsed  0:58 left"
    assert len(first) == 79


def test_the_widest_numbers_fit(tmp_path: Path) -> None:
    wide = Run(tmp_path, live=True, flops_per_token=1, peak_flops=1e6, total=Total("tokens", 137_438_953_472))
    wide.watch.step(row(1_000_000, loss=10.4321, grad_norm=123456.0, tokens=10**10, minutes=9999, share=0.9))
    wide.clock.now += 1
    wide.watch.step(row(1_000_001, loss=10.4321, tokens=10**10 + 1_234_567, minutes=10100, share=0.9001))
    assert len(wide.terminal.rows) == 3
    assert max(map(len, wide.terminal.rows)) <= 79
    assert wide.terminal.rows[0].endswith("90.0% of 137,438,953,472 tokens")
    assert wide.terminal.rows[2] == "1,234,567 tokens/s  123% of peak  168:20:00 elapsed  1681:39:00 left"


def test_a_narrow_terminal_is_not_overrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path, live=True)
    monkeypatch.setattr(run.watch._screen, "columns", lambda: 40)
    run.steps(1, 3)
    assert len(run.terminal.rows) == 3
    assert max(map(len, run.terminal.rows)) <= 39


def test_the_display_is_drawn_five_times_a_second_at_most(tmp_path: Path) -> None:
    run = Run(tmp_path, live=True)
    for step in range(1, 101):
        run.clock.now += 0.01
        run.watch.step(row(step))
    assert run.terminal.getvalue().count("elapsed") == 5


def test_what_is_said_stays_above_the_display(tmp_path: Path) -> None:
    run = Run(tmp_path, live=True)
    run.steps(1, 3)
    run.watch.evaluated({"step": 3, "dev_loss": 5.0})
    run.watch.say("a checkpoint")
    run.steps(4, 5)
    assert run.terminal.rows[:2] == ["step 3: dev loss 5", "a checkpoint"]
    assert run.terminal.rows[2].startswith("step 5")
    assert len(run.terminal.rows) == 5
    run.watch.end("finished")
    assert run.terminal.rows[2].startswith("finished: step 5, 5.0% of 100 steps  loss 5.000")
    assert run.terminal.rows[3:] == [""]


def test_threads_may_say_things(tmp_path: Path) -> None:
    run = Run(tmp_path, live=True)
    threads = [threading.Thread(target=lambda: [run.watch.say("saved") for _ in range(50)]) for _ in range(2)]
    for thread in threads:
        thread.start()
    run.steps(1, 50)
    for thread in threads:
        thread.join()
    run.watch.end("finished")
    assert run.terminal.rows.count("saved") == 100
    assert len(run.terminal.rows) == 102


def test_closing_after_a_failure_leaves_a_clean_line(tmp_path: Path) -> None:
    run = Run(tmp_path, live=True)
    run.steps(1, 3)
    run.watch.close()
    run.watch.close()
    assert run.terminal.rows == [""]


def test_colour_only_where_it_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    coloured = Run(tmp_path / "a", live=True)
    coloured.steps(1, 50)
    assert "\x1b[32m#" in coloured.terminal.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Run(tmp_path / "b", live=True)
    plain.steps(1, 50)
    assert not re.search(r"\x1b\[\d*m", plain.terminal.getvalue())
    assert plain.terminal.rows == coloured.terminal.rows


def test_plain_lines_at_the_start_every_ten_seconds_and_at_the_end(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.steps(1, 25)
    run.watch.end("stopped")
    assert [line.split("  ")[0] for line in run.said] == [
        "step 1",
        "step 11",
        "step 21",
        "stopped: step 25, 25.0% of 100 steps",
    ]
    assert run.terminal.getvalue() == ""
    assert run.said[1] == (
        "step 11  11.0%  loss 5.000  masked 23.4%  pair 71.2%  lr 1.20e-04  gradient 0.87  "
        "4,096 tokens/s  0:11 elapsed  1:29 left"
    )


def test_without_a_step_the_end_is_said_too(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.watch.end("finished already")
    assert run.said == ["finished already"]


@pytest.mark.parametrize(
    ("total", "said"),
    [(Total("steps", 1e6), "1,000,000 steps"), (Total("minutes", 1), "1 minute"), (Total("epochs", 0.5), "0.5 epochs")],
)
def test_a_budget_in_words(total: Total, said: str) -> None:
    assert str(total) == said


# -- the warnings --------------------------------------------------------------------------------------------


def noisy(losses: Iterator[float] | list[float], seed: int = 0) -> Iterator[float]:
    draw = random.Random(seed)
    return (loss + draw.gauss(0, 0.08) for loss in losses)


def told(tmp_path: Path, losses: Iterator[float]) -> list[str]:
    run = Run(tmp_path, plateau=PLATEAU)
    for step, loss in enumerate(losses, 1):
        run.watch.step(row(step, loss=loss))
    return run.warnings()


@pytest.mark.parametrize("seed", range(3))
def test_the_plateau_is_told_once(tmp_path: Path, seed: int) -> None:
    fall = [9 - 2 * min(step / 200, 1) for step in range(1500)]
    (warning,) = told(tmp_path, noisy(fall, seed))
    assert warning.startswith("the loss sits at the unigram entropy 7.00: the model knows word frequencies only; more")


@pytest.mark.parametrize("seed", range(3))
def test_a_model_that_goes_through_the_plateau_hears_nothing(tmp_path: Path, seed: int) -> None:
    steps = range(2000)
    slowly = [7.06 - step * 1e-4 for step in steps]  # 0.025 a half of the window
    quickly = [9 - 2 * min(step / 200, 1) - 2 * max(step - 500, 0) / 1500 for step in steps]
    assert told(tmp_path / "a", noisy(quickly, seed)) == []
    assert told(tmp_path / "b", iter(slowly)) == []


def test_an_explosion_is_told_once(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.steps(1, 60)
    run.steps(61, 63, grad_norm=40.0)
    run.watch.step(row(64, grad_norm=math.nan))
    run.steps(65, 80)
    assert run.warnings() == [
        "gradients explode: norm 40, usually 0.87; a lower lr, more warm-up, or optimizer.clip",
    ]
    assert [one["step"] for one in run.rows() if "warning" in one] == [61]
    assert any(line.startswith("warning: step 61: gradients explode") for line in run.said)
    run.steps(81, 1200)
    run.watch.step(row(1201, grad_norm=40.0))
    assert len(run.warnings()) == 2  # another event


def test_the_great_gradients_of_a_start_are_no_explosion(tmp_path: Path) -> None:
    run = Run(tmp_path)
    for step in range(1, 300):
        run.watch.step(row(step, grad_norm=30 / step + 0.3 * (1 + step % 7)))
    assert run.warnings() == []


def test_starving_is_told_once(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.watch.step(row(1, seconds=30.0, data_seconds=10.0))  # the first batch and the compiler are waited for
    run.steps(2, 100, data_seconds=0.1)
    assert run.warnings() == []
    run.steps(101, 300, data_seconds=0.34)
    assert run.warnings() == ["data starves the step: 20% of the last 50 steps went by waiting for batches"]


# -- a long run ----------------------------------------------------------------------------------------------


def test_memory_stays_flat(tmp_path: Path) -> None:
    run = Run(tmp_path, live=True, plateau=PLATEAU, say=lambda line: None, stream=Terminal())
    run.watch._screen.stream = open("/dev/null", "w")  # type: ignore[union-attr]  # noqa: SIM115, PTH123
    run.steps(1, 1500)
    tracemalloc.start()
    try:
        run.steps(1501, 2000)
        before = tracemalloc.get_traced_memory()[0]
        run.steps(2001, 6000)
        assert tracemalloc.get_traced_memory()[0] - before < 20_000
    finally:
        tracemalloc.stop()
        run.watch._screen.stream.close()  # type: ignore[union-attr]


# -- the card ------------------------------------------------------------------------------------------------

SVG = "{http://www.w3.org/2000/svg}"


def trained(folder: Path, steps: int = 1000) -> Path:
    run = Run(folder)
    for step in range(1, steps + 1):
        run.watch.step(row(step, loss=5 + 4.5 * math.exp(-step / 150), grad_norm=100.0 if step == 50 else 1.0))
        if step % 250 == 0:
            run.watch.evaluated({"step": step, "dev_loss": 5.2 + 4 / step, "dev_accuracy": 0.25})
    run.watch.end("finished")
    (folder / "recipe.toml").write_text('[model]\npreset = "bert-mini"\n[optimizer]\nbetas = [0.9, 0.98]\nlr = 1e-4\n')
    return folder


def places(svg: ElementTree.Element) -> list[list[tuple[float, float]]]:
    return [
        [tuple(map(float, pair.split(","))) for pair in line.get("points", "").split()]  # type: ignore[misc]
        for line in svg.iter(f"{SVG}polyline")
    ]


def test_the_card_tells_what_the_run_was(tmp_path: Path) -> None:
    run = trained(tmp_path / "my-run")
    facts = {"data": ["wiki", "books|more"], "documents": 1234, "objective": "bert", "language": "en", "plateau": 7}
    card = model_card(run, {**facts, "tags": ["bert"]})
    head, _, body = card.removeprefix("---\n").partition("\n---\n")
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load(head) == {
        "language": "en",
        "library_name": "transformers",
        "pipeline_tag": "fill-mask",
        "tags": ["bertworks", "fill-mask", "bert"],
    }
    for line in (
        "# my-run",
        'bertworks fill my-run "Paris is the [MASK] of France."',
        'model = AutoModelForMaskedLM.from_pretrained("my-run/model")',
        "| data | wiki, books\\|more |",
        "| documents | 1,234 |",
        "| objective | bert |",
        "![The loss, step by step](curve.svg)",
        "| tokens seen | 4,096,000 |",
        "| masked accuracy, mean of the last 100 steps | 23.4% |",
        "| held-out loss, step 1,000 | 5.204 |",
        "| held-out accuracy, step 1,000 | 25.0% |",
        '| model.preset | `"bert-mini"` |',
        "| optimizer.betas | `[0.9, 0.98]` |",
        "| optimizer.lr | `0.0001` |",
    ):
        assert line in body.splitlines()
    assert "- step 50: gradients explode" in body
    assert "plateau" not in body


def test_the_card_speaks_of_chinese_models_in_chinese(tmp_path: Path) -> None:
    card = model_card(trained(tmp_path, 30), {"language": "zh"})
    assert "今天天气很[MASK]。" in card
    assert 'bertworks fill model "<mask>' not in card


def test_the_curve_is_a_picture(tmp_path: Path) -> None:
    model_card(trained(tmp_path), {"plateau": 7.0})
    svg = ElementTree.fromstring((tmp_path / "curve.svg").read_text("utf8"))
    assert svg.tag == f"{SVG}svg"
    training, held_out = places(svg)
    assert len(held_out) == 4
    assert 200 < len(training) <= 400
    for line in (training, held_out):
        assert all(LEFT <= x <= WIDTH - RIGHT and TOP <= y <= HEIGHT - BOTTOM for x, y in line)
        assert line == sorted(line)
        assert [y for _, y in line] == sorted(y for _, y in line)  # a falling loss, in SVG's downward coordinates
    texts = [one.text for one in svg.iter(f"{SVG}text")]
    assert {"steps", "masked loss, nats", "training", "held out", "word frequencies alone"} <= set(texts)
    assert {"0", "200", "1,000", "5", "6", "10"} <= set(texts)
    # The axes tell the truth: a held-out 5.204 at step 1,000 lies where 5 and 6 would have it.
    ticks = {
        one.text: float(one.get("y", "nan")) - 4 for one in svg.iter(f"{SVG}text") if one.get("text-anchor") == "end"
    }
    assert held_out[-1][1] == pytest.approx(ticks["5"] + 0.204 * (ticks["6"] - ticks["5"]), abs=0.2)
    assert held_out[-1][0] == WIDTH - RIGHT


@pytest.mark.parametrize("steps", [0, 1])
def test_a_run_of_hardly_a_step_has_a_card(tmp_path: Path, steps: int) -> None:
    run = Run(tmp_path)
    run.steps(1, steps)
    card = model_card(tmp_path, {})
    assert "curve.svg" in card
    ElementTree.fromstring((tmp_path / "curve.svg").read_text("utf8"))
