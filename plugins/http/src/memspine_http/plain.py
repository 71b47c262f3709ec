"""The calls of the plain protocol: each one request, its answer checked."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import attrs

from memspine.errors import ScopeError
from memspine.model import Memory
from memspine_http.client import Answer, Client, Request
from memspine_http.config import HttpConfig
from memspine_http.failures import RequestError, ShapeError
from memspine_http.presets import ENDPOINTS, NAMES_IN_PATHS, PLACEHOLDER, split_endpoint
from memspine_http.records import Received, bare, count, is_memory, items, own_fields, plain_fields, received

T = TypeVar("T")
Params = Sequence[tuple[str, str | None]]

_ABSENT: Final = frozenset({404, 410})
_READINGS: Final = 4
# Servers take about 8000 bytes in all; what a question has beyond this says little more.
_QUESTION_BYTES_MAX: Final = 5000


class ForeignIdError(Exception):
    """A service has a memory of this id, and it belongs to somebody else."""


class PlainProtocol:
    """The protocol as every service speaks it. Each call raises RequestError."""

    def __init__(self, client: Client, config: HttpConfig) -> None:
        self.client = client
        self._chosen = config.chosen
        self._placeholders = {config.path_names.get(name, name): name for name in NAMES_IN_PATHS}
        self._sends_own_fields = config.sends_own_fields
        self._page_items = config.page_items

    @property
    def has_search(self) -> bool:
        """Whether the service searches; otherwise its memories are looked through here."""
        return bool(self._chosen.endpoints["search"])

    async def health(self) -> None:
        """Ask whether the service works; one without such a question is asked for a memory."""
        if self._chosen.endpoints["health"]:
            await self.ask("health")
        else:
            await self.ask("list", params=[("limit", "1")])

    async def get(self, id: str, *, owner: str) -> Received | None:
        """The memory of this id, expired or not; None when there is none. Raises ForeignIdError."""
        # The owner is sent for services that tell ids apart by it, and checked for those that do not.
        params = [("apiKeyId", owner), ("includeExpired", "true")]
        answer = await self.ask("get", id=id, owner=owner, params=params, told=_ABSENT)
        if not answer.is_success:
            return None
        found = self.read(lambda: received(bare(answer.data)))
        if found.memory.owner != owner:
            raise ForeignIdError
        if found.memory.id != id:
            raise self.client.useless("a memory of another id than the one asked for")
        return found

    async def all(
        self, owner: str | None, *, key: str | None = None, session: str | None = None, type: str | None = None
    ) -> list[Received]:
        """All memories of an owner, or of everyone, expired ones included where the service shows them.

        What limits the list is a hint: the service may ignore it. Others may write in between, so each page overlaps
        the one before it by one memory, and all are read again when it is not the same.
        """
        params = [("apiKeyId", owner), ("sessionId", session or None), ("type", type), ("key", key)]
        for _ in range(_READINGS):
            found = await self._read_pages(owner, params)
            if found is not None:
                return found
        raise RequestError(
            f"the list of {self.client.endpoint.authority} changed each of the {_READINGS} times that it was read",
            advice="try again later",
        )

    async def _read_pages(self, owner: str | None, params: Params) -> list[Received] | None:
        found: dict[tuple[str, str], Received] = {}
        last: tuple[str, str] | None = None
        seen = 0
        limit = self._page_items
        while True:
            start = max(seen - 1, 0)
            size = limit if limit > 1 else 1 + min(seen, 1)
            try:
                page, total = await self._page(owner, params, start=start, limit=size)
            except RequestError as error:
                if not error.is_too_long or limit == 1:
                    raise
                limit //= 2
                continue
            places = [(one.memory.owner, one.memory.id) for one in page]
            if last is not None and (not places or places[0] != last):
                return None
            found |= zip(places, page, strict=True)
            seen = start + len(page)
            if seen >= total:
                return list(found.values()) if len(found) == seen == total else None
            if not page or last == places[-1]:
                raise self.client.useless(f"a list of {seen} memories that should have {total}")
            last = places[-1]

    async def _page(self, owner: str | None, params: Params, *, start: int, limit: int) -> tuple[list[Received], int]:
        order = [("orderBy", "createdAt"), ("orderDir", "asc"), ("includeExpired", "true")]
        where = [("limit", str(limit)), ("offset", str(start))]
        answer = await self.ask("list", owner=owner, params=[*params, *order, *where])
        page = self.read(lambda: [received(item) for item in items(answer.data, "data")])
        self.require_owners((one.memory.owner for one in page), () if owner is None else (owner,))
        return page, self.read(lambda: count(answer.data, "total"))

    async def search(self, text: str, *, owner: str, limit: int) -> list[Memory]:
        """The service's best answers, best first."""
        question = text.encode()[:_QUESTION_BYTES_MAX].decode("utf-8", "ignore")
        while len(urllib.parse.quote(question)) > _QUESTION_BYTES_MAX:
            question = question[: len(question) * 3 // 4]
        params = [("query", question), ("apiKeyId", owner), ("limit", str(limit)), ("includeExpired", "true")]
        answer = await self.ask("search", owner=owner, params=params)
        if not isinstance(answer.data, list):
            raise self.client.useless("an answer to a search that is no list")
        hits = self.read(lambda: [received(item).memory for item in answer.data])
        self.require_owners((hit.owner for hit in hits), (owner,))
        return hits

    async def create(self, memory: Memory) -> Received | None:
        """Store a memory; the answer is what the service stored. None when it holds that there is one already."""
        fields = plain_fields(memory)
        if self._sends_own_fields:
            fields = {"id": memory.id, **fields, **own_fields(memory)}
        answer = await self._write("create", owner=memory.owner, body=fields, told=frozenset({409}))
        if not answer.is_success:
            return None
        stored = bare(answer.data)
        if is_memory(stored):
            found = self.read(lambda: received(stored), writes=True)
            self.require_owners([found.memory.owner], (memory.owner,), writes=True)
            return found
        return await self._read_back(memory)

    async def update(self, memory: Memory, *, fields: Mapping[str, Any]) -> Received | None:
        """Replace fields of a memory; the answer is what the service has now. None when it is not there."""
        answer = await self._write("update", id=memory.id, owner=memory.owner, body=dict(fields), told=_ABSENT)
        if not answer.is_success:
            return None
        stored = bare(answer.data)
        if is_memory(stored):
            found = self.read(lambda: received(stored), writes=True)
            if (found.memory.owner, found.memory.id) == (memory.owner, memory.id):
                return found
            raise self.client.useless("another memory than the one that was written", writes=True)
        return await self._read_back(memory)

    async def _read_back(self, memory: Memory) -> Received:
        """What the service made of a write that it confirmed without showing it."""
        try:
            found = await self.get(memory.id, owner=memory.owner)
        except (RequestError, ForeignIdError):
            found = None
        if found is None:
            raise self.client.useless("no memory in its answer to a write, nor under its id", writes=True)
        return found

    async def delete(self, id: str, *, owner: str) -> bool:
        """Delete a memory; whether it was there."""
        answer = await self._write("delete", id=id, owner=owner, told=_ABSENT)
        return answer.is_success

    # ── what every call is made of ──

    async def _write(
        self,
        call: str,
        *,
        owner: str,
        id: str | None = None,
        body: object = None,
        told: frozenset[int] = frozenset(),
    ) -> Answer:
        params = [] if id is None else [("apiKeyId", owner)]
        request = self._request(call, {"id": id, "owner": owner}, params, body=body, told=told)
        return await self.client.ask(attrs.evolve(request, writes=True, is_repeatable=False))

    async def ask(
        self,
        call: str,
        *,
        id: str | None = None,
        owner: str | None = None,
        params: Params = (),
        body: object = None,
        told: frozenset[int] = frozenset(),
    ) -> Answer:
        """Ask for something; nothing is changed by it."""
        return await self.client.ask(self._request(call, {"id": id, "owner": owner}, params, body=body, told=told))

    async def change(
        self, call: str, body: object, *, id: str | None = None, owner: str | None = None, is_repeatable: bool = False
    ) -> Answer:
        """Have something done."""
        path = {"id": id, "owner": owner}
        request = self._request(call, path, [("apiKeyId", owner)] if id else (), body=body)
        return await self.client.ask(attrs.evolve(request, writes=True, is_repeatable=is_repeatable))

    def _request(
        self,
        call: str,
        values: Mapping[str, str | None],
        params: Params,
        *,
        body: object = None,
        told: frozenset[int] = frozenset(),
    ) -> Request:
        method, template = split_endpoint(self._chosen.endpoints[call], ENDPOINTS[call])

        def fill(match: Any) -> str:
            value = values.get(self._placeholders[match[1]])
            if value is None:
                raise ScopeError(call, "this scope", f"one that names {match[1]!r}: the endpoint has it in its path")
            return _segment(value)

        names = self._chosen.query_names
        named = [(names.get(name, name), value) for name, value in params if value is not None]
        query = urllib.parse.urlencode([pair for pair in named if pair[0]], quote_via=urllib.parse.quote, safe="")
        path = PLACEHOLDER.sub(fill, template)
        return Request(call=call, method=method, path=path, query=query, body=body, told=told)

    def read(self, what: Callable[[], T], *, writes: bool = False) -> T:
        """What an answer holds. Raises RequestError when it cannot be used."""
        try:
            return what()
        except ShapeError as error:
            raise self.client.useless(str(error), writes=writes) from None

    def require_owners(self, found: Iterable[str], asked: Sequence[str], *, writes: bool = False) -> None:
        """Raise RequestError when one of the memories belongs to an owner who was not asked for; none asks for all."""
        if asked and any(owner not in asked for owner in found):
            raise self.client.useless("a memory of another owner than the one asked for; nothing of it is used",
                                      writes=writes)  # fmt: skip


def _segment(text: str) -> str:
    """A text as one segment of a path, whatever it holds; dots as well, or a client would take '..' for a step up."""
    quoted = urllib.parse.quote(text, safe="")
    return quoted.replace(".", "%2E") if set(text) <= {"."} else quoted
