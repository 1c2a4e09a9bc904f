"""bertworks suite FOLDER --model MODEL"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .reporting import Report, verb

if TYPE_CHECKING:
    from .finetuning import Job

SETTINGS = "task.toml"
DEV = ("dev", "validation", "valid", "test")


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("overrides", nargs=-1, metavar="[A.B=C]...")
@click.option("--model", required=True, help="The MODEL that every task begins with.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Where the runs go [suite-FOLDER].")
@click.option("--only", multiple=True, metavar="TASK", help="Only these subfolders.")
@click.option("--resume", is_flag=True, help="Go on with a suite that was interrupted.")
@verb
def command(
    report: Report,
    folder: Path,
    overrides: tuple[str, ...],
    model: str,
    out: Path | None,
    only: tuple[str, ...],
    resume: bool,
) -> None:
    """Fine-tune MODEL on every task of FOLDER and tell all figures in one table.

    A task is a subfolder with a train file and, best, a dev file of any format; what it is, its columns tell, or the
    sections of a recipe in its task.toml. A.B=C changes a key for all tasks that have it.

    \b
    bertworks suite glue --model MODEL budget.epochs=1
    """
    from bertworks.errors import InputError
    from bertworks.runtime.machine import use_granted_cores

    from .finetuning import tuned
    from .running import check_begun

    use_granted_cores()
    names = [path.name for path in sorted(folder.iterdir()) if path.is_dir() and _file(path, ("train",)) is not None]
    for name in only:
        if name not in names:
            raise InputError(f"{folder} has no task {name!r}", f"it has {', '.join(names) or 'none'}")
    if not names:
        raise InputError(
            f"{folder} has no tasks", "each is a subfolder with a train file, such as train.csv, and a dev file"
        )
    where = out or Path(f"suite-{folder.resolve().name}")
    rows: list[dict[str, Any]] = []
    for name in [one for one in names if one in only or not only]:
        run = where / name
        again = resume and (run / "recipe.toml").exists()
        check_begun(run, again)
        job = _job(report, folder / name, overrides, model, run)
        report.remark(
            f"{name}: {job.recipe.task.name}, {len(job.train):,} rows to learn from, {len(job.dev):,} held out"
        )
        done = tuned(report, job, again)
        rows.append({"name": name, "task": job.recipe.task.name, "figure": job.judged_by[0], **done.value()})
        if done.outcome == "stopped":
            break
    value = {"model": model, "out": str(where), "tasks": rows, "mean": _mean(rows)}
    report.result(value, lambda: _table(value))
    if rows[-1]["outcome"] == "stopped":
        raise click.exceptions.Exit(130)


def _file(folder: Path, stems: tuple[str, ...]) -> str | None:
    """The first file whose name begins with one of these words."""
    for stem in stems:
        for path in sorted(folder.iterdir()):
            if path.is_file() and path.name.split(".")[0] == stem and path.suffix != ".toml":
                return str(path)
    return None


def _job(report: Report, folder: Path, overrides: tuple[str, ...], model: str, out: Path) -> Job:
    from bertworks import recipes
    from bertworks.config import overridden, read_toml
    from bertworks.tasks.data import read
    from bertworks.tasks.finetune import tables
    from bertworks.tasks.recipe import DataOptions, TuningRecipe

    from .finetuning import Job
    from .running import digest

    train, dev = _file(folder, ("train",)), _file(folder, DEV)
    own = read_toml(folder / SETTINGS) if (folder / SETTINGS).exists() else {}
    name = own.get("task", {}).get("name")
    if name is None:
        data = DataOptions.of(own.get("data", {}))
        name = read(str(train), None, data.columns, separator=data.separator, say=lambda _: None).task
    table = read_toml(recipes.path_of(name))
    for section, keys in own.items():
        kept = {} if section == "budget" else table.get(section, {})
        table[section] = {**kept, **keys}
    if any(one.startswith("budget.") for one in overrides):
        table["budget"] = {}
    seed = [f"run.seed={report.seed}"] if report.seed else []
    chosen = TuningRecipe.of(overridden(table, [*seed, *overrides]))
    learnt, held = tables(chosen, str(train), dev, report.remark)
    facts: dict[str, Any] = {"model": model, "train": train, "train_digest": digest(str(train))}
    facts |= {"dev": dev, "dev_digest": digest(dev)} if dev else {}
    command = shlex.join(["bertworks", "evaluate", str(out), "--data", str(dev or "DEV")])
    return Job(chosen, model, learnt, held, out, facts, command)


def _mean(rows: list[dict[str, Any]]) -> float | None:
    values = [row["metrics"].get(row["figure"]) for row in rows]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _table(value: dict[str, Any]) -> str:
    from bertworks.inspect.report.contents import called, written
    from bertworks.inspect.report.text import table

    lines = [["task", "", "figure", "value", "95 % interval", "guessing", "rows", "seconds"]]
    for row in value["tasks"]:
        name = row["figure"]
        low, high = row["intervals"].get(name) or (None, None)
        guesses = [one[name] for one in row["baselines"].values() if one.get(name) is not None]
        lines.append(
            [
                row["name"],
                row["task"],
                called(name),
                written(row["metrics"].get(name)),
                f"{written(low)} – {written(high)}" if low is not None else "",
                written(max(guesses)) if guesses else "",
                f"{row['examples']:,}",
                f"{row['seconds']:.0f}",
            ]
        )
    lines.append(
        ["mean", "", "", written(value["mean"]), "", "", "", f"{sum(row['seconds'] for row in value['tasks']):.0f}"]
    )
    return table(lines) + f"\nruns in {value['out']}"
