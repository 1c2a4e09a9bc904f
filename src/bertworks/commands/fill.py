"""bertworks fill MODEL TEXT"""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from .reporting import PICKLE_OPTION, Report, cells, device_options, verb

if TYPE_CHECKING:
    from bertworks.runtime.predictor import Guess


@click.command()
@click.argument("model")
@click.argument("text")
@click.option(
    "--top-k",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="How many guesses for each blank.",
)
@device_options
@PICKLE_OPTION
@verb
def command(report: Report, model: str, text: str, top_k: int, device: str, dtype: str, allow_pickle: bool) -> None:
    """Fill in the blanks of TEXT (- for standard input): the likeliest words for each [MASK].

    \b
    bertworks fill MODEL "Paris is the [MASK] of France."
    bertworks fill MODEL "今天天气很[MASK]" --top-k 3
    """
    from bertworks.runtime.predictor import load

    text = sys.stdin.read().rstrip("\n") if text == "-" else text
    predictor = load(model, device=device, dtype=dtype, allow_pickle=allow_pickle, seed=report.seed)
    filled = predictor.fill(text, top_k=top_k)
    several = bool(filled) and isinstance(filled[0], list)
    results: Any = [[asdict(g) for g in one] for one in filled] if several else [asdict(g) for g in filled]
    report.result({"results": results}, lambda: _table(filled if several else [filled]))


def _table(blanks: list[list[Guess]]) -> str:
    """For each blank its guesses: probability, word, the whole text."""
    lines = []
    for number, guesses in enumerate(blanks, 1):
        if len(blanks) > 1:
            lines.append(f"blank {number}")
        width = max(cells(guess.token_str.strip()) for guess in guesses)
        for guess in guesses:
            word = guess.token_str.strip()
            pad = " " * (width - cells(word))
            lines.append(f"{guess.score:7.2%}  {word}{pad}  {guess.sequence}")
    return "\n".join(lines)
