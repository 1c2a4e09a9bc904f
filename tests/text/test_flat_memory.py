"""Memory does not grow with the corpus."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from bertworks.errors import BertworksWarning

from . import corpora

SCRIPT = """
import resource, sys
from pathlib import Path
from bertworks.text.preparing import Plan, prepare
prepare(Plan((sys.argv[1],), Path(sys.argv[2]), shard_tokens=int(sys.argv[4])), Path(sys.argv[3]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def peak(corpus: Path, tokenizer: Path, out: Path, shard_tokens: int) -> int:
    """Megabytes, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(corpus), str(tokenizer), str(out), str(shard_tokens)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])


@pytest.mark.parametrize(
    ("count", "shard_tokens"), [(1200, 1 << 17), pytest.param(15_000, 1 << 20, marks=pytest.mark.full)]
)
def test_ten_times_the_text_takes_no_more_memory(tmp_path: Path, count: int, shard_tokens: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BertworksWarning)
        corpora.tokenizer(tmp_path / "t")
    texts = corpora.documents(count)
    small = corpora.written(tmp_path / "small.jsonl", texts)
    large = tmp_path / "large.jsonl"
    large.write_bytes(small.read_bytes() * 10)
    once = peak(small, tmp_path / "t", tmp_path / "one", shard_tokens)
    ten = peak(large, tmp_path / "t", tmp_path / "ten", shard_tokens)
    assert ten <= 1.2 * once, (once, ten)
