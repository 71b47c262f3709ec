"""Measures on conversations with questions how well memories are found.

from memspine_bench import evaluate, read_data

report = evaluate(read_data("conversations.json"), settings=["keyword", "hybrid"])
print(report.row("hybrid").scores.percent("any@10"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from memspine_bench.data import Conversation, DataFile, Message, Question, parse_conversations, read_data
    from memspine_bench.errors import DataError, MeasureError, RequestError
    from memspine_bench.evaluation import evaluate
    from memspine_bench.metrics import MEASURES, Figure, Scores, measure, measure_both
    from memspine_bench.report import Comparison, Report, Row, Tuned
    from memspine_bench.settings import SETTINGS, Setting

__all__ = [
    "MEASURES",
    "SETTINGS",
    "Comparison",
    "Conversation",
    "DataError",
    "DataFile",
    "Figure",
    "MeasureError",
    "Message",
    "Question",
    "Report",
    "RequestError",
    "Row",
    "Scores",
    "Setting",
    "Tuned",
    "evaluate",
    "measure",
    "measure_both",
    "parse_conversations",
    "read_data",
]

_MODULES: Final = ("data", "errors", "evaluation", "metrics", "report", "settings")


def __getattr__(name: str) -> Any:
    # Imported when asked for: the help of the command needs nothing of what a measurement does.
    if name in __all__:
        import importlib

        for module in _MODULES:
            found = vars(importlib.import_module(f"memspine_bench.{module}"))
            if name in found:
                return found[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
