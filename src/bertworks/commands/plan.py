"""bertworks plan RECIPE [a.b=c ...] [--data STORE] [--devices 8xH100]"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .reporting import Report, verb

if TYPE_CHECKING:
    import torch

    from bertworks.inspect.plan import Work
    from bertworks.models.parts import Architecture
    from bertworks.tasks.pretrain import Recipe
    from bertworks.text.store import Store

TRIAL_SECONDS = 1.5  # of one microbatch, about; four are run
PATIENCE = 10.0  # what seems to take longer than this altogether is not tried
BUILDING = 25e-9  # seconds to draw and lay out one weight, about
ELSEWHERE = ("1xRTX4090", "1xA100-80", "8xH100")


@click.command()
@click.argument("recipe")
@click.argument("overrides", nargs=-1, metavar="[A.B=C]...")
@click.option("--data", metavar="STORE", help="The store to train on: its vocabulary, and the size of an epoch.")
@click.option("--devices", metavar="NxNAME", help="Plan for GPUs such as 8xH100, in place of this machine.")
@click.option("--price", type=click.FloatRange(min=0), help="US dollars an hour of one device [a typical price].")
@click.option("--reckon", is_flag=True, help="Reckon the speed of this machine; try no training step.")
@verb
def command(
    report: Report,
    recipe: str,
    overrides: tuple[str, ...],
    data: str | None,
    devices: str | None,
    price: float | None,
    reckon: bool,
) -> None:
    """Say before the start what a pre-training takes: parameters, memory, steps, tokens, time and cost.

    For this machine a few training steps are tried where that takes seconds; for named GPUs the time is reckoned from
    their data sheets.

    \b
    bertworks plan bert-mini budget.minutes=30
    bertworks plan bert-base --devices 8xH100
    """
    from bertworks.inspect import plan
    from bertworks.inspect.devices import devices_of
    from bertworks.tasks.pretrain import config_of
    from bertworks.text.store import Store

    from .pretrain import recipe_of
    from .reporting import misused

    if devices and reckon:
        raise misused("--reckon is for this machine; with --devices all is reckoned")
    if price is not None and not devices:
        raise misused("--price is for --devices")
    where = devices_of(devices) if devices else None
    chosen = recipe_of(recipe, overrides, report.seed, None)
    store = Store(data) if data else None
    vocabulary = (store.vocab_size, store.tokenizer.pad_id) if store else (None, None)
    family, config = config_of(chosen, *vocabulary)
    epoch_rows = _epoch_rows(report, chosen, store) if store and chosen.settings.budget.epochs else None
    work = plan.work_of(chosen, family, config, epoch_rows)
    found = plan.on_gpus(work, *where, price) if where else _here(report, work, family, reckon)
    value = _described(recipe, family.name, work, data) | found
    if where is None:
        value["elsewhere"] = _elsewhere(work, value["tokens"])
    report.result(value, lambda: _text(value, work))


def _epoch_rows(report: Report, recipe: Recipe, store: Store) -> int:
    """Examples in the first epoch. Laying them out is what training does first; they stay beside the store."""
    from bertworks.objectives.frame import Frame
    from bertworks.objectives.index import layout_index

    length, seed = recipe.settings.batch.length, recipe.settings.run.seed
    frame = Frame.of(store.tokenizer)
    index = layout_index(store, frame, recipe.objective, length, seed=seed, copy=0, say=report.remark)
    return len(index.rows) - 1


def _described(recipe: str, family: str, work: Work, data: str | None) -> dict[str, Any]:
    batch, config = work.batch, work.config
    budget = {name: number for name, number in vars(work.recipe.settings.budget).items() if number is not None}
    return {
        "recipe": recipe,
        "architecture": family,
        "layers": config.layers,
        "hidden_size": config.hidden_size,
        "vocabulary": {"size": config.vocab_size, "from": data or "the recipe"},
        "parameters": work.parameters,
        "parameters_by_part": {name: work.by_part[name] for name in ("embeddings", "encoder", "pooler", "heads")},
        "batch": {"tokens": batch.rows * batch.length, "rows": batch.rows, "length": batch.length},
        "budget": budget,
        "currency": "USD",
    }


def _here(report: Report, work: Work, family: Architecture, reckon: bool) -> dict[str, Any]:
    """The plan for this machine: tried where that is cheap, else reckoned from the speed of its matrix product."""
    from bertworks import system
    from bertworks.inspect import plan
    from bertworks.runtime import machine

    machine.use_granted_cores()
    device = machine.choose_device()
    dtype = machine.choose_dtype(work.recipe.settings.run.precision, device)
    precision = next(name for name, kind in machine.DTYPES.items() if kind == dtype)
    peak = machine.matrix_peak(dtype, device)
    share = plan.cpu_share(work.config.hidden_size)
    name, kind, room = f"{system.cpu_name()}, {system.cores_granted()} cores", "cpu", system.memory_bytes()
    if device.type == "cuda":
        import torch

        facts = torch.cuda.get_device_properties(device)
        name, kind, room = facts.name, "gpu", facts.total_memory
    row = work.batch.length * work.flops_per_token / (peak * share)
    rows = max(1, min(work.microbatch(), int(TRIAL_SECONDS / row)))
    fits = room is None or work.memory(rows, precision, kind).total < room
    if reckon or not fits or 4 * rows * row + work.parameters * BUILDING > PATIENCE:
        seconds = plan.step_seconds(work, peak * share)
        speed = {"how": "reckoned", "utilisation": share, "peak_flops": peak}
    else:
        report.remark("trying a few training steps …")
        seconds, steps = _tried(work, family, rows, dtype, device)
        done = work.batch.rows * work.batch.length * work.flops_per_token / seconds
        speed = {"how": "measured", "trial_steps": steps, "trial_rows": rows, "utilisation": round(done / peak, 3)}
        speed["peak_flops"] = peak
    return plan.here(work, name, kind, precision, room, seconds, speed)


def _tried(work: Work, family: Architecture, rows: int, dtype: torch.dtype, device: torch.device) -> tuple[float, int]:
    """Seconds of a whole step, from a trial of microbatches of `rows` rows; and how many were timed."""
    from bertworks.inspect.trial import STEPS, tried
    from bertworks.tasks.pretrain import built

    found = tried(work.recipe, built(work.recipe, family, work.config), rows, dtype, device)
    return found.seconds(work.batch.rows, work.microbatches()), STEPS


def _elsewhere(work: Work, tokens: int) -> list[dict[str, Any]]:
    """The same tokens on some GPUs that can be rented."""
    from bertworks.inspect import plan
    from bertworks.inspect.devices import devices_of

    found = []
    for text in ELSEWHERE:
        count, device = devices_of(text)
        told = plan.on_gpus(work, count, device)
        seconds = tokens / told["tokens_per_second"]
        cost = round(count * device.price * seconds / 3600, 2)
        found.append({"devices": text, "seconds": round(seconds, 1), "cost": cost, "fits": told["fits"]})
    return found


# -- for a person ----------------------------------------------------------------------------------------------


def _text(value: dict[str, Any], work: Work) -> str:
    parts, batch = value["parameters_by_part"], value["batch"]
    named = ", ".join(f"{name} {_short(count)}" for name, count in parts.items() if count)
    micro = work.batch.microbatch
    why = f"auto: about {work.batch.length * value['microbatch']:,} tokens" if micro == "auto" else "as the recipe says"
    times = f"{value['microbatches']:,} microbatches" if value["microbatches"] > 1 else "one microbatch"
    each = " on each device" if value["device"]["count"] > 1 else ""
    rows = [
        ("model", f"{value['architecture']}, {value['layers']} layers of {value['hidden_size']}, vocabulary "
         f"{value['vocabulary']['size']:,} (from {value['vocabulary']['from']})"),
        ("parameters", f"{value['parameters']:,}: {named}"),
        ("device", _device(value["device"])),
        ("batch", f"{batch['tokens']:,} tokens a step: {batch['rows']:,} rows of {batch['length']}"),
        ("", f"{times} of {value['microbatch']:,} rows{each} ({why})"),
        ("budget", _budget(value)),
        ("speed", f"{value['tokens_per_second']:,.0f} tokens a second, {_how(value)}"),
        ("time", duration(value["seconds"])),
        ("memory", _memory(value)),
        ("", ", ".join(f"{name} {_bytes(size)}" for name, size in value["memory"].items() if name != "checkpoint")),
        ("", _checkpoint(value["memory"])),
        ("", _fitting(value)),
        ("cost", _cost(value)),
    ]  # fmt: skip
    lines = [f"{name:12}{text}" for name, text in rows if text]
    return "\n".join(lines + _others(value))


def _device(device: dict[str, Any]) -> str:
    count = f"{device['count']} × " if device["count"] > 1 else ""
    return f"{count}{device['name']}, training in {device['precision']}"


def _budget(value: dict[str, Any]) -> str:
    ((name, number),) = value["budget"].items()
    tokens, steps = f"{_short(value['tokens'])} tokens", f"about {value['steps']:,} steps"
    if name == "steps":
        return f"{number:,} steps: {tokens}"
    if name == "tokens":
        return f"{tokens}: {steps}"
    return f"{number:g} {name}: about {tokens}, {steps}"


def _how(value: dict[str, Any]) -> str:
    speed = value["speed"]
    peak = f"{speed['utilisation']:.0%} of the {value['device']['precision']} matrix peak of {_flops(speed)}"
    if speed["how"] == "measured":
        return f"measured here: {speed['trial_steps']} steps of {speed['trial_rows']} rows, {peak}"
    return f"reckoned at {peak}"


def _memory(value: dict[str, Any]) -> str:
    room, need = value["device"]["memory_bytes"], _bytes(value["memory_bytes"])
    if room is None:
        return f"{need} at the peak"
    return f"{need} at the peak, of {_bytes(room)}: " + ("fits" if value["fits"] else "does not fit")


def _checkpoint(parts: dict[str, int]) -> str:
    return f"between steps, a checkpoint's copy {_bytes(parts['checkpoint'])}" if parts["checkpoint"] else ""


def _fitting(value: dict[str, Any]) -> str:
    largest = value["largest_microbatch"]
    if largest is None:
        return ""
    if not largest:
        return "not even a microbatch of one row fits: take a smaller model or batch.length"
    if largest * value["device"]["count"] >= value["batch"]["rows"]:
        return "the whole batch fits as one microbatch"
    return f"the largest microbatch that fits: batch.microbatch={largest}"


def _cost(value: dict[str, Any]) -> str:
    from bertworks.inspect.devices import PRICES_OF

    if value["cost"] is None:
        return "none but the electricity"
    return (
        f"{value['cost']:,.2f} US dollars at {value['price_per_hour']:.2f} an hour of each device "
        f"(typical prices of {PRICES_OF}; --price says yours)"
    )


def _others(value: dict[str, Any]) -> list[str]:
    if not value.get("elsewhere"):
        return []
    lines = ["", "the same tokens elsewhere, reckoned (--devices tells more):"]
    for one in value["elsewhere"]:
        fits = "" if one["fits"] else "   does not fit at this microbatch"
        cost = "under a cent" if one["cost"] < 0.01 else f"{one['cost']:,.2f} US dollars"
        lines.append(f"  {one['devices']:12}{duration(one['seconds']):>16}   {cost}{fits}")
    return lines


def duration(seconds: float) -> str:
    """In the two largest units that say something.

    >>> duration(42), duration(61), duration(12000), duration(1e6)
    ('42 s', '1 min 1 s', '3 h 20 min', '11 days 13 h')
    """
    left = round(seconds)
    found: list[str] = []
    for unit, size in (("year", 365 * 86400), ("day", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        number, left = divmod(left, size)
        if number:
            found.append(f"{number:,} {unit}{'s' if size >= 86400 and number > 1 else ''}")
        elif found:
            break
    return " ".join(found[:2]) or "under 1 s"


def _short(number: float) -> str:
    for size, unit in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:,.0f}"


def _bytes(number: int) -> str:
    return f"{number / 2**30:.2f} GiB" if number >= 2**30 else f"{number / 2**20:.0f} MiB"


def _flops(speed: dict[str, Any]) -> str:
    peak = speed["peak_flops"]
    return f"{peak / 1e12:,.0f} TFLOP/s" if peak >= 1e13 else f"{peak / 1e9:,.0f} GFLOP/s"
