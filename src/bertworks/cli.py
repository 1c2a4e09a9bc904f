"""The command line: the verbs, one line each. A verb's module is imported only when it is called."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import NoReturn

import click

from . import __version__

# verb: (module under commands/, what it does)
VERBS: dict[str, tuple[str, str]] = {
    "tokenizer": ("tokenizer", "Train a tokenizer, or show what one makes of a text."),
    "prepare": ("prepare", "Tokenise a corpus once, into a store that training reads."),
    "check": ("check", "What is wrong with a file of examples or a store before you train."),
    "pretrain": ("pretrain", "Train a model on a store, as a recipe says."),
    "finetune": ("finetune", "Teach a trained model a task from labelled examples."),
    "evaluate": ("evaluate", "How good a model is, in figures with intervals and in its mistakes."),
    "predict": ("predict", "What a fine-tuned model says of each row."),
    "suite": ("suite", "Fine-tune on a folder of tasks and tell all figures in one table."),
    "plan": ("plan", "Say before the start what a pre-training takes: memory, time, cost."),
    "recipes": ("recipes", "What recipes are shipped; one printed whole."),
    "fill": ("fill", "Fill in the blanks of a text: the likeliest words for [MASK]."),
    "embed": ("embed", "Turn texts into vectors."),
    "inspect": ("inspect", "What a model is made of: parameters by part, arithmetic, memory."),
    "import": ("import_", "Bring an older checkpoint (TensorFlow 1, pytorch_model.bin) into the layout."),
    "doctor": ("doctor", "What this machine offers, as the program sees it."),
}
SHELLS = ("bash", "zsh", "fish")


class Verbs(click.Group):
    """Knows the verbs by name and line; imports one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        if name not in VERBS:
            return None
        command: click.Command = import_module(f".commands.{VERBS[name][0]}", __package__).command
        _name_variables(command, f"BERTWORKS_{name}")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            from .errors import nearest

            hint = nearest(args[0], VERBS) or f"The verbs are: {', '.join(VERBS)}."
            raise click.UsageError(f"there is no verb {args[0]!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Verbs"):
            formatter.write_dl([(name, line) for name, (_, line) in VERBS.items()])


def _name_variables(command: click.Command, prefix: str) -> None:
    """BERTWORKS_<COMMAND>_<OPTION> as the option is spelled: click would go by the name of the Python parameter."""
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            _name_variables(inner, f"{prefix}_{name}")
    for option in command.params:
        if isinstance(option, click.Option):
            long = next(one for one in option.opts if one.startswith("--"))
            option.envvar = f"{prefix}_{long[2:]}".replace("-", "_").upper()
            option.allow_from_autoenv = False


def _completion(ctx: click.Context, _: click.Parameter, shell: str | None) -> None:
    if not shell or ctx.resilient_parsing:
        return
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(kind(main_group, {}, "bertworks", "_BERTWORKS_COMPLETE").source())
    ctx.exit()


@click.group(
    cls=Verbs,
    context_settings={
        "auto_envvar_prefix": "BERTWORKS",
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
    },
)
@click.version_option(__version__, "--version", prog_name="bertworks")
@click.option(
    "--completion",
    type=click.Choice(SHELLS),
    callback=_completion,
    expose_value=False,
    is_eager=True,
    help="Print the shell's completion script; `eval` it in your shell's start-up file.",
)
def main_group() -> None:
    """Make your own encoder language model: BERT, RoBERTa, ALBERT, in English and Chinese.

    MODEL is a folder in the Hugging Face layout, a run folder, or a hub id; where no weights are needed, also a
    published size such as bert-base-uncased. `bertworks VERB --help` explains a verb.
    """


def main(args: list[str] | None = None) -> NoReturn:
    """Run the command line: 0 done, 1 failed, 2 misused, 130 interrupted."""
    from .commands import reporting

    args = sys.argv[1:] if args is None else args
    with reporting.errors_told(debug="--debug" in args) as telling:
        code = main_group.main(args, prog_name="bertworks", standalone_mode=False, obj=telling)
    sys.exit(code if isinstance(code, int) else 0)  # what a verb says by click.exceptions.Exit comes back as a number
