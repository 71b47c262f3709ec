"""Take in files: exports of memspine, lines of JSON, conversations, Markdown, plain text, exports of other products.

What cannot go in is reported with the number of its line, the rest goes in (exit code 9). Importing the same file again
changes nothing. What names its owner keeps it unless --owner names one. Where there is an embedding source, what went
in is embedded before the command ends. Other products need an importer: `memspine plugins` lists those that there are.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from memspine.cli import options as shared
from memspine.cli.codes import Exit, InputError
from memspine.cli.opening import with_memory

if TYPE_CHECKING:
    import argparse

    from memspine.cli.indexing import Indexed
    from memspine.cli.output import Output
    from memspine.cli.sources import Source
    from memspine.manager import MemoryManager
    from memspine.transfer import ImportReport

_COUNTS: Final = ("stored", "replaced", "unchanged", "stale", "bad_total")
_TOTALS: Final = ("stored", "replaced", "unchanged", "stale", "waiting", "bad_total")
_COLUMNS: Final = ("file", "stored", "replaced", "unchanged", "older", "bad")


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="a file, a folder, or - for standard input")
    parser.add_argument(
        "--format",
        help="jsonl, conversations, markdown, text, or an importer's name (default: by the file's name and beginning)",
    )
    parser.add_argument("--no-index", action="store_true", help="embed nothing now; `memspine reindex` does it later")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    shared.add_scope(parser, session="the session of memories that name none (default: `[memory] session`)")


def run(options: argparse.Namespace, out: Output) -> int:
    """Take them in."""
    import contextlib

    from memspine.cli.sources import open_sources

    with contextlib.ExitStack() as stack:
        sources = open_sources(options.files, stack, format=options.format)
        return with_memory(options, out, lambda memory: _import(memory, sources, options, out))


async def _import(memory: MemoryManager, sources: list[Source], options: argparse.Namespace, out: Output) -> int:
    import attrs

    from memspine.transfer import import_items

    reports: list[tuple[str, ImportReport]] = []
    for source in sources:
        name = source.name
        try:
            report = await import_items(
                memory,
                source.items(owner=options.owner or memory.config.memory.owner, keep_owners=options.owner is None),
                owner=options.owner,
                session=options.session,
                management=True,
                dry_run=options.dry_run,
                on_progress=functools.partial(_tell_progress, name, out),
            )
        except OSError as error:  # stores raise errors of ours, so it is the file
            raise InputError(f"{name}: cannot be read: {error.strerror or error}") from error
        report = attrs.evolve(report, notes=(*source.notes(), *report.notes))
        out.progress("")
        _tell_bad(name, report, out)
        reports.append((name, report))
    if not out.json:
        _tell(reports, out, dry_run=options.dry_run)
    # What went in is told first: embedding it may take long, and is given up without loss.
    indexed = None
    try:
        if any(report.stored or report.replaced for _, report in reports) and not (options.dry_run or options.no_index):
            indexed = await _index(memory, out)
    finally:
        if out.json:
            out.data(_data(reports, indexed, dry_run=options.dry_run))
    return Exit.PARTIAL if any(report.bad_total for _, report in reports) else Exit.OK


def _tell_progress(name: str, out: Output, done: int) -> None:
    out.progress(f"{name}: {done} memories")


def _tell_bad(name: str, report: ImportReport, out: Output) -> None:
    if out.json:
        return
    for bad in report.bad:
        out.error(f"{name}:{bad.line}: {bad.reason}", type="invalid")
    if report.bad_total > len(report.bad):
        out.error(f"{name}: and {report.bad_total - len(report.bad)} more lines that did not go in", type="invalid")
    if report.waiting:
        out.note(f"{name}: {report.waiting} wait for the primary; `memspine journal list` names them")
    for note in report.notes:
        out.note(f"{name}: {note}")


def _tell(reports: list[tuple[str, ImportReport]], out: Output, *, dry_run: bool) -> None:
    rows = [(name, *(str(getattr(report, count)) for count in _COUNTS)) for name, report in reports]
    out.table(_COLUMNS, rows)
    if dry_run:
        out.remark("nothing was stored: this was a dry run")
    out.flush()


async def _index(memory: MemoryManager, out: Output) -> Indexed | None:
    from memspine.cli.indexing import index_imported

    indexed = await index_imported(memory, out)
    if indexed is not None and indexed.report.embedded:
        out.remark(f"{indexed.report.embedded} memories embedded")
    return indexed


def _data(reports: list[tuple[str, ImportReport]], indexed: Indexed | None, *, dry_run: bool) -> dict[str, Any]:
    from memspine.cli.indexing import indexed_to_wire

    totals = {count: sum(getattr(report, count) for _, report in reports) for count in _TOTALS}
    totals["bad"] = totals.pop("bad_total")
    return {
        **totals,
        "dryRun": dry_run,
        "index": None if indexed is None else indexed_to_wire(indexed),
        "files": [_file_data(name, report) for name, report in reports],
    }


def _file_data(name: str, report: ImportReport) -> dict[str, Any]:
    return {
        "file": name,
        "stored": report.stored,
        "replaced": report.replaced,
        "unchanged": report.unchanged,
        "stale": report.stale,
        "waiting": report.waiting,
        "conflicts": report.conflicts,
        "badTotal": report.bad_total,
        "bad": [{"line": bad.line, "reason": bad.reason} for bad in report.bad],
        "notes": list(report.notes),
    }
