"""Which column is what: the contract's names, synonyms, mappings, and what is ambiguous."""

from __future__ import annotations

from typing import Any

import pytest

from bertworks.errors import BertworksError
from bertworks.tasks.data.columns import resolved, task_of


def named(task: str, *names: str, labelled: bool = True, **mapping: str) -> dict[str, str]:
    return dict(resolved(task, names, mapping, "f", labelled=labelled).named)


@pytest.mark.parametrize(
    ("task", "names", "wanted"),
    [
        ("classify", "text label", {"text": "text", "label": "label"}),
        ("classify", "text title label label_desc", {"text": "text", "label": "label"}),
        ("classify", "sentence1 sentence2 label", {"text": "sentence1", "text_b": "sentence2", "label": "label"}),
        ("classify", "Premise Hypothesis gold label", {"text": "Premise", "text_b": "Hypothesis", "label": "label"}),
        ("classify", "question sentence label idx", {"text": "question", "text_b": "sentence", "label": "label"}),
        ("classify", "question1 question2 label", {"text": "question1", "text_b": "question2", "label": "label"}),
        ("classify", "sentence category", {"text": "sentence", "label": "category"}),
        ("classify", "review stars", {"text": "review", "label": "stars"}),
        ("classify", "query intent", {"text": "query", "label": "intent"}),
        ("regress", "sentence1 sentence2 score label", {"text": "sentence1", "text_b": "sentence2", "score": "score"}),
        ("regress", "text label", {"text": "text", "score": "label"}),
        ("tag", "tokens ner_tags", {"tokens": "tokens", "tags": "ner_tags"}),
        ("tag", "words upos xpos", {"tokens": "words", "tags": "upos"}),
        ("tag", "text entities", {"text": "text", "entities": "entities"}),
        ("answer", "id title context question answers",
         {"id": "id", "context": "context", "question": "question", "answers": "answers"}),
        ("choose", "id candidates content answer", {"choices": "candidates", "context": "content", "label": "answer"}),
        ("embed", "anchor positive negative", {"anchor": "anchor", "positive": "positive", "negative": "negative"}),
        ("embed", "query pos neg", {"anchor": "query", "positive": "pos", "negative": "neg"}),
        ("embed", "sentence1 sentence2 score", {"anchor": "sentence1", "positive": "sentence2", "score": "score"}),
        ("embed", "text_a text_b", {"anchor": "text_a", "positive": "text_b"}),
    ],
)  # fmt: skip
def test_names_are_understood(task: str, names: str, wanted: dict[str, str]) -> None:
    assert named(task, *names.split()) == wanted
    assert task_of(names.split(), {}) == task or task in ("embed", "regress") or "stars" in names


@pytest.mark.parametrize(
    ("task", "names", "mapping", "says"),
    [
        ("classify", "sentence content label", {}, "the columns sentence and content could each be text"),
        ("classify", "text category intent", {}, "category and intent could each be label"),
        (
            "tag",
            "tokens pos_tags chunk_tags ner_tags",
            {},
            r"(?s)each be tags.*data.tags=ner_tags or data.tags=pos_tags",
        ),
        ("classify", "sentence1 sentence2 premise hypothesis label", {}, "sentence1 and sentence2 or premise and"),
        ("classify", "txt label", {}, "no column 'text'; its columns: txt, label"),
        ("classify", "text", {}, "no column 'label'"),
        ("tag", "tokens", {}, "no column 'tags'"),
        ("tag", "text", {}, "no column 'tokens' or 'entities'"),
        ("classify", "text label", {"text": "txt"}, r"(?s)no column 'txt' \(data.text=txt\).*did you mean 'text'"),
        ("classify", "text label", {"txt": "text"}, r"(?s)no column 'txt'.*did you mean 'text'"),
        ("clasify", "text label", {}, r"(?s)no task 'clasify'.*did you mean 'classify'"),
    ],
)
def test_what_is_not_clear_is_an_error(task: str, names: str, mapping: dict[str, str], says: str) -> None:
    with pytest.raises(BertworksError, match=says):
        named(task, *names.split(), **mapping)


def test_a_mapping_decides() -> None:
    assert named("tag", *["tokens", "pos_tags", "ner_tags"], tags="ner_tags")["tags"] == "ner_tags"
    assert named("classify", "abst", "keyword", "label", text_b="keyword") == {
        "text": "abst", "text_b": "keyword", "label": "label"
    }  # fmt: skip
    assert named("classify", "text", "label", "category", label="category")["label"] == "category"


def test_to_predict_no_label_is_wanted() -> None:
    assert named("classify", "text", labelled=False) == {"text": "text"}
    assert named("classify", "text", "category", "intent", labelled=False) == {"text": "text"}
    assert named("answer", "question", "context", labelled=False) == {"question": "question", "context": "context"}


def test_choices_in_columns_of_their_own() -> None:
    def choices(*names: str) -> Any:
        return resolved("choose", [*names, "label"], {}, "f", labelled=True).choices

    assert choices("ending1", "ending0", "sent1") == ("ending0", "ending1")
    assert choices("question", "A", "B", "C") == ("A", "B", "C")
    assert choices("choice10", "choice9", "choice1") == ("choice1", "choice9", "choice10")
    assert task_of(["premise", "choice1", "choice2", "label"], {}) == "choose"


def test_what_was_understood_is_said() -> None:
    said = resolved("classify", ["sentence1", "sentence2", "label"], {}, "f.csv", labelled=True).said
    assert said == "f.csv: column sentence1 is read as text, column sentence2 as text_b"
    assert not resolved("classify", ["s", "label"], {"text": "s"}, "f.csv", labelled=True).said
