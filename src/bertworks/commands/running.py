"""What the verbs that train share: a recipe as the command line changes it, a run begun or gone on with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bertworks.config import Table

RECIPE, FACTS = "recipe.toml", "run.json"
MAY_CHANGE = ("budget", "run")  # on resume


def check_begun(out: Path, resume: bool) -> None:
    """A run is begun once, and only what was begun can be gone on with."""
    from bertworks.errors import InputError

    begun = (out / RECIPE).exists()
    if begun and not resume:
        raise InputError(f"{out} holds a run already", "go on with --resume, or name another --out")
    if resume and not begun:
        raise InputError(f"{out} holds no run to resume", "leave --resume out to begin one")


def recipe_table(name: str, overrides: Sequence[str], seed: int, run: Path | None) -> Table:
    """A recipe with what is changed on the command line; on resume the run's own, but for budget and run."""
    from bertworks import recipes
    from bertworks.config import overridden, read_toml
    from bertworks.errors import ConfigError

    table = read_toml(recipes.path_of(name))
    if run is not None:
        stored = read_toml(run / RECIPE)
        for one in overrides:
            section = one.partition(".")[0]
            if section not in MAY_CHANGE and overridden(stored, [one]) != stored:
                raise ConfigError(f"{one}: on resume only budget.* and run.* may change", "begin a new run for that")
        table = stored
        overrides = [one for one in overrides if one.partition(".")[0] in MAY_CHANGE]
    else:
        table = overridden(table, [f"run.seed={seed}"]) if seed else table
        if any(one.startswith("model.from=") for one in overrides):
            table = dict(table) | {"model": {}}  # a folder brings its own sizes
    if any(one.startswith("budget.") for one in overrides):
        table = dict(table) | {"budget": {}}  # setting one drops the others
    return overridden(table, overrides)


def digest(path: str) -> str:
    """SHA-256 of a file: what a run that is resumed has to find again."""
    import hashlib

    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
