"""What `memspine doctor` looks at."""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import attrs

from memspine import __version__
from memspine.cli import engines
from memspine.config import Config
from memspine.engine import EmbeddingEngine, EngineStatus
from memspine.errors import MemspineError, PluginError
from memspine.indexing import Progress
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


@attrs.frozen(kw_only=True)
class Look:
    """The health of every store, what finds memories (None when that could not be seen), and how many there are."""

    healths: Mapping[str, Health]
    engine: EngineStatus | None = None
    trouble: str = ""
    memories: int = 0

    @property
    def works(self) -> bool:
        """Whether every store does its work."""
        if self.engine is None:
            return False
        vectors = self.engine.vectors
        return all(health.ok for health in self.healths.values()) and (
            vectors.is_available or vectors.store == engines.NONE
        )


async def look(config: Config, plugins: Plugins) -> Look:
    """Look at every store in depth, and ask the embedding source for a vector. Raises ConfigError."""
    async with MemoryManager(config, plugins=plugins, background=False) as memory:
        healths = await memory.health(deep=True)
        try:
            engine = await memory.engine(probe=True)
            total = (await memory.count(everyone=True, management=True)).total
        except MemspineError as error:
            return Look(healths=healths, trouble=str(error))
    return Look(healths=healths, engine=engine, memories=total)


def engine_findings(look: Look) -> list[About]:
    """Why there is no search by meaning, or what keeps it from being whole."""
    status = look.engine
    if status is None:
        return [("engine", Finding(level="error", text=look.trouble))]
    vectors = status.vectors
    if vectors.store == engines.NONE:
        return [("vectors", Finding(level="info", text=vectors.reason))]
    found = _source_findings(status.embedding)
    if not vectors.is_available:
        return [*found, (f"vectors {vectors.store}", Finding(level="error", text=vectors.reason))]
    return [*found, *_space_findings(status, memories=look.memories)]


def _source_findings(embedding: EmbeddingEngine) -> list[About]:
    if not embedding.trouble:
        return []
    advice = "until it works, the keyword index answers alone"
    if embedding.fallback:
        advice = f"until it works, {embedding.fallback} stands in for it"
    return [(f"embedding {embedding.source}", Finding(level="warning", text=embedding.trouble, advice=advice))]


def _space_findings(status: EngineStatus, *, memories: int) -> list[About]:
    found: list[About] = []
    model, wanted, answering = status.embedding.model, engines.wanted(status), engines.answering(status)
    if model and wanted is None and memories:
        text, advice = "no memory has a vector of the configured model yet", "memspine reindex"
        found.append((f"space {model}", Finding(level="info", text=text, advice=advice)))
    for progress in (answering, None if wanted is answering else wanted):
        found += [] if progress is None else _progress_findings(progress)
    return found


def _progress_findings(progress: Progress) -> list[About]:
    about = f"space {progress.space.identity.model}"
    found: list[About] = []
    if progress.failing:
        text = f"{progress.failing} memories cannot be embedded, the last of them because of: {progress.reason}"
        found.append((about, Finding(level="warning", text=text, advice="they are tried again from time to time")))
    if progress.waiting:
        # One that was complete once only lags behind what was just written, which the next search makes up for.
        level: Literal["info", "warning"] = "info" if progress.space.complete else "warning"
        text = f"{progress.waiting} of {progress.total} memories have no vector yet"
        found.append((about, Finding(level=level, text=text, advice="memspine reindex")))
    return found


def health_findings(healths: Mapping[str, Health]) -> list[About]:
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
