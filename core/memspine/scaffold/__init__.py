"""What `memspine new-plugin` writes: a distribution with a backend that keeps all that every backend has to keep."""

from __future__ import annotations

from memspine.scaffold.writing import ScaffoldError, kit_command, write_plugin

__all__ = ["ScaffoldError", "kit_command", "write_plugin"]
