"""Preparing a corpus beside datasets.map and the bare tokenizers library, interleaved in one run. Ratios only.

    python bench/prepare.py [CORPUS.jsonl[.zst]] [--vocab VOCAB.txt] [--rounds 3] [--megabytes N]

Each side is a process of its own with two cores: ours writes a store (sentences, words, digests, shards); the peer maps
a fast tokenizer and then run_mlm's grouping over its already loaded table, in two processes; bare is the library's
encode_batch over the same texts on two threads, keeping nothing. Documents a second, by the median round; reading is
in ours alone. Then, on the corpus ten times over, the peak memory of ours with all its processes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("BERTWORKS_TEST_DATA") or ROOT.parent / "shared" / "data")
LENGTH = 128


def ours(corpus: str, tokenizer: str, out: str) -> float:
    from bertworks.text.preparing import Plan, prepare

    start = time.perf_counter()
    prepare(Plan((corpus,), Path(tokenizer)), Path(out), workers=2)
    return time.perf_counter() - start


def peer(corpus: str, tokenizer: str, out: str) -> float:
    import datasets
    from transformers import AutoTokenizer

    datasets.disable_progress_bars()
    fast = AutoTokenizer.from_pretrained(tokenizer)
    table = datasets.load_dataset("json", data_files=corpus, cache_dir=out, split="train")

    def tokenized(rows):  # type: ignore[no-untyped-def]
        return fast(rows["text"], return_special_tokens_mask=True)

    def grouped(rows):  # type: ignore[no-untyped-def]
        joined = {name: [one for row in rows[name] for one in row] for name in rows}
        total = len(joined["input_ids"]) // LENGTH * LENGTH
        return {name: [row[at : at + LENGTH] for at in range(0, total, LENGTH)] for name, row in joined.items()}

    start = time.perf_counter()
    table = table.map(tokenized, batched=True, num_proc=2, remove_columns=table.column_names)
    table.map(grouped, batched=True, num_proc=2)
    return time.perf_counter() - start


def bare(corpus: str, tokenizer: str, out: str) -> float:  # noqa: ARG001
    import tokenizers

    library = tokenizers.Tokenizer.from_file(f"{tokenizer}/tokenizer.json")
    library.no_truncation()
    library.no_padding()
    with Path(corpus).open(encoding="utf8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    start = time.perf_counter()
    for at in range(0, len(texts), 1000):
        library.encode_batch(texts[at : at + 1000], add_special_tokens=False)
    return time.perf_counter() - start


SIDES = {"ours": ours, "peer": peer, "bare": bare}


def in_process(side: str, corpus: Path, tokenizer: Path, folder: Path) -> float:
    """Seconds of one side, in a process of its own; what it wrote is removed."""
    out = folder / f"{side}-out"
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "RAYON_NUM_THREADS": "2"}
    if side == "peer":
        environment["TOKENIZERS_PARALLELISM"] = "false"  # its processes are the parallelism
    run = subprocess.run(
        [sys.executable, __file__, "--side", side, str(corpus), str(tokenizer), str(out)],
        capture_output=True,
        text=True,
        env=environment,
    )
    if run.returncode:
        sys.exit(f"{side} failed:\n{run.stderr}")
    shutil.rmtree(out, ignore_errors=True)
    return float(run.stdout.split()[-1])


def peak_memory(corpus: Path, tokenizer: Path, folder: Path) -> float:
    """Megabytes of ours and its workers together at their highest, sampled."""
    out = folder / "memory-out"
    run = subprocess.Popen(
        [sys.executable, __file__, "--side", "ours", str(corpus), str(tokenizer), str(out)], stdout=subprocess.DEVNULL
    )
    highest = 0.0

    def watch() -> None:
        nonlocal highest
        while run.poll() is None:
            highest = max(highest, _resident(run.pid))
            time.sleep(0.05)

    watcher = threading.Thread(target=watch)
    watcher.start()
    run.wait()
    watcher.join()
    shutil.rmtree(out, ignore_errors=True)
    return highest


def _resident(process: int) -> float:
    """Proportional memory of a process and its children: shared pages are counted once."""
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        told = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    own = next((int(line.split()[1]) / 1024 for line in told.splitlines() if line.startswith("Pss:")), 0.0)
    return own + sum(_resident(int(one)) for one in children)


def corpus_of(source: Path | None, megabytes: float | None, folder: Path) -> Path:
    """The corpus as plain JSON lines: the peer's reader takes no .zst."""
    from bertworks.text.documents import Tally, documents

    found = source or DATA / "enwiki_2006" / "train.jsonl.zst"
    if source is None and not found.exists():
        found = folder / "made.jsonl"
        draw = random.Random(0)
        words = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(1, 9))) for _ in range(20_000)]
        with found.open("w") as out:
            for _ in range(3000):
                text = ". ".join(" ".join(draw.choices(words, k=20)).capitalize() for _ in range(50))
                out.write(json.dumps({"text": text}) + "\n")
    path, size = folder / "corpus.jsonl", 0
    with path.open("w", encoding="utf8") as out:
        for one in documents([str(found)], "auto", "text", Tally()):
            size += out.write(json.dumps({"text": one.text}, ensure_ascii=False) + "\n")
            if megabytes and size > megabytes * 1e6:
                break
    return path


def tokenizer_of(vocabulary: Path | None, corpus: Path, folder: Path) -> Path:
    from bertworks.text.tokenizer import Tokenizer
    from bertworks.text.training import train

    found = vocabulary or DATA / "vocabs" / "bert-base-uncased.vocab.txt"
    out = folder / "tokenizer"
    out.mkdir()
    if found.exists():
        shutil.copy(found, out / "vocab.txt")
        (out / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer", "do_lower_case": true}')
        Tokenizer.load(out).save(out)
    else:
        texts = (json.loads(line)["text"] for line in corpus.open(encoding="utf8"))
        train(texts, "wordpiece", 8192).save(out)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, nargs="?")
    parser.add_argument("--vocab", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabytes", type=float, help="use only the beginning of the corpus")
    parser.add_argument("--memory", action="store_true", help="also the peak memory on the corpus ten times over")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        corpus = corpus_of(given.corpus, given.megabytes, folder)
        tokenizer = tokenizer_of(given.vocab, corpus, folder)
        count = sum(1 for _ in corpus.open("rb"))
        print(f"{count:,} documents, {corpus.stat().st_size / 1e6:.0f} MB", flush=True)
        times: dict[str, list[float]] = {side: [] for side in SIDES}
        for turn in range(given.rounds):
            for side in list(SIDES) if turn % 2 else list(SIDES)[::-1]:
                times[side].append(in_process(side, corpus, tokenizer, folder))
        median = {side: statistics.median(row) for side, row in times.items()}
        for side, row in times.items():
            print(f"{side:6}{count / median[side]:10,.0f} documents a second   (max/min {max(row) / min(row):.2f})")
        print(f"ours / datasets.map with grouping   {median['peer'] / median['ours']:.2f}   (to reach: 1.8)")
        print(
            f"ours / bare tokenizers              {median['bare'] / median['ours']:.2f}   (to reach: 0.8, stretch 0.95)"
        )
        if given.memory:
            once = peak_memory(corpus, tokenizer, folder)
            tenfold = folder / "tenfold.jsonl"
            with tenfold.open("wb") as out:
                for _ in range(10):
                    out.write(corpus.read_bytes())
            ten = peak_memory(tenfold, tokenizer, folder)
            print(f"peak memory {once:,.0f} MB; ten times the text {ten:,.0f} MB: {ten / once:.2f}   (to reach: 1.2)")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--side"]:
        print(SIDES[sys.argv[2]](*sys.argv[3:]))
    else:
        main()
