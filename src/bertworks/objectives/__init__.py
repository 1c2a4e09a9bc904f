"""From a store to training examples: layout × select × corrupt, each a free choice (see docs/data-flow.md)."""
