"""A model in use: one Predictor for Python, the command line and (later) HTTP."""
