"""An evaluation for a person to read: as text, as JSON, and as one HTML file that needs nothing else.

    report = Report("classify", "runs/sst2", scores, data="dev.tsv", mistakes=(Mistake("fine", "good", "bad", 0.9),))
    text(report); to_json(report); html(report)

Whoever evaluates fills a `Report`; nothing here reads files or runs a model.
"""

from .contents import Mistake, Report, Span, to_json
from .page import html
from .text import text

__all__ = ["Mistake", "Report", "Span", "html", "text", "to_json"]
