"""memspine: long-term memory for LLM applications, on any store.

    from memspine import MemoryManager

    async with MemoryManager() as memory:
        await memory.create("Juno eats duck and potato now.")
        result = await memory.search("What does the dog eat?")

Plugins import from `memspine.contracts`, `memspine.model`, `memspine.errors`, `memspine.text`, `memspine.ranking`,
`memspine.times`, `memspine.outbound` and `memspine.hookspecs`; without async there is `memspine.blocking`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memspine.manager import MemoryManager

__all__ = ["MemoryManager", "__version__"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Imported when asked for: plugins import this package for its contracts and need no manager.
    if name == "MemoryManager":
        from memspine.manager import MemoryManager

        return MemoryManager
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
