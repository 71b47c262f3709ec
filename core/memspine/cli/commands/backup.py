"""Copy the primary store to a new file, consistent in itself, while the store is in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memspine.cli.codes import InputError
from memspine.cli.files import named_path
from memspine.cli.opening import with_memory

if TYPE_CHECKING:
    import argparse

    from memspine.cli.output import Output
    from memspine.manager import MemoryManager


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("file", metavar="FILE", help="a file that is not there yet")


def run(options: argparse.Namespace, out: Output) -> int:
    """Copy it."""
    target = named_path(options.file).absolute()
    if target.exists():
        raise InputError(f"{options.file}: is there already; name a new file")
    if not target.parent.is_dir():
        raise InputError(f"{options.file}: the folder {target.parent} does not exist; make it first")

    async def work(memory: MemoryManager) -> int:
        await memory.backup(target)
        size = target.stat().st_size
        if out.json:
            out.data({"path": str(target), "bytes": size, "backend": memory.config.primary.name})
        else:
            out.cells(str(target), f"{size} bytes")
        return 0

    return with_memory(options, out, work)
