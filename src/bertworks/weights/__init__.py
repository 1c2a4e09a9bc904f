"""Tensors on disk: names (one table per model, read both ways), files, older formats."""
