"""bertworks pretrain RECIPE [a.b=c ...] --data STORE [--data STORE=WEIGHT ...] --out RUN"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from .reporting import Report, misused, verb
from .running import FACTS, RECIPE, check_begun, recipe_table

if TYPE_CHECKING:
    import torch

    from bertworks.config import Table
    from bertworks.tasks.pretrain import Made, Recipe
    from bertworks.text.store import Store
    from bertworks.train.contract import Settings
    from bertworks.train.ranks import Ranks
    from bertworks.train.watch import Unseen, Watch


@click.command()
@click.argument("recipe")
@click.argument("overrides", nargs=-1, metavar="[A.B=C]...")
@click.option(
    "--data",
    required=True,
    multiple=True,
    type=click.Path(),
    metavar="STORE[=WEIGHT]",
    help="The store to train on. Several are mixed: in shares by weight, or each as often as it has examples.",
)
@click.option("--dev", metavar="STORE", help="A store to look at now and then, never trained on.")
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="The run folder to write.")
@click.option(
    "--resume", is_flag=True, help="Go on from the run's newest checkpoint; only budget.* and run.* may change."
)
@verb
def command(
    report: Report,
    recipe: str,
    overrides: tuple[str, ...],
    data: tuple[str, ...],
    dev: str | None,
    out: Path,
    resume: bool,
) -> None:
    """Train a model from the first word, or go on with one, as RECIPE says: a file, or one that is shipped.

    A.B=C changes a key of the recipe. Ctrl-C finishes the step, writes a checkpoint and leaves; --resume goes on as if
    nothing had happened. RUN/model is then an ordinary model folder.

    \b
    bertworks pretrain bert-mini --data store --out run budget.minutes=30
    bertworks pretrain bert-mini --data store --out run budget.minutes=60 --resume
    bertworks pretrain bert-mini --data news=0.7 --data law=0.3 --out run
    torchrun --nproc-per-node 8 -m bertworks pretrain bert-base --data store --out run
    """
    from bertworks.runtime.machine import choose_device, use_granted_cores
    from bertworks.tasks.pretrain import make_model
    from bertworks.text.store import Store
    from bertworks.train.ranks import Ranks

    use_granted_cores()
    ranks = Ranks.joined(choose_device())
    report = report if ranks.leads else Report(report.as_json, True, report.seed)
    sources = Sources.of(data)
    check_begun(out, resume)
    chosen = recipe_of(recipe, overrides, report.seed, out if resume else None)
    ready = make_model(chosen, sources.stores[0])
    ranks.wait()  # all have seen whether there is a run before it is begun
    if ranks.leads:
        _begin(out, chosen, ready, sources, resume)
    outcome = _train(report, chosen, ready, sources, Store(dev) if dev else None, out, resume, ranks)
    value = {"out": str(out), "model": str(out / "model"), **outcome}
    if ranks.leads:
        report.result(value, lambda: _text(value))
    ranks.leave()
    if outcome["outcome"] == "stopped":
        raise click.exceptions.Exit(130)


@dataclass(frozen=True)
class Sources:
    """The stores to train on, all of one tokenizer, and their weights where they are given."""

    stores: list[Store]
    weights: list[Fraction] | None

    @classmethod
    def of(cls, data: Sequence[str]) -> Sources:
        from bertworks.errors import InputError
        from bertworks.text.store import Store

        parts = [_weighed(one) for one in data]
        stores = [Store(name) for name, _ in parts]
        for at, store in enumerate(stores):
            if store.identity in {one.identity for one in stores[:at]}:
                raise InputError(f"{store.folder} is given twice", "give it once, with a larger weight")
            store.require(stores[0].tokenizer, str(stores[0].folder))
        weights = [weight for _, weight in parts if weight is not None]
        if weights and len(weights) < len(parts):
            without = next(name for name, weight in parts if weight is None)
            raise misused(f"--data {without} has no weight and others have: give all of them one, or none")
        return cls(stores, weights if len(parts) > 1 and weights else None)

    def told(self) -> list[dict[str, str]]:
        """What a run remembers of them."""
        weights = ["" if self.weights is None else str(self.weights[at]) for at in range(len(self.stores))]
        return [
            {"data": str(store.folder), "store": store.identity, "weight": weight}
            for store, weight in zip(self.stores, weights, strict=True)
        ]


def _weighed(given: str) -> tuple[str, Fraction | None]:
    """STORE or STORE=WEIGHT; a folder of that very name is a store."""
    name, sign, text = given.rpartition("=")
    if not sign or Path(given).is_dir():
        return given, None
    try:
        weight = Fraction(text)
    except (ValueError, ZeroDivisionError):
        weight = Fraction(0)
    if weight <= 0:
        raise misused(f"--data {given}: {text!r} is not a weight; write {name}=2, or {name}=0.3")
    return name, weight


def recipe_of(name: str, overrides: Sequence[str], seed: int, run: Path | None) -> Recipe:
    """The recipe with what is changed on the command line; on resume the run's own, but for budget and run."""
    from bertworks.errors import ConfigError
    from bertworks.tasks.pretrain import Recipe

    table = recipe_table(name, overrides, seed, run)
    if "task" in table:
        raise ConfigError(f"{name} is a recipe for fine-tuning", f"see `bertworks finetune {name} --help`")
    return Recipe.of(table)


def _begin(out: Path, recipe: Recipe, ready: Made, sources: Sources, resume: bool) -> None:
    """The run's folder, with the recipe as it is followed and the stores that it is tied to."""
    from bertworks.config import to_toml
    from bertworks.errors import InputError
    from bertworks.folders import written

    if resume:
        begun = json.loads((out / FACTS).read_text(encoding="utf8"))["stores"]
        if [_tie(one) for one in begun] != [_tie(one) for one in sources.told()]:
            wanted = " ".join(f"--data {one['data']}{'=' if one['weight'] else ''}{one['weight']}" for one in begun)
            names = " and ".join(str(store.folder) for store in sources.stores)
            said = " is not the store" if len(begun) == len(sources.stores) == 1 else ": not the stores and weights"
            raise InputError(f"{names}{said} that {out} was begun with", f"give {wanted}")
    else:
        out.mkdir(parents=True, exist_ok=True)
        facts = {"stores": sources.told(), "tokenizer": sources.stores[0].digest}
        with written(out / FACTS) as file:
            file.write((json.dumps(facts, indent=1) + "\n").encode())
    resolved: Table = recipe.resolved(ready.description.config, ready.description.architecture.name)
    with written(out / RECIPE) as file:
        file.write(to_toml(resolved).encode())


def _tie(told: Mapping[str, str]) -> tuple[str, str]:
    """What has to be the same on resume; the folder may have moved."""
    return told["store"], told["weight"]


def _train(
    report: Report,
    recipe: Recipe,
    ready: Made,
    sources: Sources,
    dev: Store | None,
    out: Path,
    resume: bool,
    ranks: Ranks,
) -> dict[str, Any]:
    from bertworks.runtime.machine import choose_dtype
    from bertworks.tasks.pretrain import evaluation, line_of, loss_of, plateau_of, put_together
    from bertworks.train.loop import Loop

    settings = recipe.settings
    dtype = choose_dtype(settings.run.precision, ranks.on)
    ready.model.to(ranks.on)
    loss = loss_of(recipe, ready)
    if dev is not None:
        dev.require(sources.stores[0].tokenizer, str(sources.stores[0].folder))
    line = line_of(recipe, sources.stores, sources.weights, report.remark)
    plateau = plateau_of(sources.stores, line) if ranks.leads else 0.0
    watch = _watch(report, settings, ready, out, dtype, plateau, ranks)
    loop = Loop(
        ready.model,
        loss,
        line,
        settings,
        out,
        dtype=dtype,
        watch=watch,
        say=watch.say,
        evaluate=None if dev is None else evaluation(recipe, dev, loss, report.remark, ranks),
        ranks=ranks,
    )
    started = time.monotonic()
    if resume and loop.resume() and loop.share() >= 1:
        return {"outcome": "finished", "steps": loop.state.step, "tokens": loop.state.tokens, "already": True}
    try:
        outcome = loop.train()
    finally:
        watch.close()
    if loop.sharded:
        ready = put_together(recipe, sources.stores[0], loop.whole())
    else:
        loop.hand_back()
    if ranks.leads:
        _write_model(out, recipe, ready, sources, plateau)
    return {
        "outcome": outcome,
        "steps": loop.state.step,
        "tokens": loop.state.tokens,
        "seconds": round(time.monotonic() - started, 1),
    }


def _watch(
    report: Report, settings: Settings, ready: Made, out: Path, dtype: torch.dtype, plateau: float, ranks: Ranks
) -> Watch | Unseen:
    from bertworks.inspect import costs
    from bertworks.runtime.machine import matrix_peak
    from bertworks.train.watch import Total, Unseen, Watch

    peak = ranks.sums({"peak": matrix_peak(dtype, ranks.on)})["peak"]  # of all together, measured at the same time
    if not ranks.leads:
        return Unseen()
    budget = next((name, value) for name, value in vars(settings.budget).items() if value is not None)
    return Watch(
        out,
        total=Total(cast("Any", budget[0]), float(budget[1])),
        say=report.remark,
        live=os.isatty(2) and not report.quiet,
        flops_per_token=costs.flops_per_token(ready.description.config, settings.batch.length)["pretraining_step"],
        peak_flops=peak,
        plateau=plateau,
    )


def _write_model(out: Path, recipe: Recipe, ready: Made, sources: Sources, plateau: float) -> None:
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
        sources.stores[0].tokenizer.save(folder)
    with written(out / "README.md") as file:
        file.write(model_card(out, _facts(out, recipe, ready, sources) | {"plateau": plateau}).encode())


def _facts(out: Path, recipe: Recipe, ready: Made, sources: Sources) -> dict[str, Any]:
    objective, stores, weights = recipe.objective, sources.stores, sources.weights
    shares = [f" at {float(weight / sum(weights)):.1%}" for weight in weights] if weights else [""] * len(stores)
    begun = {"continued_from": recipe.model["from"]} if "from" in recipe.model else {}
    return {
        "name": out.name,
        "mask_token": stores[0].tokenizer.mask_token or "[MASK]",
        "data": ", ".join(f"{store.folder.name}{share}" for store, share in zip(stores, shares, strict=True)),
        "documents": sum(store.documents for store in stores),
        "corpus_tokens": sum(store.tokens for store in stores),
        **begun,
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
