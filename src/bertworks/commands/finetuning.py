"""One fine-tuning from its rows to its model folder, card and report: what `finetune` and `suite` do."""

from __future__ import annotations

import copy
import json
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from .evaluating import pages, report_of
from .reporting import Report
from .running import FACTS, RECIPE

if TYPE_CHECKING:
    import torch
    from torch import nn

    from bertworks.metrics import Scores
    from bertworks.tasks.data import Table
    from bertworks.tasks.finetune import Ready
    from bertworks.tasks.recipe import TuningRecipe
    from bertworks.tasks.task import Prediction

RESULT = "result.json"


@dataclass(frozen=True)
class Job:
    """What is to be done, and where it goes. command: what a person would type to do it again."""

    recipe: TuningRecipe
    model: str
    train: Table
    dev: Table
    out: Path
    facts: dict[str, Any]
    command: str = ""

    @property
    def judged_by(self) -> tuple[str, bool]:
        """The figure that runs are compared by, which may depend on what the rows are."""
        return self.recipe.task.learning(self.train).judged_by


@dataclass(frozen=True)
class Done:
    """outcome: finished or stopped; already: it was finished before."""

    outcome: str
    steps: int
    tokens: int
    seconds: float
    scores: Scores
    already: bool = False

    def value(self) -> dict[str, Any]:
        """For --json."""
        told = {"outcome": self.outcome, "steps": self.steps, "tokens": self.tokens, "seconds": round(self.seconds, 1)}
        return {**told, **self.scores.json(), **({"already": True} if self.already else {})}


def tuned(report: Report, job: Job, resume: bool) -> Done:
    """The whole of one run; what was finished before is only told again."""
    from bertworks.runtime.machine import choose_device, choose_dtype
    from bertworks.tasks.finetune import finished, fitted, prepared

    started = time.monotonic()
    _same(job)
    if resume and (found := _already(job)) is not None:
        return found
    begin(job)
    ready = prepared(job.recipe, job.model, job.train, job.dev, report.remark)
    device = choose_device()
    ready.model.to(device)
    outcome, steps, tokens = "finished", 0, 0
    if job.recipe.budget is not None:
        dtype = choose_dtype(job.recipe.run.precision, device)
        outcome, steps, tokens = _trained(report, job, ready, dtype, resume)
    finished(ready)
    module = as_used(ready.model, choose_dtype("auto", device), device)
    fitted(ready, module)
    predictions, scores = judged(ready, module, job.recipe.run.seed)
    done = Done(outcome, steps, tokens, time.monotonic() - started, scores)
    _written(job, ready, predictions, done)
    return done


def _same(job: Job) -> None:
    """What a run was begun with has to be there again, under whatever name."""
    from bertworks.errors import InputError

    if not (job.out / FACTS).exists():
        return
    begun = json.loads((job.out / FACTS).read_bytes())
    for option, name in (("model", "model"), ("train", "train_digest"), ("dev", "dev_digest")):
        if begun.get(name) != job.facts.get(name):
            was = f"give --{option} {begun[option]}" if option in begun else f"leave --{option} out"
            raise InputError(f"--{option} is not what {job.out} was begun with", was)


def begin(job: Job) -> None:
    """The run's folder, with the recipe as it is followed and what it was begun with."""
    from bertworks.config import to_toml
    from bertworks.folders import written

    _same(job)
    job.out.mkdir(parents=True, exist_ok=True)
    with written(job.out / FACTS) as file:
        file.write((json.dumps(job.facts, indent=1, ensure_ascii=False) + "\n").encode())
    with written(job.out / RECIPE) as file:
        file.write(to_toml(job.recipe.resolved()).encode())


def as_used(model: Any, dtype: torch.dtype, device: torch.device) -> nn.Module:
    """The model in the number format that it will predict in: what is measured is what is used."""
    import torch

    from bertworks.models.folder import convert

    if dtype == torch.float32:
        made = model.to(device)
    else:
        made = copy.deepcopy(model)
        convert(made, dtype)
        made.to(device)
    return cast("nn.Module", made.eval())


def judged(ready: Ready, module: nn.Module, seed: int) -> tuple[list[Prediction], Scores]:
    from bertworks.tasks.predicting import outputs_of

    outputs = outputs_of(ready.task, module, ready.dev)
    predictions = ready.task.decode(ready.dev_rows, ready.dev, outputs)
    return predictions, ready.task.score(ready.dev_rows, predictions, seed)


def _trained(report: Report, job: Job, ready: Ready, dtype: torch.dtype, resume: bool) -> tuple[str, int, int]:
    from bertworks.tasks.finetune import loop_of
    from bertworks.train.watch import Total, Watch

    name, size = next((name, size) for name, size in vars(job.recipe.budget).items() if size is not None)
    watch = Watch(
        job.out,
        total=Total(cast("Any", name), float(size)),
        say=report.remark,
        live=os.isatty(2) and not report.quiet,
    )
    loop = loop_of(ready, job.recipe, job.out, dtype=dtype, watch=watch, say=watch.say)
    outcome = "finished"
    try:
        if not (resume and loop.resume() and loop.done):
            outcome = loop.train()
    finally:
        watch.close()
    loop.hand_back()
    if loop.state.best is not None and loop.state.best_step != loop.state.step:
        report.remark(f"the weights of step {loop.state.best_step:,} were the best: they are kept")
    return outcome, loop.state.step, loop.state.tokens


def _written(job: Job, ready: Ready, predictions: list[Prediction], done: Done) -> None:
    from bertworks.folders import written
    from bertworks.tasks.card import tuned_card
    from bertworks.tasks.starting import write_tuned

    write_tuned(job.out / "model", ready.model, ready.description, ready.tokenizer, ready.task)
    shown = report_of(ready.task, job.out.name, ready.dev_rows, predictions, done.scores)
    shown = replace(
        shown,
        data=job.dev.file,
        command=job.command,
        sizes={"train": len(job.train), "dev": len(job.dev)},
        curve=_curves(job.out),
    )
    pages(shown, job.out / "report.html")
    with written(job.out / "README.md") as file:
        facts: dict[str, object] = {"begun_from": job.model, "train": f"{job.train.file}, {len(job.train):,} rows"}
        facts["dev"] = f"{job.dev.file}, {len(job.dev):,} rows"
        facts["steps"] = done.steps
        facts["parameters"] = sum(weight.numel() for weight in ready.model.parameters())
        file.write(tuned_card(job.out, ready.task, done.scores, facts).encode())
    kept = {**done.value(), "budget": job.recipe.resolved()["budget"], "details": done.scores.details}
    with written(job.out / RESULT) as file:
        file.write((json.dumps(kept, ensure_ascii=False) + "\n").encode())


def _already(job: Job) -> Done | None:
    """What a finished run of the same budget came to."""
    from bertworks.metrics import Scores

    path = job.out / RESULT
    if not path.exists():
        return None
    told = json.loads(path.read_bytes())
    if told["outcome"] != "finished" or told["budget"] != job.recipe.resolved()["budget"]:
        return None

    def number(value: Any) -> Any:
        return float("nan") if value is None else value

    scores = Scores(
        {name: number(value) for name, value in told["metrics"].items()},
        {name: (span[0], span[1]) for name, span in told["intervals"].items()},
        told["examples"],
        {name: {key: number(one) for key, one in some.items()} for name, some in told["baselines"].items()},
        told["details"],
        tuple(told["remarks"]),
    )
    return Done("finished", told["steps"], told["tokens"], told["seconds"], scores, already=True)


def _curves(out: Path) -> dict[str, list[tuple[float, float]]]:
    """Loss over steps, and the figures of looks in between."""
    from bertworks.train.watch import metrics

    found: dict[str, list[tuple[float, float]]] = {}
    for row in metrics(out):
        for name in ("loss", "dev_accuracy", "dev_f1", "dev_spearman"):
            if isinstance(row.get(name), float | int):
                found.setdefault(name, []).append((row["step"], float(row[name])))
    return {name: points[:: max(1, len(points) // 300)] for name, points in found.items() if len(points) > 1}
