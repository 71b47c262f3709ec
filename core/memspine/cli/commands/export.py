"""Write memories as lines of JSON, with everything: ids, revisions, times, metadata, history. `import` reads them back.

A file is written whole or not at all, readable by you alone. Without FILE, or with -, the lines go to standard output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memspine.cli import options as shared
from memspine.cli.codes import InputError
from memspine.cli.files import named_path, whole_file
from memspine.cli.opening import with_memory

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator
    from pathlib import Path

    from memspine.cli.output import Output
    from memspine.manager import MemoryManager


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("file", nargs="?", default="-", metavar="FILE", help="the file to write (default -)")
    shared.add_scope(parser, session="only this session; empty for those without one")
    shared.add_everyone(parser)


def run(options: argparse.Namespace, out: Output) -> int:
    """Write them."""
    shared.check_everyone(options)
    target = None if options.file == "-" else named_path(options.file)
    if target is not None and not target.absolute().parent.is_dir():
        raise InputError(f"{options.file}: the folder {target.absolute().parent} does not exist; make it first")

    async def work(memory: MemoryManager) -> int:
        from memspine.transfer import export_records

        lines = export_records(
            memory, owner=options.owner, session=options.session, everyone=options.everyone, management=True
        )
        if target is None:
            async for line in lines:
                out.raw(line.rstrip("\n"))
        else:
            _tell(target, await _write(lines, target, out), out)
        return 0

    return with_memory(options, out, work)


async def _write(lines: AsyncIterator[str], target: Path, out: Output) -> int:
    """How many memories were written: the last line says it."""
    import json

    last = "{}"
    try:
        with whole_file(target) as file:
            number = 0
            async for line in lines:
                number += 1
                last = line
                file.write(line)
                if number % 500 == 0:
                    out.progress(f"{number} memories")
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror or error}") from error
    out.progress("")
    return int(json.loads(last).get("memories", 0))


def _tell(target: Path, count: int, out: Output) -> None:
    if out.json:
        out.data({"path": str(target), "memories": count})
    else:
        out.cells(str(target), f"{count} memories")
