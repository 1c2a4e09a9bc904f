"""From this machine's own text to a filled blank, in about a minute: what `make demo` runs.

Text is what every Python carries (its language reference in pydoc_data, and the standard library's docstrings). A small
WordPiece vocabulary and a two-layer BERT are made from it; the model's guesses are shown before and after.
"""

from __future__ import annotations

import argparse
import inspect
import pkgutil
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pydoc_data import topics

import torch
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

import bertworks
from bertworks.folders import new_folder
from bertworks.layers.init import initialise
from bertworks.models import ARCHITECTURES
from bertworks.models.folder import Description, write_model
from bertworks.text.tokenizer import Tokenizer

QUESTIONS = [
    "The [MASK] statement is used to define a function.",
    "If the object is not found, an exception is [MASK].",
    "Return a new [MASK] with the given items.",
]
# A small vocabulary and short rows: in a minute or two this leaves the plateau where only word frequencies are known.
VOCABULARY, LENGTH, ROWS, MASKED, RATE = 1500, 32, 96, 0.15, 3e-3


def paragraphs() -> Iterator[str]:
    """Paragraphs of prose that this Python carries."""
    pages = list(topics.topics.values())
    for name in sorted(set(sys.stdlib_module_names)):
        if name.startswith("_") or name in ("antigravity", "this", "idlelib") or not pkgutil.find_loader(name):
            continue
        try:
            module = import_module(name)
        except Exception:  # a module this machine cannot import has no docstrings for us
            continue
        for _, thing in inspect.getmembers(module):
            if inspect.isclass(thing) or inspect.isroutine(thing):
                pages.append(inspect.getdoc(thing) or "")
    seen: set[str] = set()
    for page in pages:
        for block in page.split("\n\n"):
            text = " ".join(block.split())
            if len(text) > 60 and text not in seen:
                seen.add(text)
                yield text


def train_tokenizer(texts: list[str], size: int = VOCABULARY) -> Tokenizer:
    """An uncased WordPiece tokenizer, as BERT's."""
    library = Library(models.WordPiece(unk_token="[UNK]"))
    library.normalizer = normalizers.BertNormalizer(lowercase=True)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece()
    frame = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    library.train_from_iterator(
        texts, trainers.WordPieceTrainer(vocab_size=size, special_tokens=frame, show_progress=False)
    )
    library.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return Tokenizer(library, dict(zip(names, frame, strict=True)))


def show(folder: Path, when: str) -> None:
    model = bertworks.load(folder)
    print(f"\n{when}")
    for question in QUESTIONS:
        guesses = ", ".join(f"{guess.token_str} {guess.score:.0%}" for guess in model.fill(question, top_k=3))
        print(f"  {question:54} {guesses}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=90, help="how long to train")
    parser.add_argument("--out", type=Path, default=Path("demo-model"), help="the model folder to write")
    options = parser.parse_args()
    start = time.monotonic()
    texts = list(paragraphs())
    tokenizer = train_tokenizer(texts)
    stream = torch.tensor([id for one in tokenizer.encode_batch(texts, specials=False) for id in one.ids])
    print(f"{len(texts):,} paragraphs of Python's own text: {len(stream):,} tokens of {tokenizer.vocab_size:,} kinds")

    bert = ARCHITECTURES["bert"]
    config = bert.sizes["bert-tiny"].but(
        vocab_size=tokenizer.vocab_size, positions=128, dropout=0.0, attention_dropout=0.0
    )
    model = bert.build(config, ("masked_lm",))
    generator = torch.Generator().manual_seed(0)
    initialise(model, config.init, 0.05, generator)  # narrow layers want wider first values than the published 0.02
    description = Description(bert, config, None)

    def save() -> None:
        with new_folder(options.out, replace=True) as folder:
            write_model(folder, model, description)
            tokenizer.save(folder)

    save()
    print(f"a BERT of {sum(weight.numel() for weight in model.parameters()):,} parameters, saved in {options.out}")
    show(options.out, "Before training it guesses:")
    print()
    train(model, stream, tokenizer, options.seconds, generator)
    save()
    show(options.out, "After training it guesses:")
    print(
        f"\n{time.monotonic() - start:.0f} seconds in all. The folder loads in transformers as it is. Try:\n"
        f'  .venv/bin/bertworks fill {options.out} "Raise an [MASK] if the file does not exist."\n'
        f"  .venv/bin/bertworks inspect {options.out}"
    )


def train(
    model: torch.nn.Module, stream: torch.Tensor, tokenizer: Tokenizer, seconds: float, generator: torch.Generator
) -> None:
    """A bare loop: masked tokens, cross-entropy where they stand, AdamW. The real trainer is to come."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.98), weight_decay=0.01)
    begin, step, tokens = time.monotonic(), 0, 0
    model.train()
    average, reported = 0.0, 0.0
    while (passed := time.monotonic() - begin) < seconds:
        for group in optimizer.param_groups:  # up over the first tenth of the time, then down to nothing
            group["lr"] = RATE * min(passed / seconds * 10, (1 - passed / seconds) / 0.9, 1.0)
        at = torch.randint(len(stream) - LENGTH, (ROWS,), generator=generator)
        ids = stream[at[:, None] + torch.arange(LENGTH - 2)]
        frame = torch.tensor([tokenizer.cls_id, tokenizer.sep_id]).expand(ROWS, 2)
        ids = torch.cat([frame[:, :1], ids, frame[:, 1:]], 1)
        picked = torch.rand(ids.shape, generator=generator) < MASKED
        picked[:, [0, -1]] = False
        chosen = picked.flatten().nonzero().flatten()
        wanted = ids.flatten()[chosen]
        scores = model(ids.masked_fill(picked, tokenizer.mask_id or 0), chosen=chosen).scores["masked_lm"]
        loss = torch.nn.functional.cross_entropy(scores, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step, tokens = step + 1, tokens + ids.numel()
        average = loss.item() if step == 1 else 0.95 * average + 0.05 * loss.item()
        if passed - reported >= 5:
            reported = passed
            print(f"  {passed:4.0f} s  step {step:5,}  loss {average:.3f}  {tokens / passed:,.0f} tokens/s", flush=True)
    model.eval()


if __name__ == "__main__":
    main()
