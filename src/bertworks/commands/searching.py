"""`finetune --search N`: a small search over rate, batch size and epochs, by optuna."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .reporting import Report

if TYPE_CHECKING:
    from bertworks.tasks.recipe import TuningRecipe

    from .finetuning import Job

SIZES = (8, 16, 32, 64)
RATES = (1e-5, 3e-4)
EPOCHS = (1, 5)


def searched(report: Report, job: Job, trials: int) -> TuningRecipe:
    """The recipe with the settings that did best on the held-out rows; nothing else of the trials is kept.

    The held-out rows pick the settings, so the figures on them are a little too good: say so, and measure elsewhere.
    """
    from bertworks.errors import ConfigError

    try:
        import optuna
    except ImportError:
        raise ConfigError("--search wants optuna, which is not installed", "pip install optuna") from None
    from .finetuning import tuned

    figure, larger = job.judged_by
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    quiet = replace(report, quiet=True)

    def tried(trial: Any) -> float:
        recipe = _suggested(job.recipe, trial)
        with tempfile.TemporaryDirectory(prefix="bertworks-search-") as folder:
            done = tuned(quiet, replace(job, recipe=recipe, out=Path(folder) / "run"), False)
        if done.outcome == "stopped":
            raise KeyboardInterrupt
        value = done.scores.metrics[figure]
        told = ", ".join(f"{name} {_short(one)}" for name, one in trial.params.items())
        report.remark(f"trial {trial.number + 1} of {trials}: {figure} {value:.4f} ({told})")
        return value

    study = optuna.create_study(
        direction="maximize" if larger else "minimize", sampler=optuna.samplers.TPESampler(seed=job.recipe.run.seed)
    )
    study.enqueue_trial(_own(job.recipe))
    study.optimize(tried, n_trials=trials)
    report.remark(
        f"the best of {trials} trials has {figure} {study.best_value:.4f}, picked by these very held-out rows"
    )
    return _suggested(job.recipe, study.best_trial)


def _own(recipe: TuningRecipe) -> dict[str, Any]:
    """The recipe's own settings come first, as near as the search has them."""
    epochs = recipe.budget.epochs if recipe.budget is not None and recipe.budget.epochs else 3
    return {
        "lr": min(max(recipe.optimizer.lr, RATES[0]), RATES[1]),
        "size": min(SIZES, key=lambda size: abs(size - recipe.batch.size)),
        "epochs": min(max(round(epochs), EPOCHS[0]), EPOCHS[1]),
    }


def _suggested(recipe: TuningRecipe, trial: Any) -> TuningRecipe:
    from bertworks.train.options import BudgetOptions

    lr = trial.suggest_float("lr", *RATES, log=True)
    size = trial.suggest_categorical("size", SIZES)
    epochs = trial.suggest_int("epochs", *EPOCHS)
    return replace(
        recipe,
        optimizer=replace(recipe.optimizer, lr=lr),
        batch=replace(recipe.batch, size=size),
        budget=BudgetOptions(epochs=float(epochs)),
    )


def _short(value: Any) -> str:
    return f"{value:.2g}" if isinstance(value, float) else str(value)
