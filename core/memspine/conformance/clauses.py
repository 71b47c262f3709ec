"""The numbered clauses of a contract, and the mark by which a test cites them."""

from __future__ import annotations

import asyncio
import functools
import inspect
import re
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import attrs

from memspine.conformance.subject import Opening
from memspine.contracts import Capability

_CLAUSE: Final = re.compile(r"- \*\*(?P<id>[A-Z]{2}-[0-9]+)\*\* (?P<text>.+)")
_CAPABILITY: Final = re.compile(r"## Capability `(?P<name>[a-z_]+)`")
_CITED: Final = "memspine_clauses"


@attrs.frozen(kw_only=True)
class Clause:
    """One sentence of a contract that a test can prove. `capability` is None for what everybody has to keep."""

    id: str
    text: str
    capability: Capability | None = None


def contract_folder() -> Path:
    """Where the texts of the contracts are: in the wheel beside the kit, in the repository beside the package."""
    here = Path(__file__).resolve().parent
    packed = here / "contract"
    return packed if packed.is_dir() else here.parents[1] / "contract"


def read_clauses(contract: str) -> dict[str, Clause]:
    """The clauses of a contract by id, in the order of its text."""
    clauses: dict[str, Clause] = {}
    capability = None
    for line in (contract_folder() / f"{contract}.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = _CAPABILITY.fullmatch(line)
            capability = Capability(heading["name"]) if heading else None
        elif found := _CLAUSE.fullmatch(line):
            if found["id"] in clauses:
                raise ValueError(f"{contract}.md has two clauses {found['id']}")
            clauses[found["id"]] = Clause(id=found["id"], text=found["text"], capability=capability)
    return clauses


def clause(*ids: str) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Cite the clauses that a test proves.

    A test that is a coroutine function is run in an event loop of its own, in which the plugin under test is opened
    before it and closed after it, all in one task.
    """

    def cite(test: Callable[..., Any]) -> Callable[..., None]:
        run = _in_a_loop(test) if inspect.iscoroutinefunction(test) else test
        setattr(run, _CITED, ids)
        return run

    return cite


def cited_clauses(test: object) -> tuple[str, ...]:
    """The clauses that a test cites; none for what is no test of the kit."""
    ids: tuple[str, ...] = getattr(test, _CITED, ())
    return ids


def _in_a_loop(test: Callable[..., Any]) -> Callable[..., None]:
    async def opened(arguments: dict[str, Any]) -> None:
        async with AsyncExitStack() as stack:
            for name, value in arguments.items():
                if isinstance(value, Opening):
                    arguments[name] = await stack.enter_async_context(value.open())
            await test(**arguments)

    @functools.wraps(test)
    def run(**arguments: Any) -> None:
        asyncio.run(opened(arguments))

    return run
