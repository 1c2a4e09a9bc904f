"""The model that a fine-tuning starts with: a trained encoder under the task's head."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from bertworks.errors import ConfigError, tell
from bertworks.folders import new_folder
from bertworks.layers.init import Unfilled, initialise
from bertworks.layers.stack import SharedStack
from bertworks.models.encoder import Model
from bertworks.models.folder import Description, describe, load_model, write_model
from bertworks.text.tokenizer import Tokenizer

from .task import Task, write_settings

LABELLED = ("classify", "tag")  # heads whose outputs are labels


def starting_model(task: Task, folder: Path, generator: torch.Generator) -> tuple[Model, Description]:
    """The encoder of a folder with the heads of a task, in fp32: the folder's own where they are for the very same
    labels, otherwise new ones.
    """
    found = describe(folder)
    family, heads = found.architecture, task.heads
    for head in heads:
        if head not in family.heads:
            raise ConfigError(f"{folder}: {family.name} has no head for {task.name}", "start with another model")
    labels = task.outputs_named or found.config.labels
    same = labels == found.config.labels or not set(heads) & set(LABELLED)
    if set(heads) <= set(found.heads) and same and heads:
        model, description = load_model(folder, heads, dtype=torch.float32, generator=generator)
        tell(f"{folder} has a head for {' and '.join(heads)} already: it is trained further")
        return model, _described(description, task)
    if "masked_lm" in heads:  # a decoder that nothing was learnt with is no start
        model, description = load_model(folder, heads, dtype=torch.float32, generator=generator)
        return model, _described(description, task)
    bare, description = load_model(folder, (), dtype=torch.float32, generator=generator)
    config = description.config.but(labels=labels)
    with Unfilled():
        model = family.build(config, heads, None if heads else bare.encoder.pooler is not None)
    weights = bare.state_dict()
    weights = {name: tensor for name, tensor in weights.items() if name in model.state_dict()}
    model.load_state_dict(weights, strict=False, assign=True)
    if model.encoder.pooler is not None and bare.encoder.pooler is None:
        tell(f"{folder} holds no pooler: it starts from random values, as the head does")
        initialise(model.encoder.pooler, config.init, config.init_std, generator)
    initialise(model.heads, config.init, config.init_std, generator)
    return model.eval(), _described(replace(description, config=config), task)


def reinitialise(model: Model, description: Description, layers: int, generator: torch.Generator) -> None:
    """Forget what the top layers learnt: what was right for masked words may be wrong for a task."""
    blocks = model.encoder.stack.blocks
    if isinstance(model.encoder.stack, SharedStack):
        raise ConfigError("task.reinitialise: this model's layers share their weights", "leave it out")
    if not 0 <= layers < len(blocks):
        raise ConfigError(f"task.reinitialise is {layers}", f"from 0 to less than the model's {len(blocks)} layers")
    for block in list(blocks)[len(blocks) - layers :]:
        initialise(block, description.config.init, description.config.init_std, generator)


def write_tuned(out: Path, model: Model, description: Description, tokenizer: Tokenizer, task: Task) -> None:
    """A model folder with what its task needs, whole or not at all."""
    with new_folder(out, replace=True) as folder:
        write_model(folder, model, description)
        tokenizer.save(folder)
        write_settings(folder, task)
        task.beside(folder, description)


def _described(description: Description, task: Task) -> Description:
    file = {name: value for name, value in description.file.items() if name != "problem_type"}
    return replace(description, file={**file, **task.config_keys})
