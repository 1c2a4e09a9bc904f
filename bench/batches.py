"""What a batch costs beside the training step it is for: BERT-mini, every published objective and layout, in one run.

    python bench/batches.py [STORE] [--rows 32 --length 128]

The step is the fastest that this house has: masked positions alone go to the vocabulary, in bf16 where the machine
multiplies that itself, forward, backward and AdamW. Batches are made in the same thread, interleaved with the steps.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import time
from pathlib import Path

import torch
from torch.nn import functional

from bertworks.models import bert
from bertworks.objectives.batches import IGNORED, Examples, Place, TrainingBatch
from bertworks.objectives.published import PUBLISHED, Objective
from bertworks.runtime.machine import use_granted_cores
from bertworks.system import cpu_has_bf16, cpu_name
from bertworks.text.preparing import Plan, prepare
from bertworks.text.store import Store
from bertworks.text.training import train

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("BERTWORKS_TEST_DATA") or ROOT.parent / "shared" / "data")
MORE = {
    "documents": Objective(layout="documents"),
    "packed": Objective(layout="packed"),
    "packed pairs": Objective(layout="packed", pair="next-sentence", select="words"),
    "spans, all masked": Objective(select="spans", corrupt="mask"),
}


def store_of(folder: Path) -> Store:
    corpus = DATA / "enwiki_2006" / "dev.jsonl.zst"
    if not corpus.exists():
        corpus = folder / "made.txt"
        draw = random.Random(0)
        words = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(1, 9))) for _ in range(20_000)]
        lines = [". ".join(" ".join(draw.choices(words, k=20)).capitalize() for _ in range(40)) for _ in range(2000)]
        corpus.write_text("\n".join(lines))
    from bertworks.text.documents import Tally, documents

    train((one.text for one in documents([str(corpus)], "auto", "text", Tally())), "wordpiece", 8192).save(folder / "t")
    return prepare(Plan((str(corpus),), folder / "t"), folder / "store")


class Step:
    """One step of BERT-mini with the published vocabulary size."""

    def __init__(self) -> None:
        config = bert.BERT.sizes["bert-mini"]
        self.encoder, self.head = bert.encoder(config, pooler=False), bert.masked_lm(config)
        self.weights = [*self.encoder.parameters(), *self.head.parameters()]
        self.optimizer = torch.optim.AdamW(self.weights, 1e-4, fused=True)

    def __call__(self, batch: TrainingBatch) -> None:
        ids = torch.from_numpy(batch.ids).long()
        with torch.autocast("cpu", torch.bfloat16, enabled=cpu_has_bf16()):
            vectors = self.encoder(
                ids,
                segments=torch.from_numpy(batch.segments).long(),
                sequences=torch.from_numpy(batch.sequences.astype("int32")),
            ).last
            chosen = vectors.flatten(0, 1)[torch.from_numpy(batch.chosen)]
            scores = self.head(chosen, self.encoder.embeddings.tokens.weight)
        loss = functional.cross_entropy(scores.float(), torch.from_numpy(batch.labels), ignore_index=IGNORED)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", nargs="?")
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=12)
    given = parser.parse_args()
    use_granted_cores()
    torch.manual_seed(0)
    step = Step()
    print(f"{cpu_name()}, {torch.get_num_threads()} threads; BERT-mini, {given.rows} rows of {given.length}")
    with tempfile.TemporaryDirectory() as name:
        store = Store(given.store) if given.store else store_of(Path(name))
        for label, objective in (PUBLISHED | MORE).items():
            examples = Examples(store, objective, given.length, say=lambda _: None)
            place, making, stepping = Place(), [], []
            for turn in range(given.rounds + 2):
                start = time.perf_counter()
                batch = examples.batch(place, given.rows)
                place = examples.after(place, given.rows)
                middle = time.perf_counter()
                step(batch)
                if turn > 1:
                    making.append(middle - start)
                    stepping.append(time.perf_counter() - middle)
            batch_time, step_time = statistics.median(making), statistics.median(stepping)
            print(
                f"{label:20} batch {batch_time * 1e3:6.2f} ms, step {step_time * 1e3:7.1f} ms: "
                f"{batch_time / step_time:6.2%}   (to reach: 3 %)",
                flush=True,
            )


if __name__ == "__main__":
    main()
