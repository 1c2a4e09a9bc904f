"""Pre-training beside transformers' Trainer, interleaved in one run: tokens a second of the whole loop, data included.

    python bench/pretrain.py [STORE] [--seconds 45] [--rounds 2] [--sizes mini,six]

Equal model (BERT's masked LM, dropout on), vocabulary, length, global batch and text. The peer is Trainer as its users
get it: datasets, run_mlm's grouping, DataCollatorForLanguageModeling; in fp32, and in bf16 with torch.compile. Each
side is a process of its own on all cores; the first steps (warming up, compiling) are left out of both. Also the share
of the machine's bf16 matrix peak, measured in the same run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIZES = {
    "mini": {"hidden_size": 256, "layers": 4, "heads": 4, "intermediate_size": 1024, "length": 128},
    "six": {"hidden_size": 384, "layers": 6, "heads": 6, "intermediate_size": 1536, "length": 128},
    "six-512": {"hidden_size": 384, "layers": 6, "heads": 6, "intermediate_size": 1536, "length": 512},
}
TOKENS = 4096
LEFT_OUT = 5  # steps at the beginning


def ours(store: str, folder: Path, size: dict[str, int], seconds: float) -> float:
    """By the command line, as a user runs it."""
    recipe = folder / "recipe.toml"
    model = {name: value for name, value in size.items() if name != "length"}
    lines = ["[model]", 'architecture = "bert"', *(f"{name} = {value}" for name, value in model.items())]
    lines += [f"positions = {size['length']}", "[objective]", 'preset = "roberta"', "[batch]"]
    lines += [f"length = {size['length']}", f"tokens = {TOKENS}", "[budget]", f"minutes = {seconds / 60}"]
    recipe.write_text("\n".join(lines) + "\n")
    command = [
        sys.executable,
        "-m",
        "bertworks",
        "pretrain",
        str(recipe),
        "--data",
        store,
        "--out",
        str(folder / "run"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    rows = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    rows = [row for row in rows if "seconds" in row][LEFT_OUT:]
    return len(rows) * TOKENS / sum(row["seconds"] for row in rows)


def peer(store: str, folder: Path, size: dict[str, int], seconds: float, fast: bool) -> float:
    import datasets
    import torch
    import transformers

    from bertworks.text.store import Store

    opened = Store(store)
    text = folder / "text.txt"
    taken = []
    for shard in opened.shards():
        edges = shard.document_tokens
        for first, last in itertools.pairwise(edges):
            taken.append(opened.tokenizer.decode(shard.ids[first:last].tolist()))
        break
    text.write_text("\n".join(taken))
    opened.tokenizer.save(folder / "tokenizer")
    datasets.disable_progress_bars()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "tokenizer")
    table = datasets.load_dataset("text", data_files=str(text), split="train", cache_dir=str(folder / "cache"))
    length = size["length"]

    def grouped(rows):  # type: ignore[no-untyped-def]
        found = tokenizer(rows["text"], return_special_tokens_mask=True)
        joined = {name: [one for row in found[name] for one in row] for name in found}
        total = len(joined["input_ids"]) // length * length
        return {name: [row[at : at + length] for at in range(0, total, length)] for name, row in joined.items()}

    table = table.map(grouped, batched=True, remove_columns=["text"])
    config = transformers.BertConfig(
        vocab_size=opened.vocab_size,
        hidden_size=size["hidden_size"],
        num_hidden_layers=size["layers"],
        num_attention_heads=size["heads"],
        intermediate_size=size["intermediate_size"],
        max_position_embeddings=length,
    )

    class Clock(transformers.TrainerCallback):
        begun = ended = 0.0
        steps = 0

        def on_step_end(self, args, state, control, **_):  # noqa: ARG002
            now = time.perf_counter()
            if state.global_step == LEFT_OUT:
                self.begun = now
            self.ended, self.steps = now, state.global_step - LEFT_OUT
            if self.begun and now - self.begun > seconds:
                control.should_training_stop = True

    clock = Clock()
    arguments = transformers.TrainingArguments(
        output_dir=str(folder / "out"),
        per_device_train_batch_size=TOKENS // length,
        max_steps=10_000,
        bf16=fast,
        torch_compile=fast,
        use_cpu=not torch.cuda.is_available(),
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        logging_steps=1000,
    )
    transformers.Trainer(
        model=transformers.BertForMaskedLM(config),
        args=arguments,
        train_dataset=table,
        data_collator=transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15),
        callbacks=[clock],
    ).train()
    return clock.steps * TOKENS / (clock.ended - clock.begun)


def side(name: str, store: str, folder: str, size: str, seconds: str) -> float:
    if name == "ours":
        return ours(store, Path(folder), SIZES[size], float(seconds))
    return peer(store, Path(folder), SIZES[size], float(seconds), name == "peer bf16+compile")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("--seconds", type=float, default=45)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--sizes", default="mini,six")
    given = parser.parse_args()
    from bertworks.inspect.costs import flops_per_token
    from bertworks.models import architecture
    from bertworks.runtime.machine import matrix_peak, use_granted_cores
    from bertworks.text.store import Store

    use_granted_cores()
    names = ["ours", "peer fp32", "peer bf16+compile"]
    peak = matrix_peak(seconds=1)
    for size in given.sizes.split(","):
        speeds: dict[str, list[float]] = {name: [] for name in names}
        for turn in range(given.rounds):
            for name in names if turn % 2 else names[::-1]:
                with tempfile.TemporaryDirectory() as folder:
                    command = [sys.executable, __file__, "--side", name, given.store, folder, size, str(given.seconds)]
                    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
                    done = subprocess.run(command, capture_output=True, text=True, env=environment)
                    if done.returncode:
                        sys.exit(f"{name} failed:\n{done.stderr[-2000:]}")
                    speeds[name].append(float(done.stdout.split()[-1]))
        best = {name: statistics.median(row) for name, row in speeds.items()}
        shape = {name: value for name, value in SIZES[size].items() if name != "length"}
        config = architecture("bert").config(vocab_size=Store(given.store).vocab_size, **shape)
        flops = flops_per_token(config, SIZES[size]["length"])["pretraining_step"]
        for name, speed in best.items():
            print(f"{size:10}{name:20}{speed:10,.0f} tokens a second", flush=True)
        ratios = (best["ours"] / best["peer fp32"], best["ours"] / best["peer bf16+compile"])
        print(f"{size:10}ours / fp32 {ratios[0]:.2f}, ours / bf16+compile {ratios[1]:.2f}", flush=True)
        print(
            f"{size:10}{best['ours'] * flops / peak:.0%} of the bf16 matrix peak of {peak / 1e9:,.0f} GFLOP/s",
            flush=True,
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--side"]:
        print(side(*sys.argv[2:]))
    else:
        main()
