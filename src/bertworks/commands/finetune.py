"""bertworks finetune RECIPE [a.b=c ...] --model MODEL --train FILE [--dev FILE] --out RUN"""

from __future__ import annotations

import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .reporting import Report, misused, verb

if TYPE_CHECKING:
    from .finetuning import Done, Job


@click.command()
@click.argument("recipe")
@click.argument("overrides", nargs=-1, metavar="[A.B=C]...")
@click.option("--model", required=True, help="The MODEL to begin with.")
@click.option("--train", required=True, metavar="FILE", help="Examples to learn from.")
@click.option("--dev", metavar="FILE", help="Examples to measure on [a part of --train].")
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="The run folder to write.")
@click.option(
    "--resume", is_flag=True, help="Go on from the run's newest checkpoint; only budget.* and run.* may change."
)
@click.option(
    "--search", type=click.IntRange(min=2), metavar="N", help="Try N settings of rate, size and epochs first (optuna)."
)
@verb
def command(
    report: Report,
    recipe: str,
    overrides: tuple[str, ...],
    model: str,
    train: str,
    dev: str | None,
    out: Path,
    resume: bool,
    search: int | None,
) -> None:
    """Teach a trained model a task from labelled examples, as RECIPE says: a file, or one that is shipped (classify,
    regress, tag, answer, choose, embed, prompt).

    RUN/model is then a model folder that `predict` and `evaluate` know how to use; RUN/report.html shows how well it
    does and where it errs. A.B=C changes a key of the recipe, data.text=COLUMN says what a column is.

    \b
    bertworks finetune classify --model MODEL --train train.csv --dev dev.csv --out run
    bertworks finetune regress --model MODEL --train pairs.tsv --out run data.score=similarity
    bertworks finetune classify --model MODEL --train train.csv --out run task.seeds=[0,1,2]
    bertworks finetune classify --model MODEL --train train.csv --out run task.folds=5
    """
    from bertworks.runtime.machine import use_granted_cores
    from bertworks.tasks.finetune import tables
    from bertworks.tasks.recipe import TuningRecipe

    from .finetuning import Job
    from .running import check_begun, digest, recipe_table

    use_granted_cores()
    check_begun(out, resume)
    chosen = TuningRecipe.of(recipe_table(recipe, overrides, report.seed, out if resume else None))
    if search is not None and (resume or chosen.tuning.seeds or chosen.tuning.folds):
        raise misused("--search goes with neither --resume nor task.seeds nor task.folds")
    learnt, held = tables(chosen, train, dev, report.remark)
    facts: dict[str, Any] = {"model": model, "train": train, "train_digest": digest(train)}
    facts |= {"dev": dev, "dev_digest": digest(dev)} if dev else {}
    again = ["bertworks", "evaluate", str(out), *(["--data", dev] if dev else ["--data", "DEV"])]
    job = Job(chosen, model, learnt, held, out, facts, shlex.join(again))
    if search is not None:
        from .searching import searched

        job = replace(job, recipe=searched(report, job, search))
    value = _several(report, job, resume, dev) if _parts(job) else _one(report, job, resume)
    value = {"out": str(out), "model": str(out / "model"), **value}
    report.result(value, lambda: _text(value))
    if value["outcome"] == "stopped":
        raise click.exceptions.Exit(130)


def _parts(job: Job) -> bool:
    return len(job.recipe.tuning.seeds) > 0 or job.recipe.tuning.folds > 0


def _one(report: Report, job: Job, resume: bool) -> dict[str, Any]:
    from .finetuning import tuned

    return {
        "task": job.recipe.task.name,
        "headline": job.judged_by[0],
        **tuned(report, job, resume).value(),
    }


def _several(report: Report, job: Job, resume: bool, dev: str | None) -> dict[str, Any]:
    """A run for each seed, or for each fold, in folders of their own; then their mean, and one model."""
    from .finetuning import begin, tuned

    begin(job)
    runs: dict[str, Done] = {}
    for name, one in _jobs(job, dev):
        report.remark(f"{name.replace('-', ' ')}:")
        runs[name] = tuned(report, one, resume and (one.out / "recipe.toml").exists())
        if runs[name].outcome == "stopped":
            return {"outcome": "stopped", "steps": runs[name].steps, "task": job.recipe.task.name}
    measured = {name: done for name, done in runs.items() if name != "all"}
    figure, larger = job.judged_by
    if "all" in runs:
        chosen = "all"
    else:
        ranked = sorted(measured, key=lambda name: measured[name].scores.metrics[figure], reverse=larger)
        chosen = ranked[0]
        report.remark(f"{chosen.replace('-', ' ')} has the best {figure}: its model is the run's")
    _take(job.out / chosen, job.out)
    means = _means([done.scores.metrics for done in measured.values()])
    return {
        "task": job.recipe.task.name,
        "headline": figure,
        "outcome": "finished",
        "steps": sum(done.steps for done in runs.values()),
        "seconds": round(sum(done.seconds for done in runs.values()), 1),
        "runs": {name: done.value()["metrics"] for name, done in measured.items()},
        "metrics": {name: mean for name, (mean, _) in means.items()},
        "intervals": {name: list(span) for name, (_, span) in means.items() if span[0] == span[0]},
        "examples": sum(done.scores.examples for done in measured.values())
        if job.recipe.tuning.folds
        else next(iter(measured.values())).scores.examples,
    }


def _jobs(job: Job, dev: str | None) -> list[tuple[str, Job]]:
    from bertworks.tasks.data import folds

    recipe = job.recipe
    if recipe.tuning.seeds:
        return [
            (f"seed-{seed}", replace(job, recipe=recipe.seeded(seed), out=job.out / f"seed-{seed}"))
            for seed in recipe.tuning.seeds
        ]
    # With a dev file that is what the last model, which learns from all folds, is held to.
    whole = job.train if dev else replace(job.train, rows=(*job.train.rows, *job.dev.rows))
    parts = folds(whole.rows, recipe.tuning.folds, recipe.run.seed)
    single = recipe.seeded(recipe.run.seed)
    found = []
    for number, part in enumerate(parts, 1):
        held = set(part)
        rest = [at for at in range(len(whole)) if at not in held]
        one = replace(job, recipe=single, train=whole.taking(rest), dev=whole.taking(part))
        found.append((f"fold-{number}", replace(one, out=job.out / f"fold-{number}")))
    return [*found, ("all", replace(job, recipe=single, train=whole, out=job.out / "all"))]


def _take(source: Path, out: Path) -> None:
    """A part's model, card and report stand for the whole run."""
    from bertworks.folders import new_folder, written

    with new_folder(out / "model", replace=True) as folder:
        shutil.copytree(source / "model", folder, dirs_exist_ok=True)
    for name in ("README.md", "report.html"):
        with written(out / name) as file:
            file.write((source / name).read_bytes())


def _means(runs: list[dict[str, float]]) -> dict[str, tuple[float, tuple[float, float]]]:
    """Of each figure that all runs have, over runs."""
    from bertworks.metrics.intervals import over_seeds

    common = [name for name in runs[0] if all(name in one for one in runs)]
    return {name: over_seeds([one[name] for one in runs]) for name in common}


def _text(value: dict[str, Any]) -> str:
    from bertworks.inspect.report.contents import called, written

    if value["outcome"] == "stopped":
        return f"{value['out']}: stopped after {value['steps']:,} steps; the same command with --resume goes on"
    name = value["headline"]
    low, high = value["intervals"].get(name) or (None, None)
    span = f" ({written(low)} – {written(high)})" if low is not None else ""
    parts = f", mean of {len(value['runs'])} runs" if "runs" in value else ""
    done = "was finished" if value.get("already") else f"{value['steps']:,} steps in {value['seconds']:.0f} s"
    guesses = "".join(
        f", {guess} {written(one[name])}"
        for guess, one in value.get("baselines", {}).items()
        if one.get(name) is not None
    )
    lines = [
        f"{value['out']}: {done}",
        f"{called(name)} {written(value['metrics'].get(name))}{span} on {value['examples']:,} rows{parts}{guesses}",
    ]
    lines += [f"  {run}: {written(figures[name])}" for run, figures in value.get("runs", {}).items()]
    return "\n".join([*lines, f"next: bertworks predict {shlex.quote(value['out'])} FILE"])
