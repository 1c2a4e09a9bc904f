"""A model that nobody published, wired from the parts: frozen word vectors, T5's relative positions, pre-norm blocks.

python examples/01_build_from_parts.py
"""

import torch
from torch import nn

from bertworks.batch import Batch
from bertworks.heads.masked_lm import MaskedLM
from bertworks.layers import masks
from bertworks.layers.attention import Attention, Sight
from bertworks.layers.blocks import PreNormBlock
from bertworks.layers.embeddings import Embeddings, give
from bertworks.layers.feedforward import FeedForward
from bertworks.layers.init import initialise
from bertworks.layers.positions import RelativePositions
from bertworks.layers.stack import Stack

VOCABULARY, SIZE, WIDTH, HEADS = 200, 32, 64, 4

# Word vectors from elsewhere (see weights.matrix.read_matrix for files) go in frozen, and are projected to the width.
embeddings = Embeddings(VOCABULARY, SIZE, width=WIDTH, segments=2, dropout=0.1)
give(embeddings.tokens, torch.randn(VOCABULARY, SIZE), freeze=True)

stack = Stack(
    [PreNormBlock(Attention(WIDTH, HEADS), FeedForward(WIDTH, 4 * WIDTH, "silu"), dropout=0.1) for _ in range(3)],
    score_bias=RelativePositions(HEADS),
    final_norm=nn.LayerNorm(WIDTH),
)
head = MaskedLM(WIDTH, SIZE, VOCABULARY)
for part in (embeddings, stack, head):
    initialise(part, "truncated-normal", std=0.02, generator=torch.Generator().manual_seed(0))

batch = Batch.pad([[2, 17, 4, 99, 3], [2, 5, 3]])
assert batch.real is not None
sight = Sight(masks.padding(batch.real) & masks.causal(batch.ids.shape[1]))
vectors = stack(embeddings(batch.ids), sight).last
scores = head(vectors, embeddings.tokens.weight)

trained = sum(
    weight.numel() for part in (embeddings, stack, head) for weight in part.parameters() if weight.requires_grad
)
print(f"vectors {tuple(vectors.shape)}, scores {tuple(scores.shape)}, {trained:,} weights to train")
