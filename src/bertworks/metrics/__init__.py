"""How good a model is: figures from gold and predicted answers, each with its interval. NumPy alone."""

from .scores import Scores

__all__ = ["Scores"]
