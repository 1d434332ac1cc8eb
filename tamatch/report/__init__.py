"""Reports from result files alone: no torch, no network, one self-contained HTML file each."""

from .comparison import verdict_between, write_comparison
from .page import model_card, write_report
from .verdict import junk_on, outlook_on, summary_table, verdict_on

__all__ = [
    "junk_on",
    "model_card",
    "outlook_on",
    "summary_table",
    "verdict_between",
    "verdict_on",
    "write_comparison",
    "write_report",
]
