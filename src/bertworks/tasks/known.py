"""The tasks by name, and the task of a model folder."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import cast

from bertworks.errors import ConfigError, InputError, nearest
from bertworks.models.folder import Description
from bertworks.models.sentence import read_options

from .task import Task, read_settings

# name: (module here, class)
TASKS: dict[str, tuple[str, str]] = {
    "classify": ("classify", "Classify"),
    "regress": ("regress", "Regress"),
    "tag": ("tag", "Tag"),
    "answer": ("answer", "Answer"),
    "choose": ("choose", "Choose"),
    "embed": ("embed", "Embed"),
    "prompt": ("prompt", "Prompt"),
}


def task_class(name: str) -> type[Task]:
    if name not in TASKS:
        raise ConfigError(f"there is no task {name!r}", nearest(name, TASKS) or f"known: {', '.join(TASKS)}")
    module, kind = TASKS[name]
    return cast("type[Task]", getattr(import_module(f".{module}", __package__), kind))


def task_of(folder: Path, description: Description) -> Task:
    """What a model folder was fine-tuned for: its task.json, or without one what its head shows."""
    settings = read_settings(folder)
    if settings is not None:
        return task_class(settings["task"]).from_settings(settings)
    head = next((one for one in description.heads if one in ("classify", "tag", "answer", "choose")), None)
    options = read_options(folder) if head is None else None
    if options is not None:
        known = {"pooling": options.how, "normalise": options.normalise, "prompt": options.prompt}
        length = options.max_length or description.config.max_length
        return task_class("embed").from_settings({**known, "lowercase": options.lowercase, "length": length})
    if head is None:
        raise InputError(
            f"{folder} was not fine-tuned for a task",
            "`bertworks finetune RECIPE --model MODEL --train FILE --out RUN`",
        )
    labels = description.config.labels
    length = description.config.max_length
    if head == "classify":
        if len(labels) == 1 or description.file.get("problem_type") == "regression":
            return task_class("regress").from_settings({"length": length})
        several = description.file.get("problem_type") == "multi_label_classification"
        return task_class("classify").from_settings({"labels": labels, "several": several, "length": length})
    return task_class(head).from_settings({"labels": labels if head == "tag" else (), "length": length})
