"""One verb, one file: its options and what it does. No file here imports torch before its verb runs."""
