"""Small model folders with a tokenizer of their own, made on the spot."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import tokenizers
import torch
import transformers
from tokenizers import models, pre_tokenizers, trainers

from bertworks.text.tokenizer import Tokenizer

TEXTS = [
    "the cat sat on the mat",
    "A dog is running through the park.",
    "今天天气很好",
    "short",
    "Where is the nearest station? It is over there, near the old bridge.",
    "the the the",
    "a much longer sentence " * 6,
]
WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "mat",
    "dog",
    "a",
    "is",
    "running",
    "through",
    "park",
    "where",
    "near",
    "station",
    "bridge",
    "old",
    "over",
    "there",
    "it",
    "short",
    "much",
]


def tiny_folder(folder: Path, family: str, vocab_size: int | None = None, tokenizer_of: str | None = None) -> Path:
    """A random masked-LM model with a WordPiece, byte-BPE or Unigram tokenizer of about a hundred tokens.

    The tokenizer is the family's own, or that of the family `tokenizer_of`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = tiny_tokenizer(tokenizer_of or family.removesuffix("-prelayernorm"))
    size = vocab_size or tokenizer.vocab_size
    torch.manual_seed(4)
    common = {
        "vocab_size": size,
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 40,
        "initializer_range": 0.4,
        "pad_token_id": tokenizer.pad_id,
    }
    if family == "bert":
        model = transformers.BertForMaskedLM(transformers.BertConfig(max_position_embeddings=40, **common))
    elif family == "roberta-prelayernorm":
        positions = 40 + (tokenizer.pad_id or 0) + 1
        settings = transformers.RobertaPreLayerNormConfig(max_position_embeddings=positions, **common)
        model = transformers.RobertaPreLayerNormForMaskedLM(settings)
    elif family == "roberta":
        positions = 40 + (tokenizer.pad_id or 0) + 1
        settings = transformers.RobertaConfig(max_position_embeddings=positions, type_vocab_size=1, **common)
        model = transformers.RobertaForMaskedLM(settings)
    else:
        settings = transformers.AlbertConfig(max_position_embeddings=40, embedding_size=16, **common)
        model = transformers.AlbertForMaskedLM(settings)
    model.save_pretrained(folder)
    tokenizer.save(folder)
    return folder


def tiny_tokenizer(family: str) -> Tokenizer:
    with TemporaryDirectory() as name:
        folder = Path(name)
        if family == "bert":
            letters = "abcdefghijklmnopqrstuvwxyz"
            frame = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",", "?"]
            vocabulary = [
                *frame,
                *letters,
                *(f"##{x}" for x in letters),
                *(w for w in WORDS if len(w) > 1),
                *"今天气很好",
            ]
            (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf8")
        else:
            _train(family).save(str(folder / "tokenizer.json"))
            classes = {"roberta": "RobertaTokenizer", "albert": "AlbertTokenizer"}
            (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": classes[family]}))
        return Tokenizer.load(folder)


def _train(family: str) -> tokenizers.Tokenizer:
    if family == "roberta":
        library = tokenizers.Tokenizer(models.BPE())
        library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(
            vocab_size=300,
            special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
    else:
        library = tokenizers.Tokenizer(models.Unigram())
        library.pre_tokenizer = pre_tokenizers.Metaspace()
        frame = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
        trainer = trainers.UnigramTrainer(vocab_size=90, special_tokens=frame, unk_token="<unk>", show_progress=False)
    library.train_from_iterator([" ".join(WORDS)] * 3 + TEXTS * 5, trainer)
    return library
