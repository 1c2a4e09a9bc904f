"""Labelled data: files of every usual format, read as the rows that a task learns from."""

from __future__ import annotations

from .columns import TASKS, Columns
from .labels import Labels
from .problems import Noted, RowError
from .read import Table, read, rows
from .shapes import Answer, Asked, Choice, Entity, Linked, Row, Tagged, Text
from .split import folds, split

__all__ = [
    "TASKS",
    "Answer",
    "Asked",
    "Choice",
    "Columns",
    "Entity",
    "Labels",
    "Linked",
    "Noted",
    "Row",
    "RowError",
    "Table",
    "Tagged",
    "Text",
    "folds",
    "read",
    "rows",
    "split",
]
