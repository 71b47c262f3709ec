"""The command line, `memspine COMMAND …`: one small module a command, imported only when that command runs.

What takes time to import (asyncio, attrs, rich, the manager) is imported by the functions that need it, so that help
and mistakes in the arguments answer at once.
"""

from __future__ import annotations

from memspine.cli.app import main

__all__ = ["main"]
