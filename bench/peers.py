"""transformers' own fine-tuning of a tagger, an answerer and a regressor, as its users run it: run_ner, run_qa and
run_glue by the documentation, with Trainer. A process of its own prints seconds, data included, and the dev figure.

    python bench/peers.py tag|answer|regress MODEL TRAIN.jsonl DEV.jsonl [--bf16 --group] [--epochs 1 --lr 5e-5]

fp32 is what Trainer does when it is told nothing; --bf16 --group is its mixed precision with batches of like length.
Each of `tag`, `answer` and `regress` is a function too: what is to be fine-tuned in, figures out.
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

IGNORED = -100
CANDIDATES, LONGEST = 20, 30  # run_qa's n_best_size and max_answer_length


@dataclass(frozen=True)
class Job:
    """size: rows of a batch. length: tokens of a row at most; to answer at least 384, as run_qa takes."""

    model: str
    train: str
    dev: str
    epochs: float = 1.0
    lr: float = 5e-5
    size: int = 32
    length: int = 128
    warmup: float = 0.1
    bf16: bool = False
    group: bool = False
    seed: int = 0
    limit: int | None = None


def rows(path: str, limit: int | None) -> list[dict[str, Any]]:
    if path.endswith(".zst"):
        import zstandard

        with Path(path).open("rb") as packed:
            text = io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(packed), encoding="utf8")
            return [json.loads(line) for line in text][:limit]
    return [json.loads(line) for line in Path(path).read_text(encoding="utf8").splitlines()][:limit]


def trainer(job: Job, model: Any, train: Any, dev: Any, collator: Any, metrics: Callable[..., Any] | None) -> Any:
    """A Trainer as the documentation sets it up, of equal arguments for all three."""
    import torch
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(
        tempfile.mkdtemp(),
        num_train_epochs=job.epochs,
        per_device_train_batch_size=job.size,
        per_device_eval_batch_size=64,
        learning_rate=job.lr,
        warmup_steps=job.warmup,
        weight_decay=0.01,
        bf16=job.bf16,
        train_sampling_strategy="group_by_length" if job.group else "random",
        use_cpu=not torch.cuda.is_available(),
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        logging_steps=1000,
        seed=job.seed,
    )
    return Trainer(
        model, arguments, train_dataset=train, eval_dataset=dev, data_collator=collator, compute_metrics=metrics
    )


# -- run_ner -----------------------------------------------------------------------------------------------


def tag(job: Job) -> dict[str, float]:
    """Entity F1 by seqeval; the first piece of each word has its label."""
    import datasets
    from seqeval.metrics import f1_score
    from transformers import AutoModelForTokenClassification, AutoTokenizer, DataCollatorForTokenClassification

    tokenizer = AutoTokenizer.from_pretrained(job.model)
    train, dev = rows(job.train, job.limit), rows(job.dev, job.limit)
    names = sorted({one for row in train for one in row["tags"]})
    numbers = {name: at for at, name in enumerate(names)}

    def aligned(some: dict[str, list[Any]]) -> Any:
        found = tokenizer(some["tokens"], truncation=True, max_length=job.length, is_split_into_words=True)
        labels = []
        for at, tags in enumerate(some["tags"]):
            before, own = None, []
            for word in found.word_ids(at):
                own.append(IGNORED if word is None or word == before else numbers.get(tags[word], 0))
                before = word
            labels.append(own)
        found["labels"] = labels
        return found

    def made(some: list[dict[str, Any]]) -> Any:
        table = datasets.Dataset.from_list([{"tokens": row["tokens"], "tags": row["tags"]} for row in some])
        return table.map(aligned, batched=True, remove_columns=["tokens", "tags"])

    def metrics(said: Any) -> dict[str, float]:
        best = said.predictions.argmax(-1)
        pairs = [
            [(names[one], names[two]) for one, two in zip(gold, own, strict=True) if one != IGNORED]
            for gold, own in zip(said.label_ids, best, strict=True)
        ]
        return {"f1": f1_score([[a for a, _ in row] for row in pairs], [[b for _, b in row] for row in pairs])}

    model = AutoModelForTokenClassification.from_pretrained(job.model, num_labels=len(names))
    peer = trainer(job, model, made(train), made(dev), DataCollatorForTokenClassification(tokenizer), metrics)
    peer.train()
    return {"f1": peer.evaluate()["eval_f1"]}


# -- run_qa ------------------------------------------------------------------------------------------------


def answer(job: Job) -> dict[str, float]:
    """Exact match and F1 of SQuAD 1.1: windows that share 128 tokens, padded to the length as run_qa does unless it
    groups by length; the best of 20 starts and 20 ends.
    """
    import datasets
    from transformers import (
        AutoModelForQuestionAnswering,
        AutoTokenizer,
        DataCollatorWithPadding,
        default_data_collator,
    )

    from bertworks.metrics.answering import answer_scores

    tokenizer = AutoTokenizer.from_pretrained(job.model)
    train, dev = rows(job.train, job.limit), rows(job.dev, job.limit)
    length = max(job.length, 384)

    def windows(some: dict[str, list[Any]]) -> Any:
        found = tokenizer(
            some["question"],
            some["context"],
            truncation="only_second",
            max_length=length,
            stride=128,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            padding=False if job.group else "max_length",
        )
        owners = found.pop("overflow_to_sample_mapping")
        places = [_place(found, at, some["answers"][owner]) for at, owner in enumerate(owners)]
        found["start_positions"], found["end_positions"] = map(list, zip(*places, strict=True))
        found["row"] = [some["row"][owner] for owner in owners]
        found["offset_mapping"] = [
            [span if text == 1 else (-1, -1) for span, text in zip(spans, found.sequence_ids(at), strict=True)]
            for at, spans in enumerate(found["offset_mapping"])
        ]
        return found

    def made(some: list[dict[str, Any]]) -> Any:
        table = datasets.Dataset.from_list(
            [
                {name: row[name] for name in ("question", "context", "answers")} | {"row": at}
                for at, row in enumerate(some)
            ]
        )
        return table.map(windows, batched=True, remove_columns=["question", "context", "answers"])

    held = made(dev)
    model = AutoModelForQuestionAnswering.from_pretrained(job.model)
    collator = DataCollatorWithPadding(tokenizer) if job.group else default_data_collator
    given = ["row", "offset_mapping"]
    peer = trainer(job, model, made(train).remove_columns(given), None, collator, None)
    peer.train()
    starts, ends = peer.predict(held.remove_columns(given)).predictions[:2]
    said = _read(held, starts, ends, [row["context"] for row in dev])
    found = answer_scores([row["answers"]["text"] for row in dev], said, "squad1")
    return {"exact": float(found[:, 0].mean()), "f1": float(found[:, 1].mean())}


def _place(found: Any, at: int, answers: dict[str, list[Any]]) -> tuple[int, int]:
    """The tokens of the first answer, as run_qa finds them; (0, 0) where a window does not hold it."""
    if not answers["text"]:
        return 0, 0
    first = answers["answer_start"][0]
    last = first + len(answers["text"][0])
    sequence, offsets = found.sequence_ids(at), found["offset_mapping"][at]
    low = sequence.index(1)
    high = len(sequence) - 1 - sequence[::-1].index(1)
    if offsets[low][0] > first or offsets[high][1] < last:
        return 0, 0
    while low < len(offsets) and offsets[low][0] <= first:
        low += 1
    while offsets[high][1] >= last:
        high -= 1
    return low - 1, high + 1


def _read(held: Any, starts: Any, ends: Any, contexts: list[str]) -> list[str]:
    """run_qa's postprocess_qa_predictions, without its files."""
    best = [(-np.inf, "")] * len(contexts)
    for at, window in enumerate(held):
        offsets, row = window["offset_mapping"], window["row"]
        for start in np.argsort(starts[at])[-1 : -CANDIDATES - 1 : -1].tolist():
            for end in np.argsort(ends[at])[-1 : -CANDIDATES - 1 : -1].tolist():
                if max(start, end) >= len(offsets) or offsets[start][0] < 0 or offsets[end][0] < 0:
                    continue
                if end < start or end - start + 1 > LONGEST:
                    continue
                score = float(starts[at][start] + ends[at][end])
                if score > best[row][0]:
                    best[row] = score, contexts[row][offsets[start][0] : offsets[end][1]]
    return [text for _, text in best]


# -- run_glue, of pairs with a score -----------------------------------------------------------------------


def regress(job: Job) -> dict[str, float]:
    """Pearson's and Spearman's correlation; one label is a number to Trainer's model."""
    import datasets
    from scipy.stats import pearsonr, spearmanr
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding

    tokenizer = AutoTokenizer.from_pretrained(job.model)
    train, dev = rows(job.train, job.limit), rows(job.dev, job.limit)
    names = next(pair for pair in PAIRS if pair[0] in train[0])
    score = next(name for name in ("score", "label", "similarity") if name in train[0])

    def encoded(some: dict[str, list[Any]]) -> Any:
        return tokenizer(some["one"], some["two"], truncation=True, max_length=job.length)

    def made(some: list[dict[str, Any]]) -> Any:
        table = datasets.Dataset.from_list(
            [{"one": row[names[0]], "two": row[names[1]], "label": float(row[score])} for row in some]
        )
        return table.map(encoded, batched=True, remove_columns=["one", "two"])

    def metrics(said: Any) -> dict[str, float]:
        own = said.predictions.squeeze(-1)
        return {"pearson": pearsonr(own, said.label_ids)[0], "spearman": spearmanr(own, said.label_ids)[0]}

    model = AutoModelForSequenceClassification.from_pretrained(job.model, num_labels=1)
    peer = trainer(job, model, made(train), made(dev), DataCollatorWithPadding(tokenizer), metrics)
    peer.train()
    found = peer.evaluate()
    return {name: float(found[f"eval_{name}"]) for name in ("pearson", "spearman")}


PAIRS = (("text", "text_b"), ("text_a", "text_b"), ("sentence1", "sentence2"))
TASKS = {"tag": tag, "answer": answer, "regress": regress}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=TASKS)
    for name in ("model", "train", "dev"):
        parser.add_argument(name)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--group", action="store_true", help="batches of like length")
    for name, kind in (("epochs", float), ("lr", float), ("warmup", float), ("size", int), ("length", int)):
        parser.add_argument(f"--{name}", type=kind, default=getattr(Job, name))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, help="rows of each file")
    given = vars(parser.parse_args())
    started = time.perf_counter()
    import datasets
    import torch

    from bertworks.runtime.machine import use_granted_cores

    use_granted_cores()
    torch.manual_seed(given["seed"])
    datasets.disable_progress_bars()
    figures = TASKS[given.pop("task")](Job(**given))
    print(json.dumps({"seconds": round(time.perf_counter() - started, 1), **figures}))


if __name__ == "__main__":
    main()
