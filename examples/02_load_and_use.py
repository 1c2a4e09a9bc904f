"""Load a model folder and use it: vectors of texts and tokens, attention, packed rows.

python examples/02_load_and_use.py MODEL
"""

import sys

import torch

import bertworks

model = bertworks.load(sys.argv[1], dtype="fp32")

texts = ["A man is eating food.", "Someone eats a meal.", "The stock market fell today."]
vectors = model.embed(texts, normalise=True)
print("similarity to the first:", [f"{float(vectors[0] @ vector):.2f}" for vector in vectors])

one = model.encode("The cat sat on the mat.", hidden=True, maps=True)
print(
    f"{one.tokens}: {len(one.hidden)} layers of {tuple(one.last.shape)}, attention {tuple(one.maps[0].shape)} a layer"
)

# Two texts in one row that must not see each other: each gets the vectors it gets alone.
first, second = (model.encode(text).ids for text in texts[:2])
row = torch.tensor([first + second])
numbers = torch.tensor([[1] * len(first) + [2] * len(second)])
model.model.encoder.way = "packed"
with torch.inference_mode():
    packed = model.model.encoder(row, sequences=numbers).last[0, : len(first)]
print(f"packed and alone differ by {float((packed - model.encode(texts[0]).last).abs().max()):.1e}")
