"""bertworks inspect MODEL|PRESET"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .reporting import Report, verb

if TYPE_CHECKING:
    from bertworks.inspect.parameters import Part


@click.command()
@click.argument("model")
@click.option("--length", type=click.IntRange(min=1), help="Tokens a text, for arithmetic and memory [the longest].")
@click.option("--rows", type=click.IntRange(min=1), default=1, show_default=True, help="Texts at once, for memory.")
@click.option(
    "--verify", is_flag=True, help="Load the folder and look at every number in it; NaN and infinity are errors."
)
@verb
def command(report: Report, model: str, length: int | None, rows: int, verify: bool) -> None:
    """What MODEL (a folder, a hub id, or a published size) is made of.

    Parameters by part with their formulas, arithmetic per token, memory to run and to train. A published size needs
    no weights and no network.

    \b
    bertworks inspect bert-base-uncased
    bertworks inspect albert-base-v2 --length 128 --json
    """
    from bertworks.errors import InputError
    from bertworks.inspect import costs, parameters

    family, config, heads, pooler, stored = _find(model)
    if verify:
        _verify(model, has_weights=stored is not None)
    length = length or config.max_length
    if length > config.max_length:
        raise InputError(
            f"--length {length} is more than the {config.max_length} tokens that {model} takes",
            "name a smaller one",
        )
    found = parameters.parts(family, config, heads, pooler)
    summary = parameters.summary(found)
    value: dict[str, Any] = {
        "model": model,
        "architecture": family,
        "parameters": summary,
        "parts": [
            {
                "part": part.name,
                "formula": part.formula,
                "times": part.times,
                "each": part.each,
                "count": part.count,
            }
            for part in found
        ],
        "letters": parameters.letters(config),
        "layers": config.layers,
        "attention_heads": config.heads,
        "heads": list(heads),
        "flops": costs.flops_per_token(config, length),
        "memory": costs.memory_bytes(config, summary["total_with_heads"], length, rows),
        "weights": stored,
    }
    report.result(value, lambda: _text(value, found))


def _verify(model: str, has_weights: bool) -> None:
    """Load every tensor and look at every number."""
    from bertworks.errors import InputError
    from bertworks.models.folder import check_weights, load_model
    from bertworks.weights.hub import locate

    if not has_weights:
        raise InputError(f"{model} has no weights to verify", "name a folder with a model.safetensors")
    check_weights(*load_model(locate(model)))


def _find(model: str) -> tuple[str, Any, tuple[str, ...], bool, dict[str, Any] | None]:
    """Family, configuration, heads, whether there is a pooler, and what the weights' header says (folders)."""
    from pathlib import Path

    from bertworks.errors import InputError
    from bertworks.models import preset, preset_names
    from bertworks.models.folder import stored_parts

    known = preset(model)
    if known is not None and not Path(model).is_dir():
        return known[0].name, known[1], (), True, None
    from bertworks.weights.hub import locate

    try:
        folder = locate(model)
    except InputError as error:
        from bertworks.errors import nearest

        raise InputError(error.message, nearest(model, preset_names()) or error.way_out) from None
    description, heads, pooler, stored = stored_parts(folder)
    return description.architecture.name, description.config, heads, pooler, stored


def _text(value: dict[str, Any], found: list[Part]) -> str:
    summary, flops, memory = value["parameters"], value["flops"], value["memory"]
    letters = ", ".join(f"{letter}={number:,}" for letter, number in value["letters"].items())
    lines = [
        f"{value['model']}: {value['architecture']}, {value['layers']} layers, {value['attention_heads']} heads",
        letters,
        "",
        f"{'part':24}{'formula':28}{'':>5}{'parameters':>14}",
    ]
    for part in found:
        times = f"×{part.times}" if part.times > 1 else ""
        lines.append(f"{part.name:24}{part.formula:28}{times:>5}{part.count:>14,}")
    lines += [
        f"{'total':57}{summary['total']:>14,}"
        + ("   (with pooler, without heads)" if summary["pooler"] else "   (without heads)"),
        *([f"{'total with heads':57}{summary['total_with_heads']:>14,}"] if summary["heads"] else []),
        "",
        f"one layer {summary['layer']:,}; embeddings {summary['embeddings']:,}; encoder {summary['encoder']:,}",
        f"a token of a {flops['length']}-token text: forward {_flop(flops['forward'])}, "
        f"backward {_flop(flops['backward'])}, "
        f"pre-training step with masked-LM head {_flop(flops['pretraining_step'])}",
        f"memory, {memory['rows']} × {memory['length']} tokens: run {_bytes(memory['run_fp32'])} in fp32, "
        f"{_bytes(memory['run_bf16'])} in bf16; train with AdamW {_bytes(memory['train_fp32'])} in fp32, "
        f"{_bytes(memory['train_bf16'])} in bf16",
    ]
    if value["weights"]:
        stored = value["weights"]
        lines.append(
            f"weights: {stored['tensors']} tensors, {stored['parameters']:,} numbers, {', '.join(stored['dtypes'])}"
        )
    return "\n".join(lines)


def _flop(number: int) -> str:
    return f"{number / 1e6:,.1f} MFLOP"


def _bytes(number: int) -> str:
    return f"{number / 2**30:.2f} GiB" if number >= 2**30 else f"{number / 2**20:.0f} MiB"
