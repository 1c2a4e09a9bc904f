"""Tiny random models of transformers, and ours read from the folders that they write."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from bertworks.models.encoder import Model, Output
from bertworks.models.folder import Description, load_model

LENGTH = 40  # positions that a tiny model has for text
PREFIX = {
    "bert": "Bert",
    "roberta": "Roberta",
    "roberta-prelayernorm": "RobertaPreLayerNorm",
    "albert": "Albert",
    "modernbert": "ModernBert",
}
FAMILIES = tuple(PREFIX)
AFTER_PADDING = ("roberta", "roberta-prelayernorm")  # their positions start past the padding id, 1
WITHOUT_SEGMENTS = ("modernbert",)
TASKS = (
    "Model",
    "ForMaskedLM",
    "ForPreTraining",
    "ForNextSentencePrediction",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
)
CLASSES = [
    (family, PREFIX[family] + task)
    for family in FAMILIES
    for task in TASKS
    if hasattr(transformers, PREFIX[family] + task)
]


def config(family: str, **over: Any) -> transformers.PretrainedConfig:
    values: dict[str, Any] = {
        "vocab_size": 97,
        "hidden_size": 24,
        "num_hidden_layers": 3,
        "num_attention_heads": 3,
        "intermediate_size": 37,
        "max_position_embeddings": LENGTH + (2 if family in AFTER_PADDING else 0),
        "type_vocab_size": 1 if family == "roberta" else 2,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "num_labels": 3,
    }
    if family == "albert":
        values |= {"embedding_size": 16, "classifier_dropout_prob": 0.0}
    if family == "modernbert":  # a window much shorter than the texts; every rate is 0 by default
        values |= {"pad_token_id": 0, "local_attention": 6, "global_attn_every_n_layers": 2}
        for name in ("type_vocab_size", "hidden_dropout_prob", "attention_probs_dropout_prob"):
            del values[name]
        if "hidden_act" in over:
            values["hidden_activation"] = over.pop("hidden_act")
    # The sentence-order head of transformers' ALBERT has as many scores as there are labels.
    return getattr(transformers, PREFIX[family] + "Config")(**(values | over))


@dataclass
class Peers:
    family: str
    theirs: Any
    ours: Model
    description: Description
    folder: Path

    def both(self, ids: torch.Tensor, mask: torch.Tensor | None = None, segments: torch.Tensor | None = None) -> Any:
        theirs = self.theirs(
            input_ids=ids,
            attention_mask=None if mask is None else mask.long(),
            **({} if self.family in WITHOUT_SEGMENTS else {"token_type_ids": segments}),
            output_hidden_states=True,
            output_attentions=True,
        )
        ours = self.ours(ids, segments=segments, real=None if mask is None else mask.bool(), hidden=True, maps=True)
        return theirs, ours


def make(folder: Path, family: str, name: str, **over: Any) -> Peers:
    if name.endswith(("ForPreTraining", "ForQuestionAnswering")):
        over.setdefault("num_labels", 2)
    settings = config(family, **over)
    torch.manual_seed(1)
    theirs = getattr(transformers, name)._from_config(settings, attn_implementation="eager")
    with torch.no_grad():  # norms and biases away from 1 and 0, where a mix-up would not show
        for key, weight in theirs.named_parameters():
            noise = torch.randn_like(weight) * 0.1
            weight.copy_(1 + noise if weight.ndim == 1 and "norm" in key.lower() and "weight" in key else noise)
    theirs.tie_weights()
    theirs.save_pretrained(folder)
    ours, description = load_model(folder)
    return Peers(family, theirs.eval(), ours, description, folder)


def their_scores(theirs: Any, heads: tuple[str, ...]) -> dict[str, torch.Tensor]:
    """transformers' logits by our heads' names."""
    if "prediction_logits" in theirs:
        pair = "next_sentence" if "next_sentence" in heads else "sentence_order"
        second = theirs.get("seq_relationship_logits", theirs.get("sop_logits"))
        return {"masked_lm": theirs.prediction_logits, pair: second}
    if "start_logits" in theirs:
        return {"answer": torch.stack([theirs.start_logits, theirs.end_logits], -1)}
    return {heads[0]: theirs.logits} if heads else {}


def difference(theirs: Any, ours: Output, heads: tuple[str, ...], real: torch.Tensor | None = None) -> float:
    """The largest difference between everything that both return; of tokens, between the `real` ones where given.

    What a padding token makes of a window with nothing but padding in it is nobody's matter: transformers itself
    gives something else in each of its ways of attention.
    """
    pairs = [(score, ours.scores[name]) for name, score in their_scores(theirs, heads).items()]
    pairs += list(zip(theirs.hidden_states, ours.hidden, strict=True))
    maps = list(zip(theirs.attentions, ours.maps, strict=True))
    pairs.append((theirs.hidden_states[-1], ours.last))
    if theirs.get("pooler_output") is not None and ours.pooled is not None:
        pairs.append((theirs.pooler_output, ours.pooled))
    if real is not None:
        real = real.flatten(0, -2)
        maps = [(a.transpose(1, 2)[real], b.transpose(1, 2)[real]) for a, b in maps]
        pairs = [(a[real], b[real]) if a.shape[:2] == real.shape else (a, b) for a, b in pairs]
    pairs += maps
    assert all(a.shape == b.shape for a, b in pairs)
    return float(torch.stack([(a - b).abs().max() for a, b in pairs]).max())  # a NaN anywhere comes through


def random_ids(peers: Peers, rows: int, length: int) -> torch.Tensor:
    """Ids without the padding id, which RoBERTa would number differently."""
    return torch.randint(3, peers.description.config.vocab_size, (rows, length))
