"""Text: what turns words into ids, and ids into words."""
