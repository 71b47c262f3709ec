"""What `memspine doctor` looks at."""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Iterable
from pathlib import Path

from memspine import __version__
from memspine.config import Config
from memspine.errors import PluginError
from memspine.manager import MemoryManager
from memspine.model import Finding, Health, Problem
from memspine.plugins import Plugins

About = tuple[str, Finding]
"""What a finding is about, and the finding."""


def versions(plugins: Plugins) -> dict[str, str]:
    """Python, memspine, and every distribution that brings a plugin."""
    found = {"python": platform.python_version(), "memspine": __version__}
    return found | {e.distribution: e.version for e in plugins.entries() if e.distribution != "memspine"}


def plugin_findings(plugins: Plugins) -> list[About]:
    """The plugins that cannot be used."""
    return [
        (f"plugin {error.plugin}", Finding(level="warning", text=str(error)))
        for error in plugins.load_all()
        if isinstance(error, PluginError)
    ]


def problem_findings(problems: Iterable[Problem]) -> list[About]:
    """What is wrong with the configuration."""
    return [("configuration", Finding(level="error", text=str(problem))) for problem in problems]


def file_findings(config: Config) -> list[About]:
    """Files and folders that others may read or write, or that we may not."""
    found: list[About] = []
    if config.source.path is not None:
        found += _others(config.source.path, writing_only=True)
    folder = config.data_folder
    if folder.is_dir():
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            text, advice = "cannot be read and written by this user", f"chmod u+rwx {folder}"
            found.append((str(folder), Finding(level="error", text=text, advice=advice)))
        else:
            found += _others(folder)
            for path in sorted(folder.iterdir()):
                # A folder that nobody else may enter protects what is in it.
                if path.is_file() and _mode(folder) & 0o077:
                    found += _others(path)
    return found


async def healths(config: Config, plugins: Plugins) -> dict[str, Health]:
    """Every store, looked at in depth."""
    async with MemoryManager(config, plugins=plugins, background=False) as memory:
        return await memory.health(deep=True)


def health_findings(healths: dict[str, Health]) -> list[About]:
    """What the stores found, and those that do not work."""
    found: list[About] = []
    for name, health in healths.items():
        if not health.ok:
            found.append((f"store {name}", Finding(level="error", text=health.detail or "does not work")))
        found += [(f"store {name}", finding) for finding in health.findings]
    return found


def _others(path: Path, *, writing_only: bool = False) -> list[About]:
    if os.name != "posix":
        return []
    mode = _mode(path)
    rights, what = (0o022, "write") if writing_only or mode & 0o022 else (0o077, "read")
    if not mode & rights:
        return []
    advice = f"chmod go-{'w' if writing_only else 'rwx'} {path}"
    return [(str(path), Finding(level="warning", text=f"others may {what} it ({stat.filemode(mode)})", advice=advice))]


def _mode(path: Path) -> int:
    return path.stat().st_mode
