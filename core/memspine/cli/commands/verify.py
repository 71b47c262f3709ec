"""Compare what two backends of the configuration hold: the same ids, at the same revisions, with the same content.

Where one of them keeps no revisions (it lacks the capability `put`), revisions are left out, and a note says so; times
are compared all the same, and told apart from contents. What a backend with ids or times of its own holds is never
equal to what it was copied from: whether all of it is there is what `memspine copy --dry-run` tells.

Exit code 9 when they differ; the first hundred differences are listed. Exit code 4 when neither holds anything of the
owner that was named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memspine.cli.codes import Exit
from memspine.cli.opening import load

if TYPE_CHECKING:
    import argparse

    from memspine.cli.output import Output
    from memspine.copying import VerifyReport


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("first", metavar="A", help="one backend")
    parser.add_argument("second", metavar="B", help="the other one")
    parser.add_argument("--owner", help="only whose memories (default: everyone's)")


def run(options: argparse.Namespace, out: Output) -> int:
    """Compare."""
    import asyncio

    from memspine.copying import opened_backends, verify
    from memspine.plugins import Plugins

    config = load(options, out, Plugins())

    async def work() -> VerifyReport:
        async with opened_backends(config, options.first, options.second) as (first, second):
            return await verify(first, second, owner=options.owner)

    report = asyncio.run(work())
    _answer(report, out)
    if report.different:
        return Exit.PARTIAL
    if options.owner is not None and not report.same:
        places = f"{options.first} and {options.second}"
        out.error(f"{places}: neither holds anything of the owner {options.owner!r}", type="not_found")
        return Exit.NOT_FOUND
    return Exit.OK


def _answer(report: VerifyReport, out: Output) -> None:
    if out.json:
        listed = [{"owner": one.ref.owner, "id": one.ref.id, "what": one.what} for one in report.listed]
        out.data(
            {
                "same": report.same,
                "different": report.different,
                "withoutRevisions": list(report.without_revisions),
                "differences": listed,
            }
        )
        return
    out.table(("what", "memories"), [("same", str(report.same)), ("different", str(report.different))])
    if report.without_revisions:
        names = " and ".join(report.without_revisions)
        out.note(f"revisions were not compared, because {names} does not keep them (capability 'put')")
    for one in report.listed:
        out.error(f"{one.ref.id} of {one.ref.owner}: {one.what}", type="conflict")
