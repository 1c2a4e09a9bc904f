"""bertworks check FILE|STORE [--dev FILE] [--model MODEL] [--show N --objective NAME]"""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bertworks.objectives.published import PUBLISHED

from .check_file import TASKS, uncoloured
from .prepare import report_lines
from .reporting import Report, counted, given, misused, verb

if TYPE_CHECKING:
    from bertworks.inspect.corpus import Findings
    from bertworks.inspect.examples import Shown, Stretch
    from bertworks.text.store import Store

COLOURS = {"special": "bright_black", "masked": "red", "replaced": "yellow", "kept": "green"}
LONGEST = (1 << 16) - 1  # the indexes keep lengths in 16 bits

# What a corruption makes of chosen words: what the legend promises.
OTHER = {"bert": "{word→other} a random token", "similar": "{word→other} a similar or random word"}
FATES = {"bert": ("masked", "replaced", "kept"), "mask": ("masked",), "similar": ("replaced", "kept")}


@click.command()
@click.argument("data", metavar="FILE|STORE")
@click.option(
    "--dev", metavar="FILE", help="What FILE's model will be measured on: is it apart, has it the same labels?"
)
@click.option("--task", type=click.Choice(TASKS), help="What FILE is for [told by its columns].")
@click.option("--columns", metavar="OURS=THEIRS", multiple=True, help="A column's name, such as text=sentence.")
@click.option("--separator", help="What stands between several labels in one text.")
@click.option(
    "--model", help="FILE: how it fits this MODEL. STORE: refuse one that was made with another tokenizer than MODEL's."
)
@click.option("--length", type=click.IntRange(8, LONGEST), help="Tokens of a row [FILE: the model's; STORE: 128].")
@click.option(
    "--show", type=click.IntRange(1, LONGEST), metavar="N", help="Show N training examples in place of the report."
)
@click.option(
    "--objective", type=click.Choice(list(PUBLISHED)), default="bert", show_default=True, help="Whose examples to show."
)
@click.option("--epoch", type=click.IntRange(min=0), default=0, show_default=True, help="The epoch to show.")
@click.option("--vectors", metavar="MODEL|FILE", help="Where macbert's similar words are from [counted in the store].")
@verb
def command(
    report: Report,
    data: str,
    dev: str | None,
    task: str | None,
    columns: tuple[str, ...],
    separator: str | None,
    model: str | None,
    length: int | None,
    show: int | None,
    objective: str,
    epoch: int,
    vectors: str | None,
) -> None:
    """Say what is in FILE (labelled examples) or STORE and what would hurt a training; exit 1 on errors, 0 on warnings.

    With --show, a STORE's training examples as the model would see them: what was chosen, what each became, and the
    answers.

    \b
    bertworks check train.jsonl --dev dev.jsonl --model MODEL
    bertworks check reviews.csv --columns text=body --columns label=stars
    bertworks check store
    bertworks check store --show 3 --objective bert
    """
    if _is_file(data):
        for name in ("show", "objective", "epoch", "vectors"):
            if given(name):
                raise misused(f"--{name} is for a STORE, and {data} is a file")
        from .check_file import check_file

        check_file(report, data, dev, task, columns, separator, model, length)
        return
    for name in ("dev", "task", "columns", "separator"):
        if given(name):
            raise misused(f"--{name} is for a FILE of examples, and {data} is not one")
    _check_store(report, data, model, length or 128, show, objective, epoch, vectors)


def _is_file(data: str) -> bool:
    """Whether it is a file of examples; what is not there is told by its name."""
    from bertworks.text.files import TABLES, TEXT, kind_of

    path = Path(data)
    kind = kind_of(data)[0]
    return not path.is_dir() and (data == "-" or path.exists() or kind in (*TABLES, *TEXT, ".conll", ".conllu", ".bio"))


def _check_store(
    report: Report,
    store: str,
    model: str | None,
    length: int,
    show: int | None,
    objective: str,
    epoch: int,
    vectors: str | None,
) -> None:
    if show is None:
        for name in ("objective", "epoch", "vectors"):
            if given(name):
                raise misused(f"--{name} goes with --show N")
    from bertworks.text.store import Store

    opened = Store(store)
    if model is not None:
        from bertworks.text.tokenizer import Tokenizer

        from .tokenizer import tokenizer_folder

        opened.require(Tokenizer.load(tokenizer_folder(model)), model)
    if show is not None:
        _show(report, opened, show, objective, length, epoch, vectors)
        return
    from bertworks.inspect.corpus import examine

    found = examine(opened, length)
    value = {"store": store, **found.facts, "errors": found.errors, "warnings": found.warnings}
    report.result(value, lambda: _text(store, found))
    if found.errors:
        raise click.exceptions.Exit(1)


def _text(name: str, found: Findings) -> str:
    facts = found.facts
    lines = [
        f"{name}: {counted(facts['documents'], 'document')}, {counted(facts['sentences'], 'sentence')}, "
        f"{counted(facts['tokens'], 'token')}",
        f"  tokenizer     {facts['kind']}, {counted(facts['vocab_size'], 'token')}; ids are {facts['dtype']}",
        f"  shards        {facts['shards']}" + ("" if found.errors else ", whole: every digest matches"),
        f"  words         {facts['words']:,}, {facts['tokens'] / max(facts['words'], 1):.2f} tokens each",
        f"  unknown       {facts['unknown_share']:.3%} of tokens",
    ]
    if "padding" in facts:
        lines += [_sizes("document", facts["document_tokens"]), _sizes("sentence", facts["sentence_tokens"])]
        lines.append(f"  duplicates    {counted(facts['duplicate_documents'], 'document')}")
        if facts["languages"]:
            guesses = ", ".join(f"{code} {share:.1%}" for code, share in facts["languages"].items())
            lines.append(f"  languages     {guesses} (guessed)")
        padding = {name: share for name, share in facts["padding"].items() if name != "length"}
        shares = ", ".join(f"{name} {share:.1%}" for name, share in padding.items())
        lines.append(f"  padding       in rows of {facts['padding']['length']}: {shares}")
    if facts["report"]:
        lines += ["while it was prepared:", *report_lines(facts["report"])]
    lines += [click.style("error: ", fg="red") + line for line in found.errors]
    lines += [click.style("warning: ", fg="yellow") + line for line in found.warnings]
    if not found.errors:
        lines.append(f"next: bertworks check {shlex.quote(name)} --show 3 --objective bert")
    return uncoloured("\n".join(lines))


def _sizes(what: str, sizes: dict[str, int]) -> str:
    return (
        f"  a {what}    median {counted(sizes['median'], 'token')}, nine of ten up to {sizes['ninety_percent']:,}, "
        f"longest {sizes['longest']:,}"
    )


def _show(
    report: Report, store: Store, count: int, objective: str, length: int, epoch: int, vectors: str | None
) -> None:
    from bertworks.inspect.examples import shown
    from bertworks.objectives.batches import Examples
    from bertworks.objectives.order import Permutation
    from bertworks.objectives.published import published

    similar = None
    if vectors is not None:
        from bertworks.objectives.similar import similar_words
        from bertworks.objectives.word_vectors import given_vectors

        similar = similar_words(store, given_vectors(vectors, store.tokenizer))
    examples = Examples(
        store, published(objective), length, seed=report.seed, similar=similar, say=lambda line: report.remark(line)
    )
    import numpy as np

    total = examples.count(epoch)
    numbers = Permutation(total, report.seed, epoch)(np.arange(min(count, total))).tolist()
    found = shown(examples, epoch, numbers)
    value = {"objective": objective, "epoch": epoch, "count": total, "examples": [asdict(one) for one in found]}
    legend = _legend(examples.objective.corrupt, store.tokenizer.tokens[examples.frame.mask])
    report.result(value, lambda: uncoloured("\n\n".join([*map(_example, found), legend])))


def _example(one: Shown) -> str:
    head = (
        f"example {one.number:,}: {counted(one.tokens, 'token')}, {one.chosen} chosen ({one.chosen / one.tokens:.1%})"
    )
    head += f", from {', '.join(one.documents[:3])}{' …' if len(one.documents) > 3 else ''}"
    lines = [click.style(head, bold=True)]
    if one.answers:
        lines.append("  " + "; ".join(one.answers))
    line, place, apart = "", None, False
    for stretch in one.stretches:
        here = (stretch.sequence, stretch.segment)
        if here != place and line:
            lines.append("  " + line)
            line = ""
        place, special = here, stretch.kind == "special"
        line += (" " if line and (stretch.spaced or special or apart) else "") + _coloured(stretch)
        apart = special
    return "\n".join([*lines, "  " + line])


def _coloured(stretch: Stretch) -> str:
    if stretch.kind == "plain":
        return stretch.was
    if stretch.kind == "special":
        return click.style(stretch.was, fg=COLOURS["special"])
    became = "=" if stretch.kind == "kept" else stretch.became
    return click.style(f"{{{stretch.was}→{became}}}", fg=COLOURS[stretch.kind])


def _legend(corrupt: str, mask: str) -> str:
    """What the braces mean; nothing is promised that the objective never does."""
    said = {"masked": f"{{word→{mask}}}", "replaced": OTHER.get(corrupt, ""), "kept": "{word→=} kept, but asked for"}
    return "chosen: " + "  ".join(click.style(said[kind], fg=COLOURS[kind]) for kind in FATES[corrupt])
