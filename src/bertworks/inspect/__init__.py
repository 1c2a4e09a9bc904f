"""What a model is made of, and what it costs: reckoned from its configuration alone."""
