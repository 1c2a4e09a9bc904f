"""The loop that trains any module on any order of batches: it never imports a model (see docs/data-flow.md)."""
