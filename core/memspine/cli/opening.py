"""The manager of one command: opened for it, looked after once the answer is out, closed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from memspine.cli.output import Output

if TYPE_CHECKING:
    import argparse

    from memspine.config import Config
    from memspine.manager import MemoryManager
    from memspine.plugins import Plugins


def with_memory(
    options: argparse.Namespace, out: Output, work: Callable[[MemoryManager], Awaitable[int]], *, maintains: bool = True
) -> int:
    """The exit code of `work`, done with a manager of the configuration that the options name."""
    import asyncio

    from memspine.plugins import Plugins

    plugins = Plugins()
    config = load(options, out, plugins)
    return asyncio.run(_with_memory(config, plugins, out, work, maintains=maintains and options.maintenance))


def load(options: argparse.Namespace, out: Output, plugins: Plugins) -> Config:
    """The configuration that the options name; what a person should know about the choice is noted."""
    from memspine.config import load_config

    config = load_config(options.config, plugins=plugins)
    for note in config.source.notes:
        out.note(note)
    return config


async def _with_memory(
    config: Config,
    plugins: Plugins,
    out: Output,
    work: Callable[[MemoryManager], Awaitable[int]],
    *,
    maintains: bool,
) -> int:
    from memspine.manager import MemoryManager

    async with MemoryManager(config, plugins=plugins, background=False) as memory:
        code = await work(memory)
        out.flush()  # nobody waits for what follows
        if maintains:
            await _maintain(memory)
    return code


async def _maintain(memory: MemoryManager) -> None:
    from memspine.errors import MemspineError

    settings = memory.config.maintenance
    if settings.enabled and settings.budget_ms:
        try:
            # Loading a model would take longer than that, so only one that the command has used goes on.
            await memory.maintain(budget_seconds=settings.budget_ms / 1000, only_loaded=True)
        except MemspineError:
            # The command has succeeded, and `memspine doctor` and `memspine maintain` tell about this.
            return
