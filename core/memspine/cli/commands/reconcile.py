"""Compare the primary with one of its replicas, and make the replica what the primary is: what it lacks is copied, what
the primary deleted is deleted there.

A memory that others changed in the replica is in conflict, and both sides stay until --take says which of them is
right: the primary's is copied over the other, or the replica's becomes an ordinary change of the primary. Exit code 9
when conflicts are left, or memories that the replica does not take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memspine.cli.codes import Exit
from memspine.cli.opening import with_memory

if TYPE_CHECKING:
    import argparse

    from memspine.cli.output import Output
    from memspine.config import Config
    from memspine.errors import ConfigError
    from memspine.manager import MemoryManager
    from memspine.status import ReconcileReport


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("primary", metavar="A", help="the primary")
    parser.add_argument("replica", metavar="B", help="one of its replicas")
    parser.add_argument("--take", choices=("primary", "replica"), help="whose state of a memory in conflict is right")


def run(options: argparse.Namespace, out: Output) -> int:
    """Compare, and repair."""

    async def work(memory: MemoryManager) -> int:
        _check(memory.config, options.primary, options.replica)
        report = await memory.reconcile(options.replica, take=options.take)
        _answer(report, out)
        return Exit.PARTIAL if report.conflicts or report.refused else Exit.OK

    return with_memory(options, out, work, maintains=False)


def _check(config: Config, primary: str, replica: str) -> None:
    """Raise ConfigError unless these are the primary and a replica of it."""
    known = [backend.name for backend in config.backends]
    replicas = [backend.name for backend in config.fallbacks if backend.replicate]
    for name in (primary, replica):
        if name not in known:
            raise _refused(config, name, f"is no backend of the configuration; there are: {', '.join(known)}")
    if primary != config.primary.name:
        text = f"is not the primary, which is {config.primary.name!r}; name the primary first, then a replica"
        raise _refused(config, primary, text)
    if replica not in replicas:
        advice = "`replicate = true` makes a fallback one"
        text = f"is no replica of {primary!r}; replicas: {', '.join(replicas) or 'none'}; {advice}"
        raise _refused(config, replica, text)


def _refused(config: Config, name: str, text: str) -> ConfigError:
    from memspine.errors import ConfigError
    from memspine.model import Problem

    return ConfigError([Problem(source=config.source.name, line=None, key=f"backends.{name}", text=text)])


def _answer(report: ReconcileReport, out: Output) -> None:
    counts = {name: getattr(report, name) for name in ("copied", "deleted", "settled", "conflicts", "refused")}
    if out.json:
        out.data(counts)
        return
    out.table(("what", "memories"), [(name, str(count)) for name, count in counts.items()])
    if report.conflicts:
        advice = "`memspine journal list` shows them, --take decides"
        out.error(f"{report.conflicts} in conflict, and both sides stay; {advice}", type="conflict")
    if report.refused:
        out.error(f"{report.refused} not taken by the replica; `memspine journal list` says why", type="partial")
