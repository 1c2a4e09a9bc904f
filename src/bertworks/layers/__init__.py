"""The parts of a Transformer encoder, each usable on its own.

embeddings   ids -> vectors: tokens + positions + segments, plain or factorised
positions    learned and sinusoidal vectors, and the relative bias that attention adds to its scores
rotary       positions as angles by which queries and keys are turned
masks        who may look at whom: padding, windows, causal, prefix, block-diagonal; they compose with `&`
attention    scaled dot-product attention in three ways, and the multi-head layer around it
feedforward  the position-wise network, with a gate or without, and its activations
dropout      from PyTorch's random numbers, or from a faster source on a CPU
blocks       attention + feed-forward with residuals: norm after (BERT) or before
stack        N blocks of their own, or groups of shared blocks looped (ALBERT)
init         normal, truncated normal, uniform; matrices given from a file
"""
