"""spiece.model read by us against the library that wrote it, which shares none of our code."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from bertworks.text.tokenizer import Tokenizer
from tests.tiny import TEXTS, WORDS

SPM = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spm")
    model = io.BytesIO()
    SPM.SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join(WORDS), *TEXTS] * 20),
        model_writer=model,
        vocab_size=55,
        model_type="unigram",
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]"],
        user_defined_symbols=["[MASK]"],
        normalization_rule_name="nmt_nfkc",
        minloglevel=2,
    )
    (folder / "spiece.model").write_bytes(model.getvalue())
    settings = {
        "tokenizer_class": "AlbertTokenizer",
        "pad_token": "<pad>",
        "do_lower_case": False,
        "keep_accents": True,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


@pytest.mark.parametrize("text", [*TEXTS, "ﬁne ① Ａ  two  spaces ", "the cat\tsat", "unseen ŧ字", ""])
def test_ids_equal(made: Path, text: str) -> None:
    theirs = SPM.SentencePieceProcessor(model_file=str(made / "spiece.model"))
    assert Tokenizer.load(made).encode(text, specials=False).ids == theirs.encode(text)


def test_the_published_albert_vocabulary(data: Path, tmp_path: Path) -> None:
    (tmp_path / "spiece.model").write_bytes((data / "vocabs" / "albert-base-v2.spiece.model").read_bytes())
    theirs = SPM.SentencePieceProcessor(model_file=str(tmp_path / "spiece.model"))
    ours = Tokenizer.load(tmp_path)
    for text in [*TEXTS, "internationalization of the economy, in 1984!", "hello   world"]:
        assert ours.encode(text, specials=False).ids == theirs.encode(text.lower()), text
