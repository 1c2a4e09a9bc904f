"""Every example runs, and what the README shows is what the program prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.shell import bertworks, python

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example(script: Path, minilm: Path, tmp_path: Path) -> None:
    arguments = {"02_load_and_use": [minilm], "demo": ["--seconds", 3, "--out", tmp_path / "demo"]}
    done = python(script, *arguments.get(script.stem, []))
    assert done.code == 0, done.err
    assert done.out
    assert "Traceback" not in done.err


def test_readme_shows_what_inspect_prints() -> None:
    shown = re.search(r"\$ bertworks inspect bert-base-uncased\n(.*?)\n…", (ROOT / "README.md").read_text("utf8"), re.S)
    assert shown is not None
    assert bertworks("inspect", "bert-base-uncased").out.startswith(shown[1])


def test_readme_links_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf8")):
            assert (page.parent / target).exists(), (page, target)
