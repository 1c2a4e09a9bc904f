"""The Predictor on a real model and on tiny ones, beside sentence-transformers and transformers' pipelines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import bertworks
from bertworks.errors import BertworksWarning, ConfigError, InputError, WeightsError
from tests.tiny import TEXTS, tiny_folder


@pytest.fixture(scope="module")
def exact(minilm: Path) -> bertworks.Predictor:
    return bertworks.load(minilm, dtype="fp32", device="cpu")


def test_embeddings_equal_sentence_transformers(minilm: Path, exact: bertworks.Predictor) -> None:
    from sentence_transformers import SentenceTransformer

    peer = SentenceTransformer(str(minilm), device="cpu", model_kwargs={"dtype": torch.float32})
    texts = [*TEXTS, "", " ", "a", "word " * 400, "中文和English混排，😀 emoji", "\x00 nul"]
    with pytest.warns(BertworksWarning, match="1 of 13 texts were longer than 256 tokens"):
        ours = exact.embed(texts)
    theirs = peer.encode(texts)
    assert ours.shape == theirs.shape == (len(texts), 384)
    assert np.abs(ours - theirs).max() <= 1e-5
    assert np.allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-5)


def test_bf16_is_the_default_where_native_and_near(minilm: Path, exact: bertworks.Predictor) -> None:
    from bertworks.system import cpu_has_bf16

    default = bertworks.load(minilm, device="cpu")
    assert default.dtype == (torch.bfloat16 if cpu_has_bf16() else torch.float32)
    half = bertworks.load(minilm, device="cpu", dtype="bf16")
    cosine = (exact.embed(TEXTS) * half.embed(TEXTS)).sum(1)
    assert cosine.min() > 0.999
    assert half.embed(TEXTS).dtype == np.float32


def test_one_text_or_many_in_any_company(exact: bertworks.Predictor) -> None:
    together = exact.embed(TEXTS)
    for text, vector in zip(TEXTS, together, strict=True):
        assert np.abs(exact.embed(text) - vector).max() <= 1e-5
    assert exact.embed([]).shape == (0, 384)


def test_pooling_by_argument(exact: bertworks.Predictor) -> None:
    vectors = exact.encode(TEXTS)
    assert isinstance(vectors, list)
    for how, wanted in {
        "cls": lambda last: last[0],
        "mean": lambda last: last.mean(0),
        "max": lambda last: last.amax(0),
    }.items():
        got = exact.embed(TEXTS, pooling=how, normalise=False)
        for one, vector in zip(vectors, got, strict=True):
            assert np.abs(wanted(one.last).numpy() - vector).max() <= 1e-5
    with pytest.raises(ConfigError, match="unknown pooling"):
        exact.embed(TEXTS, pooling="median")


def test_encode_gives_layers_and_maps(minilm: Path, exact: bertworks.Predictor) -> None:
    peer = transformers.AutoModel.from_pretrained(minilm, attn_implementation="eager")
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm)
    one = exact.encode("The cat sat.", hidden=True, maps=True)
    with torch.no_grad():
        theirs = peer(
            **tokenizer("The cat sat.", return_tensors="pt"), output_hidden_states=True, output_attentions=True
        )
    assert one.tokens == ["[CLS]", "the", "cat", "sat", ".", "[SEP]"]
    assert one.offsets[1:3] == [(0, 3), (4, 7)]
    assert (one.last - theirs.last_hidden_state[0]).abs().max() <= 1e-5
    assert (one.pooled - theirs.pooler_output[0]).abs().max() <= 1e-5
    assert max(float((a - b[0]).abs().max()) for a, b in zip(one.hidden, theirs.hidden_states, strict=True)) <= 1e-5
    assert max(float((a - b[0]).abs().max()) for a, b in zip(one.maps, theirs.attentions, strict=True)) <= 1e-5


def test_pairs_and_ids(exact: bertworks.Predictor) -> None:
    pair = exact.encode(("who?", "me"))
    assert pair.tokens == ["[CLS]", "who", "?", "[SEP]", "me", "[SEP]"]
    from_ids = exact.encode(pair.ids[:4])
    assert (from_ids.last - exact.encode("who?").last).abs().max() <= 1e-6


FOLDERS = [("bert", "bert"), ("roberta", "roberta"), ("albert", "albert")]
FOLDERS += [("roberta-prelayernorm", "roberta"), ("roberta-prelayernorm", "bert")]


@pytest.mark.parametrize(("family", "tokenizer_of"), FOLDERS)
def test_fill_equals_transformers_pipeline(tmp_path: Path, family: str, tokenizer_of: str) -> None:
    folder = tiny_folder(tmp_path, family, tokenizer_of=tokenizer_of)
    ours = bertworks.load(folder, dtype="fp32", device="cpu")
    pipe = transformers.pipeline("fill-mask", model=str(folder), device="cpu", top_k=4)
    mask = ours.tokenizer.mask_token
    text = f"the cat {mask} on the mat"
    theirs, mine = pipe(text), ours.fill("the cat [MASK] on the mat", top_k=4)
    assert [guess.token for guess in mine] == [row["token"] for row in theirs]
    assert [guess.token_str for guess in mine] == [row["token_str"] for row in theirs]
    assert [guess.sequence for guess in mine] == [row["sequence"] for row in theirs]
    assert np.allclose([guess.score for guess in mine], [row["score"] for row in theirs], atol=1e-6)

    two = f"{mask} cat sat on {mask} mat"
    for a, b in zip(ours.fill(two, top_k=3), pipe(two, top_k=3), strict=True):
        assert [guess.token for guess in a] == [row["token"] for row in b]
    many = ours.fill([text, two])
    assert isinstance(many[0][0], bertworks.Guess)
    assert isinstance(many[1][0], list)


@pytest.mark.filterwarnings("ignore:1 of 8 texts were longer")
def test_a_pre_norm_model_of_lower_case_pieces_is_saved_as_transformers_reads_it(tmp_path: Path) -> None:
    """Its tokenizer is not the one its model_type suggests: the class that the folder names decides, here and there."""
    first = tiny_folder(tmp_path / "first", "roberta-prelayernorm", tokenizer_of="bert")
    bertworks.load(first, dtype="fp32", device="cpu").save(tmp_path / "saved")
    ours = bertworks.load(tmp_path / "saved", dtype="fp32", device="cpu")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
    model = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "saved")
    assert ours.tokenizer.kind == "wordpiece"
    assert ours.tokenizer.pad_id == ours.config.pad_id == tokenizer.pad_token_id == model.config.pad_token_id == 0
    texts = [*TEXTS, ("The Cat", "on the mat?")]
    for text, mine in zip(texts, ours.encode(texts), strict=True):
        pair = (text,) if isinstance(text, str) else text
        given = tokenizer(*pair, truncation=True, max_length=ours.max_length, return_tensors="pt")
        assert given["input_ids"][0].tolist() == mine.ids
        with torch.no_grad():
            theirs = model.roberta_prelayernorm(**given).last_hidden_state[0]
        assert (theirs - mine.last).abs().max() <= 1e-5


def test_save_and_load_again_here_and_elsewhere(tmp_path: Path, minilm: Path, exact: bertworks.Predictor) -> None:
    from sentence_transformers import SentenceTransformer

    exact.save(tmp_path / "saved")
    again = bertworks.load(tmp_path / "saved", dtype="fp32", device="cpu")
    assert again.sentence == exact.sentence
    assert np.array_equal(again.embed(TEXTS), exact.embed(TEXTS))
    peer = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert np.abs(peer.encode(TEXTS) - exact.embed(TEXTS)).max() <= 1e-5
    with pytest.raises(InputError, match="not empty"):
        exact.save(tmp_path / "saved")
    exact.save(tmp_path / "saved", replace=True)
    assert not [path for path in tmp_path.iterdir() if path.name != "saved"]


def test_a_half_precision_model_saves_as_it_is(tmp_path: Path, minilm: Path) -> None:
    half = bertworks.load(minilm, dtype="bf16", device="cpu")
    half.save(tmp_path / "half")
    peer = transformers.AutoModel.from_pretrained(tmp_path / "half")
    assert peer.dtype == torch.bfloat16
    again = bertworks.load(tmp_path / "half", dtype="bf16", device="cpu")
    assert np.array_equal(again.embed(TEXTS), half.embed(TEXTS))


@pytest.mark.parametrize(("family", "tokenizer_of"), FOLDERS)
def test_too_long_is_cut_and_said(tmp_path: Path, family: str, tokenizer_of: str) -> None:
    predictor = bertworks.load(tiny_folder(tmp_path, family, tokenizer_of=tokenizer_of), dtype="fp32", device="cpu")
    long = " ".join(["the cat sat"] * 100)
    with pytest.warns(BertworksWarning, match="longer than 40 tokens"):
        assert len(predictor.encode(long).ids) == 40
    with pytest.raises(InputError, match="41 token ids are more than the model's 40"):
        predictor.encode([5] * 41)
    with pytest.warns(BertworksWarning), pytest.raises(InputError, match="past the model's 40 tokens"):
        predictor.fill(f"{long} [MASK]")


def test_what_cannot_be_done_is_said(tmp_path: Path, exact: bertworks.Predictor) -> None:
    predictor = bertworks.load(tiny_folder(tmp_path, "bert"), dtype="fp32", device="cpu")
    with pytest.raises(InputError, match="no \\[MASK\\] to fill"):
        predictor.fill("the cat")
    with pytest.raises(InputError, match="no \\[MASK\\] to fill in ''"):
        predictor.fill("")
    with pytest.raises(InputError, match="no masked-language-model head"):
        exact.fill("a [MASK]")
    with pytest.raises(InputError, match="token id 30522 is outside the model's 30522"):
        exact.encode([101, 30522])
    with pytest.raises(InputError, match="not int"):
        exact.embed(3)
    with pytest.raises(InputError, match="unknown dtype 'fp31'"):
        bertworks.load(tmp_path, dtype="fp31")
    with pytest.raises(InputError, match="unknown device"):
        bertworks.load(tmp_path, device="abacus")
    assert predictor.embed("").shape == (24,)


def test_nan_is_never_handed_out(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = tiny_folder(tmp_path, "bert")
    tensors = load_file(folder / "model.safetensors")
    name = "bert.encoder.layer.1.output.dense.weight"
    tensors[name][7, 7] = float("nan")  # in the middle of one matrix: opening the file does not look there
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    predictor = bertworks.load(folder, dtype="fp32", device="cpu")
    for use in (lambda: predictor.embed("the cat"), lambda: predictor.fill("the [MASK]")):
        with pytest.raises(WeightsError, match=f"{name}.*1 values that are not finite"):
            use()


def test_tokenizer_of_another_model_is_refused(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "a", "bert", vocab_size=30)
    with pytest.raises(ConfigError, match="do not belong together"):
        bertworks.load(folder, dtype="fp32", device="cpu").embed("the cat")


def test_sentence_options_there_and_back(tmp_path: Path) -> None:
    from bertworks.models.sentence import SentenceOptions, read_options, write_options

    for options in (
        SentenceOptions("cls", True, 64),
        SentenceOptions("max", False, None, lowercase=True),
        SentenceOptions("mean", True, 128, prompt="query: "),
    ):
        folder = tmp_path / options.how
        folder.mkdir()
        write_options(folder, options, 24)
        assert read_options(folder) == options
    assert read_options(tmp_path) is None


def test_default_prompt_is_put_before_texts_as_sentence_transformers_does(tmp_path: Path, minilm: Path) -> None:
    import json
    import shutil

    from sentence_transformers import SentenceTransformer

    folder = tmp_path / "m"
    shutil.copytree(minilm, folder)
    settings = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    ours = bertworks.load(folder, dtype="fp32", device="cpu").embed(TEXTS)
    theirs = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    assert np.abs(ours - theirs).max() <= 1e-5
