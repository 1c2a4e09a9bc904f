"""Every labelled set of the data folder is read, with one mapping at most."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bertworks.tasks.data import Asked, Choice, Labels, Tagged, Text, read
from bertworks.tasks.data.tags import SchemeFinder

from .files import quiet

# set: (task, rows of train, outputs that its labels make)
SETS: dict[str, tuple[str, int, int]] = {
    "ag_news_small": ("classify", 5600, 4),
    "atec": ("classify", 20000, 2),
    "c3": ("choose", 2677, 0),
    "chnsenticorp": ("classify", 9600, 2),
    "cmnli_small": ("classify", 8246, 3),
    "cmrc2018_trial": ("answer", 1002, 0),
    "cola": ("classify", 8551, 2),
    "conll2000_chunking": ("tag", 8036, 23),
    "conll2003": ("tag", 14041, 9),
    "drcd": ("answer", 5959, 0),
    "fewclue_bustm": ("classify", 160, 2),
    "fewclue_chid": ("choose", 202, 0),
    "fewclue_cluewsc": ("classify", 160, 2),
    "fewclue_csl": ("classify", 160, 2),
    "fewclue_csldcp": ("classify", 2036, 67),
    "fewclue_eprstmt": ("classify", 160, 2),
    "fewclue_iflytek": ("classify", 3024, 119),
    "fewclue_tnews": ("classify", 1185, 15),
    "lcqmc_small": ("classify", 11000, 2),
    "movie_reviews_long": ("classify", 1800, 2),
    "mrpc": ("classify", 3668, 2),
    "msra_ner": ("tag", 25000, 7),
    "mturk771": ("regress", 771, 0),
    "ocnli": ("classify", 8985, 3),
    "online_shopping_10_cats": ("classify", 20000, 2),
    "qnli_devset": ("classify", 3682, 2),
    "resume_ner": ("tag", 3821, 17),
    "rte": ("classify", 2490, 2),
    "sick": ("classify", 4500, 3),
    "smp2020_ewect": ("classify", 27766, 6),
    "squad_v1_devset": ("answer", 7118, 0),
    "squad_v2_devset": ("answer", 8675, 0),
    "sst2": ("classify", 6920, 2),
    "sst5": ("classify", 8544, 5),
    "stsb": ("regress", 5749, 0),
    "subj": ("classify", 8327, 2),
    "thucnews_titles": ("classify", 9000, 10),
    "trec": ("classify", 4952, 6),
    "ud_chinese_gsdsimp_small": ("tag", 500, 0),
    "ud_english_ewt": ("tag", 12544, 17),
    "wordsim353": ("regress", 353, 0),
    "zh_people_daily_1998_pos": ("tag", 16561, 0),
    "zh_stsb": ("regress", 5231, 0),
}
SCHEMES = {"conll2003": "bio", "msra_ner": "bio", "resume_ner": "bmes", "conll2000_chunking": "bio"}
MAPPED: list[tuple[str, str | None, dict[str, str], int]] = [
    ("fewclue_csl", None, {"text_b": "keyword"}, 2),
    ("trec", None, {"label": "fine_label"}, 50),
    ("online_shopping_10_cats", None, {"label": "category"}, 10),
    ("conll2003", None, {"tags": "pos"}, 45),
    ("conll2003", None, {"tags": "chunk"}, 21),
    ("ud_english_ewt", None, {"tags": "xpos"}, 49),
]


def file_of(data: Path, name: str) -> str:
    found = next((one for one in ("train", "all") if (data / name / f"{one}.jsonl.zst").exists()), None)
    if found is None:
        pytest.skip(f"no {name} in the data folder")
    return str(data / name / f"{found}.jsonl.zst")


@pytest.mark.parametrize("name", SETS)
def test_a_set_is_read(data: Path, name: str) -> None:
    task, count, outputs = SETS[name]
    table = read(file_of(data, name), say=quiet)
    assert (table.task, len(table)) == (task, count)
    if outputs:
        assert len(Labels.of(table)) == outputs
    assert all(map(whole, table.rows))
    if name in SCHEMES:
        finder = SchemeFinder()
        for row in table.rows:
            finder.add(row.tags)  # type: ignore[attr-defined]
        assert finder.scheme == SCHEMES[name]


def whole(row: Any) -> bool:
    if isinstance(row, Text):
        return bool(row.text) and (row.label is not None) != (row.score is not None)
    if isinstance(row, Tagged):
        return row.tokens is not None and row.tags is not None and len(row.tokens) == len(row.tags)
    if isinstance(row, Asked):
        places = [row.context[one.start : one.start + len(one.text)] == one.text for one in row.answers or ()]
        return all(places)  # one question of CMRC is empty
    return isinstance(row, Choice) and row.label is not None and 0 <= row.label < len(row.choices)


@pytest.mark.parametrize(("name", "task", "mapping", "outputs"), MAPPED)
def test_a_mapping_is_enough(data: Path, name: str, task: str | None, mapping: dict[str, str], outputs: int) -> None:
    table = read(file_of(data, name), task, mapping, say=quiet)
    assert len(Labels.of(table)) == outputs
    assert next(iter(mapping.values())) in table.columns.values()


def test_pairs_are_pairs(data: Path) -> None:
    for name in ("mrpc", "fewclue_bustm", "ocnli", "stsb", "wordsim353"):
        assert all(isinstance(row, Text) and row.text_b for row in read(file_of(data, name), say=quiet).rows)
    shares = Counter(
        isinstance(row, Asked) and row.answers == () for row in read(file_of(data, "squad_v2_devset"), say=quiet).rows
    )
    assert 0.4 < shares[True] / shares.total() < 0.6
