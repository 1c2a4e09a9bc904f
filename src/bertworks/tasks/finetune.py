"""Fine-tuning: a recipe, a trained model and labelled rows made into a task, features and a loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from bertworks.errors import ConfigError, InputError
from bertworks.models.encoder import Model
from bertworks.models.folder import Description, describe, load_model
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.contract import Best, Settings, Watcher
from bertworks.train.loop import Loop
from bertworks.weights.hub import locate

from .batches import STEP, FeatureLine
from .classify import pooled_rows
from .compact import Compact, compacted
from .data import Row, Table, read, split
from .data.read import Say
from .features import Features
from .known import task_of
from .lora import adapt, merge
from .predicting import evaluation, outputs_of
from .recipe import Batching, DataOptions, TuningRecipe
from .starting import reinitialise, starting_model
from .task import Task


@dataclass
class Ready:
    """Everything that a training wants. `kept`: frozen weights by name, as they were; `compact`: the part of the
    embedding table that is trained.
    """

    task: Task
    model: Model
    description: Description
    tokenizer: Tokenizer
    train: Features
    dev_rows: tuple[Row, ...]
    dev: Features
    kept: Mapping[str, Tensor]
    compact: Compact | None = None


def tables(recipe: TuningRecipe, train: str, dev: str | None, say: Say) -> tuple[Table, Table]:
    """The rows to learn from and those to be held to; where no dev file is given, a part of train."""
    first = labelled(recipe.task, train, recipe.data, say)
    if dev is not None:
        return first, labelled(recipe.task, dev, recipe.data, say)
    return divided(first, recipe.data.dev_share, recipe.run.seed, say)


def labelled(task: Task, path: str, data: DataOptions, say: Say) -> Table:
    return read(path, task.reads, data.columns, separator=data.separator, say=say)


def divided(table: Table, share: float, seed: int, say: Say) -> tuple[Table, Table]:
    kept, held = split(table.rows, share, seed)
    say(f"{table.file}: no --dev, so {len(held):,} of its {len(table):,} rows are held out (data.dev_share)")
    return table.taking(kept), table.taking(held)


def prepared(recipe: TuningRecipe, model: str | Path, train: Table, dev: Table, say: Say) -> Ready:
    """Model and features, ready for the loop; a function of the recipe, the model and the rows."""
    folder = locate(model)
    task = recipe.task.upon(folder).learning(train)
    task.require(dev, say)
    tokenizer = Tokenizer.load(folder)
    task = task.begun(_length(recipe, folder, tokenizer))
    features = task.features(train.rows, tokenizer, True)
    held = task.features(dev.rows, tokenizer, False)
    for table, some in ((train, features), (dev, held)):
        if some.cut:
            say(f"{table.file}: {some.cut:,} of {len(table):,} rows are longer than {task.length} tokens and are cut")
    if not features.unit_count:
        raise InputError(f"{train.file}: nothing in it can be learnt from", "look at it with `bertworks check`")
    if getattr(task, "teacher", ""):
        features = _taught(task, train.rows, features, say)
    generator = torch.Generator().manual_seed(recipe.run.seed)
    made, description = starting_model(task, folder, generator)
    if recipe.tuning.reinitialise:
        reinitialise(made, description, recipe.tuning.reinitialise, generator)
    if recipe.tuning.lora:
        adapt(made, recipe.tuning.lora, recipe.tuning.lora_alpha, recipe.tuning.lora_targets, generator)
    return Ready(task, made, description, tokenizer, features, dev.rows, held, {})


def _length(recipe: TuningRecipe, folder: Path, tokenizer: Tokenizer) -> int:
    """Tokens of a feature at most."""
    config = describe(folder).config
    most = min(config.max_length, tokenizer.max_length or config.max_length)
    length = recipe.batch.length
    if isinstance(length, str):
        return most
    if length > config.max_length:
        raise ConfigError(
            f"batch.length is {length}, more than the {config.max_length} tokens that the model takes",
            f"set batch.length={config.max_length}, or less",
        )
    return length


def loop_of(
    ready: Ready,
    recipe: TuningRecipe,
    run: Path,
    *,
    dtype: torch.dtype,
    watch: Watcher,
    say: Say,
) -> Loop:
    """The loop over the training features; looks at dev in between only where run.evaluate_every says when."""
    if recipe.budget is None:
        raise ConfigError("budget.steps is 0", "there is nothing to train")
    sizes = np.diff(ready.train.unit_starts)
    longest = -(-int(ready.train.lengths.max()) // STEP) * STEP
    batch = recipe.batch
    settings = Settings(
        Batching(batch.size, longest * int(sizes.max()), batch.microbatch, batch.ramp),
        recipe.optimizer,
        recipe.schedule,
        recipe.budget,
        recipe.run,
    )
    name, larger = ready.task.judged_by
    ready.compact = compacted(ready.model, (ready.train, ready.dev))
    train, dev = (ready.compact.of(some) if ready.compact else some for some in (ready.train, ready.dev))
    looking = bool(recipe.run.evaluate_every)
    weights = {name: weight.data for name, weight in ready.model.named_parameters()}
    loop = Loop(
        ready.model,
        ready.task.loss(),
        cast("Any", FeatureLine(train, batch.size, recipe.run.seed)),
        settings,
        run,
        dtype=dtype,
        watch=watch,
        say=say,
        evaluate=evaluation(ready.task, ready.dev_rows, dev) if looking else None,
        best=Best(f"dev_{name}", larger, recipe.tuning.patience) if looking else None,
    )
    # What is frozen computes in the loop's number format; what is written is what it was.
    frozen = {name for name, weight in ready.model.named_parameters() if not weight.requires_grad}
    ready.kept = {name: weight for name, weight in weights.items() if name in frozen}
    return loop


def finished(ready: Ready) -> None:
    """After the loop has handed the weights back: frozen ones are exact again, adapters are merged."""
    for name, weight in ready.model.named_parameters():
        if name in ready.kept:
            weight.data = ready.kept[name]
    merge(ready.model)
    ready.model.cpu()
    if ready.compact is not None:
        ready.compact.restore(ready.model)
    ready.task = ready.task.settled(ready.model)


def fitted(ready: Ready, module: nn.Module) -> None:
    """What is tuned on held-out rows; `module` is what will be used to predict."""
    ready.task = ready.task.fitted(ready.dev_rows, ready.dev, outputs_of(ready.task, module, ready.dev))


def _taught(task: Task, rows: Sequence[Row], features: Features, say: Say) -> Features:
    """With what a larger model of the same task says of each row, to be learnt beside the labels."""
    folder = locate(str(getattr(task, "teacher")))  # noqa: B009 (not every task has one)
    description = describe(folder)
    teacher = task_of(folder, description)
    if teacher.name != task.name or set(teacher.labels) != set(task.labels):
        raise ConfigError(
            f"task.teacher {folder} was trained to {teacher.name} other labels",
            "a teacher is fine-tuned on the same task and labels",
        )
    model, _ = load_model(folder, teacher.heads, dtype=torch.float32)
    tokenizer = Tokenizer.load(folder)
    say(f"{folder} teaches: it answers {len(rows):,} rows first")
    seen = teacher.features(rows, tokenizer, False)
    outputs = outputs_of(teacher, model, seen)
    how = str(getattr(teacher, "pooling", "mean"))
    answers = pooled_rows(len(rows), seen, outputs, how, max(len(teacher.labels), 1))
    order = [teacher.labels.index(name) for name in task.labels] or [0]
    if teacher.name == "regress":
        answers = answers * getattr(teacher, "spread") + getattr(teacher, "center")  # noqa: B009
    return features.teaching(per_unit={"teacher": answers[:, order].astype(np.float32)})
