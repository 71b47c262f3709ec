"""Count the memories, in all and by type and session, and tell about the stores that hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memspine.cli import options as shared
from memspine.cli.opening import with_memory

if TYPE_CHECKING:
    import argparse

    from memspine.cli.output import Output
    from memspine.manager import MemoryManager
    from memspine.model import Counts, Health

_WIRE: Final = {"type": "byType", "session": "bySession", "owner": "byOwner"}


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    shared.add_filter(parser)
    shared.add_scope(parser, session="only this session; empty for those without one")
    shared.add_shared(parser)
    shared.add_everyone(parser)


def run(options: argparse.Namespace, out: Output) -> int:
    """Count them."""
    shared.check_everyone(options)
    filter = shared.chosen_filter(options)

    async def work(memory: MemoryManager) -> int:
        counts: dict[str, Counts] = {}
        for by in ("type", "session", *(("owner",) if options.everyone else ())):
            counts[by] = await memory.count(
                filter,
                by=by,
                owner=options.owner,
                session=options.session,
                shared=options.shared,
                everyone=options.everyone,
                management=True,
            )
        healths = await memory.health()
        _answer(counts, healths, out)
        return 0

    return with_memory(options, out, work)


def _answer(counts: dict[str, Counts], healths: dict[str, Health], out: Output) -> None:
    total = counts["type"].total
    if out.json:
        from memspine.cli.healths import health_to_wire

        data: dict[str, Any] = {"total": total}
        data |= {_WIRE[by]: dict(count.groups) for by, count in counts.items()}
        data["degraded"] = list(counts["type"].degraded)
        out.data({**data, "backends": {name: health_to_wire(health) for name, health in healths.items()}})
        return
    from memspine.cli.render import tell_degraded

    tell_degraded(counts["type"].degraded, out)
    rows = [("total", "-", str(total))]
    rows += [(by, name or "-", str(n)) for by, count in counts.items() for name, n in sorted(count.groups.items())]
    for name, health in healths.items():
        said = "ok" if health.ok else "not ok"
        rows.append(("backend", name, f"{said}: {health.detail}" if health.detail else said))
        rows += [(f"backend {name}", fact, value) for fact, value in health.facts.items()]
    out.table(("what", "name", "value"), rows)
