"""From this machine's own text to a filled blank, in about a minute: what `make demo` runs.

Text is what every Python carries (its language reference in pydoc_data, and the standard library's docstrings). It goes
the house's whole way: a WordPiece tokenizer, a store, masked examples, and a two-layer BERT whose guesses are shown
before and after.
"""

from __future__ import annotations

import argparse
import inspect
import json
import pkgutil
import shutil
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pydoc_data import topics

import torch

import bertworks
from bertworks.folders import new_folder
from bertworks.layers.init import initialise
from bertworks.models import ARCHITECTURES
from bertworks.models.folder import Description, write_model
from bertworks.objectives.batches import IGNORED, Examples, Place, feed
from bertworks.objectives.published import published
from bertworks.text.preparing import Plan, prepare
from bertworks.text.training import train as train_tokenizer

QUESTIONS = [
    "The [MASK] statement is used to define a function.",
    "If the object is not found, an exception is [MASK].",
    "Return a new [MASK] with the given items.",
]
# A small vocabulary and short rows: in a minute or two this leaves the plateau where only word frequencies are known.
VOCABULARY, LENGTH, ROWS, RATE = 1500, 32, 96, 3e-3


def pages() -> Iterator[str]:
    """Pages of prose that this Python carries, a paragraph a line."""
    found = list(topics.topics.values())
    for name in sorted(set(sys.stdlib_module_names)):
        if name.startswith("_") or name in ("antigravity", "this", "idlelib") or not pkgutil.find_loader(name):
            continue
        try:
            module = import_module(name)
        except Exception:  # a module this machine cannot import has no docstrings for us
            continue
        for _, thing in inspect.getmembers(module):
            if inspect.isclass(thing) or inspect.isroutine(thing):
                found.append(inspect.getdoc(thing) or "")
    seen: set[str] = set()
    for page in found:
        blocks = [" ".join(block.split()) for block in page.split("\n\n")]
        kept = [text for text in blocks if len(text) > 60 and text not in seen]
        seen.update(kept)
        if kept:
            yield "\n".join(kept)


def show(folder: Path, when: str) -> None:
    model = bertworks.load(folder)
    print(f"\n{when}")
    for question in QUESTIONS:
        guesses = ", ".join(f"{guess.token_str} {guess.score:.0%}" for guess in model.fill(question, top_k=3))
        print(f"  {question:54} {guesses}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=90, help="how long to train")
    parser.add_argument("--out", type=Path, default=Path("demo"), help="the folder for all that is made")
    options = parser.parse_args()
    start = time.monotonic()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    for made in ("tokenizer", "store", "store.part", "model"):
        shutil.rmtree(out / made, ignore_errors=True)
    texts = list(pages())
    (out / "corpus.jsonl").write_text("".join(json.dumps({"text": one}) + "\n" for one in texts), encoding="utf8")
    print(
        f"{len(texts):,} pages of Python's own text, {sum(map(len, texts)) / 1e6:.1f} M characters: {out}/corpus.jsonl"
    )
    with new_folder(out / "tokenizer") as folder:
        train_tokenizer(texts, "wordpiece", VOCABULARY).save(folder)
    store = prepare(Plan((str(out / "corpus.jsonl"),), out / "tokenizer"), out / "store")
    print(f"{store.sentences:,} sentences, {store.tokens:,} tokens of {store.vocab_size:,} kinds: {out}/store")
    examples = Examples(store, published("roberta"), LENGTH, say=lambda _: None)

    bert = ARCHITECTURES["bert"]
    config = bert.sizes["bert-tiny"].but(vocab_size=store.vocab_size, positions=128, dropout=0.0, attention_dropout=0.0)
    model = bert.build(config, ("masked_lm",))
    # Narrow layers want wider first values than the published 0.02.
    initialise(model, config.init, 0.05, torch.Generator().manual_seed(0))
    description = Description(bert, config, None)

    def save() -> None:
        with new_folder(out / "model", replace=True) as folder:
            write_model(folder, model, description)
            store.tokenizer.save(folder)

    save()
    print(f"a BERT of {sum(weight.numel() for weight in model.parameters()):,} parameters: {out}/model")
    show(out / "model", "Before training it guesses:")
    print()
    train(model, examples, options.seconds)
    save()
    show(out / "model", "After training it guesses:")
    print(
        f"\n{time.monotonic() - start:.0f} seconds in all. The model's folder loads in transformers as it is. Try:\n"
        f'  .venv/bin/bertworks fill {out}/model "Raise an [MASK] if the file does not exist."\n'
        f"  .venv/bin/bertworks check {out}/store --show 3 --objective roberta\n"
        f"  .venv/bin/bertworks inspect {out}/model"
    )


def train(model: torch.nn.Module, examples: Examples, seconds: float) -> None:
    """A bare loop: masked tokens, cross-entropy where they stand, AdamW. The real trainer is to come."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.98), weight_decay=0.01)
    begin, tokens = time.monotonic(), 0
    model.train()
    average, reported = 0.0, 0.0
    for step, (batch, _) in enumerate(feed(examples, Place(), ROWS, workers=0), 1):
        passed = time.monotonic() - begin
        if passed >= seconds:
            break
        for group in optimizer.param_groups:  # up over the first tenth of the time, then down to nothing
            group["lr"] = RATE * min(passed / seconds * 10, (1 - passed / seconds) / 0.9, 1.0)
        chosen = torch.from_numpy(batch.chosen[batch.labels != IGNORED])
        wanted = torch.from_numpy(batch.labels[batch.labels != IGNORED])
        sequences = torch.from_numpy(batch.sequences.astype("int64"))
        output = model(torch.from_numpy(batch.ids).long(), sequences=sequences, chosen=chosen)
        loss = torch.nn.functional.cross_entropy(output.scores["masked_lm"], wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        tokens += batch.ids.size
        average = loss.item() if step == 1 else 0.95 * average + 0.05 * loss.item()
        if passed - reported >= 5:
            reported = passed
            print(f"  {passed:4.0f} s  step {step:5,}  loss {average:.3f}  {tokens / passed:,.0f} tokens/s", flush=True)
    model.eval()


if __name__ == "__main__":
    main()
