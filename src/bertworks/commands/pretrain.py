"""bertworks pretrain RECIPE [a.b=c ...] --data STORE --out RUN"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from .reporting import Report, verb

if TYPE_CHECKING:
    from bertworks.config import Table
    from bertworks.tasks.pretrain import Made, Recipe
    from bertworks.text.store import Store

RECIPE, FACTS = "recipe.toml", "run.json"
MAY_CHANGE = ("budget", "run")  # on resume


@click.command()
@click.argument("recipe")
@click.argument("overrides", nargs=-1, metavar="[A.B=C]...")
@click.option("--data", required=True, metavar="STORE", help="The store to train on.")
@click.option("--dev", metavar="STORE", help="A store to look at now and then, never trained on.")
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="The run folder to write.")
@click.option(
    "--resume", is_flag=True, help="Go on from the run's newest checkpoint; only budget.* and run.* may change."
)
@verb
def command(
    report: Report, recipe: str, overrides: tuple[str, ...], data: str, dev: str | None, out: Path, resume: bool
) -> None:
    """Train a model from the first word, or go on with one, as RECIPE says: a file, or one that is shipped.

    A.B=C changes a key of the recipe. Ctrl-C finishes the step, writes a checkpoint and leaves; --resume goes on as if
    nothing had happened. RUN/model is then an ordinary model folder.

    \b
    bertworks pretrain bert-mini --data store --out run budget.minutes=30
    bertworks pretrain bert-mini --data store --out run budget.minutes=60 --resume
    """
    from bertworks.errors import InputError
    from bertworks.runtime.machine import use_granted_cores
    from bertworks.tasks.pretrain import make_model
    from bertworks.text.store import Store

    use_granted_cores()
    store = Store(data)
    begun = (out / RECIPE).exists()
    if begun and not resume:
        raise InputError(f"{out} holds a run already", "go on with --resume, or name another --out")
    if resume and not begun:
        raise InputError(f"{out} holds no run to resume", "leave --resume out to begin one")
    chosen = _recipe(recipe, overrides, report.seed, out if resume else None)
    ready = make_model(chosen, store)
    _begin(out, chosen, ready, store, resume)
    outcome = _train(report, chosen, ready, store, Store(dev) if dev else None, out, resume)
    value = {"out": str(out), "model": str(out / "model"), **outcome}
    report.result(value, lambda: _text(value))
    if outcome["outcome"] == "stopped":
        raise click.exceptions.Exit(130)


def _recipe(name: str, overrides: Sequence[str], seed: int, run: Path | None) -> Recipe:
    """The recipe with what is changed on the command line; on resume the run's own, but for budget and run."""
    from bertworks import recipes
    from bertworks.config import overridden, read_toml
    from bertworks.errors import ConfigError
    from bertworks.tasks.pretrain import Recipe

    table = read_toml(recipes.path_of(name))
    if run is not None:
        stored = read_toml(run / RECIPE)
        for one in overrides:
            section = one.partition(".")[0]
            if section not in MAY_CHANGE and overridden(stored, [one]) != stored:
                raise ConfigError(f"{one}: on resume only budget.* and run.* may change", "begin a new run for that")
        table = stored
    elif seed:
        table = overridden(table, [f"run.seed={seed}"])
    budget = [one for one in overrides if one.startswith("budget.")]
    if budget:
        table = dict(table) | {"budget": {}}  # setting one drops the others
    return Recipe.of(
        overridden(table, [one for one in overrides if run is None or one.partition(".")[0] in MAY_CHANGE])
    )


def _begin(out: Path, recipe: Recipe, ready: Made, store: Store, resume: bool) -> None:
    """The run's folder, with the recipe as it is followed and the store that it is tied to."""
    from bertworks.config import to_toml
    from bertworks.errors import InputError
    from bertworks.folders import written

    if resume:
        told = json.loads((out / FACTS).read_text(encoding="utf8"))
        if told["store"] != store.identity:
            raise InputError(f"{store.folder} is not the store that {out} was begun with", f"give {told['data']}")
    else:
        out.mkdir(parents=True, exist_ok=True)
        facts = {"data": str(store.folder), "store": store.identity, "tokenizer": store.digest}
        with written(out / FACTS) as file:
            file.write((json.dumps(facts, indent=1) + "\n").encode())
    resolved: Table = recipe.resolved(ready.description.config, ready.description.architecture.name)
    with written(out / RECIPE) as file:
        file.write(to_toml(resolved).encode())


def _train(
    report: Report, recipe: Recipe, ready: Made, store: Store, dev: Store | None, out: Path, resume: bool
) -> dict[str, Any]:
    from bertworks.inspect import costs
    from bertworks.runtime.machine import choose_device
    from bertworks.tasks.pretrain import evaluation, examples_of, loss_of
    from bertworks.train.loop import Loop
    from bertworks.train.watch import Total, Watch

    settings = recipe.settings
    device = choose_device()
    dtype = _dtype(settings.run.precision, device.type)
    ready.model.to(device)
    loss = loss_of(recipe, ready)
    if dev is not None:
        dev.require(store.tokenizer, str(store.folder))
    budget = next((name, value) for name, value in vars(settings.budget).items() if value is not None)
    flops = costs.flops_per_token(ready.description.config, settings.batch.length)["pretraining_step"]
    watch = Watch(
        out,
        total=Total(cast("Any", budget[0]), float(budget[1])),
        say=report.remark,
        live=os.isatty(2) and not report.quiet,
        flops_per_token=flops,
    )
    loop = Loop(
        ready.model,
        loss,
        examples_of(recipe, store, report.remark),
        settings,
        out,
        dtype=dtype,
        watch=watch,
        say=watch.say,
        evaluate=None if dev is None else evaluation(recipe, dev, loss, report.remark),
    )
    started = time.monotonic()
    if resume and loop.resume() and loop.share() >= 1:
        return {"outcome": "finished", "steps": loop.state.step, "tokens": loop.state.tokens, "already": True}
    try:
        outcome = loop.train()
    finally:
        watch.close()
    loop.masters.hand_back()
    _write_model(out, recipe, ready, store)
    return {
        "outcome": outcome,
        "steps": loop.state.step,
        "tokens": loop.state.tokens,
        "seconds": round(time.monotonic() - started, 1),
    }


def _dtype(precision: str, device: str) -> Any:
    import torch

    from bertworks.runtime.machine import choose_dtype

    return choose_dtype(precision, torch.device(device))


def _write_model(out: Path, recipe: Recipe, ready: Made, store: Store) -> None:
    """The model folder, and a card that says what it is."""
    from bertworks.folders import new_folder, written
    from bertworks.models.folder import write_model
    from bertworks.train.card import model_card

    for head in [name for name in ready.model.heads if name not in ready.written]:
        del ready.model.heads[head]  # no class of transformers holds it
    if "masked_lm" in ready.written and len(ready.written) == 1:
        ready.model.encoder.pooler = None
    ready.model.cpu()
    with new_folder(out / "model", replace=True) as folder:
        write_model(folder, ready.model, ready.description)
        store.tokenizer.save(folder)
    with written(out / "README.md") as file:
        file.write(model_card(out, _facts(out, recipe, ready, store)).encode())


def _facts(out: Path, recipe: Recipe, ready: Made, store: Store) -> Mapping[str, Any]:
    objective = recipe.objective
    return {
        "name": out.name,
        "mask_token": store.tokenizer.mask_token or "[MASK]",
        "data": store.folder.name,
        "documents": store.documents,
        "corpus_tokens": store.tokens,
        "architecture": ready.description.architecture.name,
        "parameters": sum(weight.numel() for weight in ready.model.parameters()),
        "objective": f"{objective.layout}, {objective.select} at {objective.rate:.0%}, pair task: {objective.pair}",
    }


def _text(value: dict[str, Any]) -> str:
    if value.get("already"):
        return f"{value['out']} is finished: {value['steps']:,} steps; a larger budget.* goes on with it"
    if value["outcome"] == "stopped":
        return f"{value['out']}: stopped after {value['steps']:,} steps; the same command with --resume goes on"
    return (
        f"{value['out']}: {value['steps']:,} steps, {value['tokens']:,} tokens in {value['seconds']:.0f} s\n"
        f'next: bertworks fill {value["model"]} "… [MASK] …"'
    )
