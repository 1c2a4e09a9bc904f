"""Which of a file's columns is what: the contract's names, the usual synonyms, and a person's own mapping."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bertworks.errors import ConfigError, InputError, nearest

TASKS = ("classify", "regress", "tag", "answer", "choose", "embed", "prompt")

# Role: the names it goes by, in tiers. The first tier that names a column decides; two columns in one are ambiguous.
Tiers = tuple[tuple[str, ...], ...]
TEXT: Tiers = (
    ("text",),
    ("text_a", "text1", "sentence", "sentence1", "sentence_a", "content", "review", "review_body", "review_text",
     "query", "question", "premise", "document", "utterance", "comment", "comment_text", "tweet", "post", "message",
     "body", "abstract", "abst"),
    ("title", "headline", "summary", "line", "string"),
)  # fmt: skip
TEXT_B: Tiers = (("text_b",), ("text2", "sentence2", "sentence_b", "hypothesis"))
LABEL: Tiers = (
    ("label",),
    ("labels", "label_id", "category", "categories", "class", "intent", "target", "sentiment", "emotion", "topic", "y"),
    ("label_name", "label_text", "label_desc", "label_des", "stars", "rating"),
)
SCORE: Tiers = (
    ("score",),
    ("similarity", "relatedness", "similarity_score", "relatedness_score", "stars", "rating"),
    ("label", "target", "value", "y"),
)
CONTEXT: Tiers = (("context",), ("passage", "paragraph", "article", "document"), ("content", "text"))
QUESTION: Tiers = (("question",), ("query", "question_text", "query_text"))
ROLES: dict[str, dict[str, Tiers]] = {
    "classify": {"text": TEXT, "text_b": TEXT_B, "label": LABEL},
    "regress": {"text": TEXT, "text_b": TEXT_B, "score": SCORE},
    "tag": {
        "tokens": (("tokens",), ("words", "forms")),
        "tags": (("tags",), ("ner_tags", "pos_tags", "chunk_tags", "upos", "ner", "labels", "bio")),
        "text": TEXT,
        "entities": (("entities",), ("spans", "ents")),
    },
    "answer": {
        "id": (("id",), ("qid", "question_id", "query_id")),
        "question": QUESTION,
        "context": CONTEXT,
        "answers": (("answers",), ("answer", "answer_text")),
        "answer_start": (("answer_start",), ("start_position",)),
        "is_impossible": (("is_impossible",),),
    },
    "choose": {
        "choices": (("choices",), ("candidates", "options", "endings")),
        "context": (*CONTEXT, ("sent1", "premise", "startphrase", "ctx")),
        "question": (*QUESTION, ("sent2",)),
        "label": (("label",), ("answer", "answer_index", "correct", "gold")),
    },
    "embed": {
        "anchor": (("anchor",), *TEXT),
        "positive": (("positive",), ("pos", "positives"), *TEXT_B),
        "negative": (("negative",), ("neg", "negatives", "hard_negative")),
        "score": SCORE,
    },
}  # fmt: skip
# What must be there to predict, and what besides to learn; a tuple: any of them.
NEEDED: dict[str, tuple[str | tuple[str, ...], ...]] = {
    "classify": ("text",),
    "regress": ("text",),
    "tag": (("tokens", "text"),),
    "answer": ("question", "context"),
    "choose": ("choices",),
    "embed": ("anchor", "positive"),
}
TAUGHT: dict[str, str] = {
    "classify": "label", "regress": "score", "answer": "answers", "choose": "label"
}  # fmt: skip
# Columns that are read together: the second makes the first what it is.
PAIRS = (
    ("text", "text_b"), ("text_a", "text_b"), ("text1", "text2"), ("sentence1", "sentence2"),
    ("sentence_a", "sentence_b"), ("premise", "hypothesis"), ("question1", "question2"), ("question", "sentence"),
    ("query", "passage"), ("query", "document"), ("query", "title"), ("query", "response"), ("word_a", "word_b"),
    ("word1", "word2"), ("text", "hypothesis"), ("string1", "string2"), ("query1", "query2"),
)  # fmt: skip
LINKED = (
    ("anchor", "positive"), ("query", "positive"), ("query", "pos"), ("question", "answer"), ("query", "answer"),
    *PAIRS,
)  # fmt: skip
NUMBERED = re.compile(r"(choice|ending|option|candidate|answer)_?(\d+|[a-h])|([a-h])")


@dataclass(frozen=True)
class Columns:
    """task; named: role → the file's column; choices: columns that hold a choice each; said: a line a person reads."""

    task: str
    named: Mapping[str, str]
    choices: tuple[str, ...] = ()
    negatives: tuple[str, ...] = ()
    said: str = ""


def task_of(names: Iterable[str], mapping: Mapping[str, str]) -> str:
    """The task that columns of these names are for."""
    here = {plain(name) for name in names} | set(mapping)

    def some(role: str, task: str) -> bool:
        return any(name in here for tier in ROLES[task][role] for name in tier)

    choices = some("choices", "choose") or len(_numbered(list(names))) > 1
    if some("tokens", "tag") or "entities" in here:
        return "tag"
    if choices:
        return "choose"
    if "answers" in here or ("context" in here and "question" in here and "label" not in here):
        return "answer"
    if any(first in here and second in here for first, second in LINKED[:3]):
        return "embed"
    if "label" not in here and any(name in here for tier in SCORE[:2] for name in tier if name not in LABEL[1]):
        return "regress"
    return "classify"


def resolved(
    task: str, names: Sequence[str], mapping: Mapping[str, str], where: str, *, labelled: bool, needed: bool = True
) -> Columns:
    """The columns of a file for a task.

    A mapping (role → column) is followed; then the contract's own names; then columns that are read together; then
    synonyms. Two candidates of one rank are an error that names them. Where `needed`, what is missing is one too.
    """
    task = "classify" if task == "prompt" else task
    if task not in ROLES:
        raise ConfigError(f"there is no task {task!r}", nearest(task, TASKS) or f"one of {', '.join(TASKS)}")
    roles = ROLES[task]
    named = _mapped(mapping, roles, names, where)
    spelled: dict[str, str] = {}
    for name in names:
        spelled.setdefault(plain(name), name)
    first, second = ("anchor", "positive") if task == "embed" else ("text", "text_b")
    pairs = LINKED if task == "embed" else PAIRS
    if second in roles:
        _paired(named, (first, second), pairs, spelled, where)
    choices = _numbered(names) if task == "choose" and "choices" not in named else ()
    for role, tiers in roles.items():
        if role in named or (task == "tag" and role in ("text", "entities") and "tokens" in named):
            continue
        if not labelled and role in (TAUGHT.get(task), "tags", "entities"):
            continue
        if role == "choices" and choices and not any(one in spelled for tier in tiers for one in tier):
            continue
        found = _found(role, tiers, spelled, set(named.values()) | set(choices), where)
        if found is not None:
            named[role] = found
    if "choices" in named:
        choices = ()
    negatives = tuple(name for name in names if re.fullmatch(r"(negative|neg)_?\d+", plain(name)))
    if needed:
        _require(task, named, bool(choices), names, where, labelled)
    told = [f"{name} as {role}" for role, name in named.items() if name != role and role not in mapping]
    said = f"{where}: column {_joined(told, 'column ')}" if told else ""
    said = said.replace(" as ", " is read as ", 1)
    return Columns(task, named, choices, negatives, said)


def plain(name: str) -> str:
    return re.sub(r"[\s\-]+", "_", name.strip().strip("\ufeff").casefold())


def _joined(told: list[str], noun: str) -> str:
    return ", ".join([told[0], *(noun + one for one in told[1:])]) if told else ""


def _mapped(mapping: Mapping[str, str], roles: Mapping[str, Tiers], names: Sequence[str], where: str) -> dict[str, str]:
    for role, name in mapping.items():
        if role not in roles:
            hint = nearest(role, roles) or f"it has {', '.join(roles)}"
            raise ConfigError(f"data.{role}: the task has no column {role!r}", hint)
        if name not in names:
            hint = nearest(name, names) or f"its columns: {', '.join(map(str, names[:12]))}"
            raise InputError(f"{where}: no column {name!r} (data.{role}={name})", hint)
    return dict(mapping)


def _paired(
    named: dict[str, str],
    roles: tuple[str, str],
    pairs: Iterable[tuple[str, str]],
    spelled: Mapping[str, str],
    where: str,
) -> None:
    first, second = roles
    if first in named or second in named or (first in spelled and second not in spelled):
        return
    taken = set(named.values())
    here = [
        (spelled[a], spelled[b])
        for a, b in pairs
        if a in spelled and b in spelled and not {spelled[a], spelled[b]} & taken
    ]
    if len(here) > 1 and here[0] != (first, second):
        told = " or ".join(f"{a} and {b}" for a, b in here)
        way_out = f"say which: data.{first}={here[0][0]} data.{second}={here[0][1]}"
        raise InputError(f"{where}: both {told} could be {first} and {second}", way_out)
    if here:
        named[first], named[second] = here[0]


def _found(role: str, tiers: Tiers, spelled: Mapping[str, str], taken: set[str], where: str) -> str | None:
    for tier in tiers:
        here = list(dict.fromkeys(spelled[name] for name in tier if name in spelled and spelled[name] not in taken))
        if len(here) > 1:
            told = ", ".join(here[:-1]) + f" and {here[-1]}"
            way_out = f"say which: {' or '.join(f'data.{role}={one}' for one in here)}"
            raise InputError(f"{where}: the columns {told} could each be {role}", way_out)
        if here:
            return here[0]
    return None


def _numbered(names: Sequence[str]) -> tuple[str, ...]:
    """Columns choice1, choice2, … or ending0, … or A, B, …: one choice in each, in their order."""
    kinds: dict[str, list[tuple[str, str]]] = {}
    for name in names:
        found = NUMBERED.fullmatch(plain(name))
        if found and (found[1] or name.isupper()):
            kinds.setdefault(found[1] or "", []).append(((found[2] or found[3]).rjust(4), name))
    best = max(kinds.values(), key=len, default=[])
    return tuple(name for _, name in sorted(best)) if len(best) > 1 else ()


def _require(
    task: str, named: Mapping[str, str], choices: bool, names: Sequence[str], where: str, labelled: bool
) -> None:
    wanted: list[str | tuple[str, ...]] = [("tokens", "entities")] if task == "tag" and labelled else list(NEEDED[task])
    if labelled and task in TAUGHT:
        wanted.append(TAUGHT[task])
    if labelled and task == "tag":
        wanted.append("tags" if "tokens" in named else "text")
    for role in wanted:
        any_of = (role,) if isinstance(role, str) else role
        if any(one in named for one in any_of) or (role == "choices" and choices):
            continue
        told = " or ".join(repr(one) for one in any_of)
        listed = ", ".join(map(str, names[:12])) or "none"
        raise InputError(
            f"{where}: no column {told}; its columns: {listed}", f"say which it is: data.{any_of[0]}=COLUMN"
        )
