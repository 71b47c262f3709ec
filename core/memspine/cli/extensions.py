"""Commands that other distributions bring, as entry points of the group `memspine.commands`.

The entry's name is the command, its value the address "module:function" of a `function(argv: list[str]) -> int`; the
line in help is the summary of the distribution. A built-in command wins over one of the same name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from memspine.errors import PluginLoadError

if TYPE_CHECKING:
    import importlib.metadata

GROUP: Final = "memspine.commands"


class Extension(NamedTuple):
    """A command of another distribution, not imported yet."""

    entry: importlib.metadata.EntryPoint
    name: str
    summary: str
    distribution: str

    def load(self) -> Callable[[list[str]], int | None]:
        """The function, imported now. Raises whatever importing it raises."""
        return cast("Callable[[list[str]], int | None]", self.entry.load())

    def load_error(self, error: Exception) -> PluginLoadError:
        """What to say when that failed."""
        return PluginLoadError(
            self.name,
            distribution=self.distribution,
            step=f"importing its command {self.entry.value!r}",
            cause=f"{type(error).__name__}: {error}",
            advice=f"reinstall or remove {self.distribution}",
        )


def installed_commands() -> tuple[Extension, ...]:
    """The commands of other distributions, by name; nothing of them is imported."""
    if not any(_mentions_group(file) for folder in sys.path for file in _entry_point_files(folder)):
        return ()
    import importlib.metadata

    found = (_extension(entry) for entry in importlib.metadata.entry_points(group=GROUP))
    return tuple(sorted(found, key=lambda extension: extension.name))


def _extension(entry: importlib.metadata.EntryPoint) -> Extension:
    if entry.dist is None:
        return Extension(entry=entry, name=entry.name, summary="", distribution="unknown distribution")
    summaries = entry.dist.metadata.get_all("Summary") or [""]
    return Extension(entry, entry.name, summaries[0], f"{entry.dist.name} {entry.dist.version}")


def _entry_point_files(folder: str) -> Iterator[str]:
    # importlib.metadata takes longer to import than all the rest of `memspine --help`; nearly always there is nothing.
    try:
        with os.scandir(folder or ".") as entries:
            for entry in entries:
                if entry.name.endswith((".dist-info", ".egg-info")):
                    yield os.path.join(entry.path, "entry_points.txt")  # noqa: PTH118
    except OSError:
        return


def _mentions_group(file: str) -> bool:
    try:
        with open(file, "rb") as content:  # noqa: PTH123
            return GROUP.encode() in content.read()
    except OSError:
        return False
