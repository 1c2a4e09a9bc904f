"""RoBERTa with its norms first (Wettig et al., 2022; fairseq's `--encoder-normalize-before`), which trains more calmly.

A layer norms what its attention and its feed-forward read, not the sums, and one more norm closes the stack. The
embeddings keep the norm that they had. All else is RoBERTa's, its configuration and its heads' names included.
"""

from __future__ import annotations

from torch import nn

from bertworks.layers.stack import Stack
from bertworks.weights.names import NameTable, module

from .bert import encoder_rows
from .encoder import Encoder
from .parts import Architecture, pre_norm_block
from .roberta import ROBERTA, RobertaConfig, around, head_rows

PREFIX = "roberta_prelayernorm."


def encoder(config: RobertaConfig, pooler: bool = True, way: str = "fused") -> Encoder:
    blocks = [pre_norm_block(config, way) for _ in range(config.layers)]
    final_norm = nn.LayerNorm(config.hidden_size, eps=config.norm_eps)
    return around(Stack(blocks, final_norm=final_norm), config, pooler)


def names(config: RobertaConfig, heads: tuple[str, ...]) -> NameTable:
    rows = [
        *encoder_rows(PREFIX, config, "attention.LayerNorm", "intermediate.LayerNorm"),
        *module(f"{PREFIX}LayerNorm", "encoder.stack.final_norm"),
        *head_rows(config, heads),
    ]
    return NameTable(PREFIX, rows)


# Published large, by the share of tokens that was masked: 30 % and 40 %.
LARGE = ROBERTA.sizes["roberta-large"]

ROBERTA_PRELAYERNORM = Architecture(
    name="roberta-prelayernorm",
    config=RobertaConfig,
    keys=ROBERTA.keys,
    shapes={name.replace("Roberta", "RobertaPreLayerNorm"): shape for name, shape in ROBERTA.shapes.items()},
    sizes={"efficient_mlm_m0.30": LARGE, "efficient_mlm_m0.40": LARGE},
    encoder=encoder,
    heads=ROBERTA.heads,
    names=names,
)
