"""bertworks recipes [NAME]"""

from __future__ import annotations

import textwrap

import click

from .reporting import Report, verb


@click.command()
@click.argument("name", required=False)
@verb
def command(report: Report, name: str | None) -> None:
    """What recipes are shipped; NAME printed whole, to be copied and changed.

    \b
    bertworks recipes
    bertworks recipes bert-mini > mine.toml
    """
    from bertworks import recipes
    from bertworks.config import read_toml

    if name is None:
        told = {one: recipes.about(one) for one in recipes.names()}
        report.result(told, lambda: "\n".join(f"{one:24}{_wrapped(text)}" for one, text in told.items()))
        return
    path = recipes.path_of(name)
    table = read_toml(path)
    report.result(table, lambda: path.read_text(encoding="utf8").rstrip())


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, 76, subsequent_indent=" " * 24))
