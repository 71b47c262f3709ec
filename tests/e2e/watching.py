"""A plugin that tests install: a source and a store that write down what they are asked, and hand it on to real ones;
and a source without any library.

What is written down are lines of JSON, appended to the file `log`. A file `damage` tells the source what to do to the
answers of the real one.
"""

from __future__ import annotations

import array
import asyncio
import json
import math
import os
import signal
import time
from contextlib import asynccontextmanager
from pathlib import Path

import attrs

from memspine import times
from memspine.contracts import EmbeddingIdentity, Provider, Vectors
from memspine.errors import EmbeddingError
from memspine.hookspecs import hookimpl
from memspine.plugins import Plugins, resolve

HEAD_LENGTH = 24
"""So much of each text is written down: the tests begin their texts with what tells them apart."""


def note(path, **facts):
    """Append a line to a log; lines of several processes do not mix."""
    if path:
        line = json.dumps({"process": os.getpid(), "at": time.monotonic(), **facts}) + "\n"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)


# ── a source that is watched ──


@attrs.frozen(kw_only=True)
class WatchedSourceConfig:
    """The real source and the folder of its model, where to write down what it was asked, how slow it is, and a file
    that says what is wrong with its answers (`DAMAGE`), by role."""

    inner: str = "static"
    model: str | None = None
    log: str = ""
    seconds: float = 0.0
    damage: str = ""


@asynccontextmanager
async def open_source(config, context):
    """The real source, watched."""
    provider = Plugins().embedding_source(config.inner)
    options = {} if config.model is None else {"folder" if config.inner == "static" else "model": config.model}
    async with resolve(provider)(provider.config_type(**options), context) as inner:
        yield WatchedSource(config, inner)


class WatchedSource:
    """Asks the real source, and does to its answers what the file of damage says."""

    def __init__(self, config, inner):
        self.name = inner.name
        self._config = config
        self._inner = inner

    async def identity(self):
        """The real one."""
        return await self._inner.identity()

    async def embed(self, texts, *, role):
        """The real vectors, late and noted."""
        revision = (await self._inner.identity()).revision
        facts = {"role": role, "revision": revision, "texts": [text[:HEAD_LENGTH] for text in texts]}
        note(self._config.log, what="embedding", **facts)
        if self._config.seconds:
            await asyncio.sleep(self._config.seconds)
        vectors = await self._inner.embed(texts, role=role)
        note(self._config.log, what="embedded", **facts)
        return await damaged(vectors, self._damage().get(role, ""), source=self.name)

    async def count_tokens(self, texts):
        """The real counts, or too few of them."""
        counts = await self._inner.count_tokens(texts)
        return counts[:-1] if self._damage().get("counting") else counts

    def _damage(self):
        if not self._config.damage:
            return {}
        return json.loads(Path(self._config.damage).read_text(encoding="utf-8"))


DAMAGE = ("fewer", "more", "nan", "infinite", "zero", "long", "dimension", "bytes", "none", "raises", "exits")
"""What can be wrong with an answer."""


async def damaged(vectors, damage, *, source):
    """An answer with something wrong about it."""
    dimension, data = vectors.dimension, vectors.data
    if damage == "refuses":
        raise EmbeddingError(source, "is switched off", expected="power", kind="transient")
    if damage == "raises":
        raise RuntimeError("the source broke")
    if damage == "exits":
        raise SystemExit(3)
    if damage == "hangs":
        await asyncio.sleep(3600)
    one = 4 * dimension
    unit = array.array("f", [1.0, *[0.0] * dimension]).tobytes()
    answers = {
        "fewer": lambda: Vectors(dimension, data[:-one]),
        "more": lambda: Vectors(dimension, data + data[:one]),
        "nan": lambda: Vectors(dimension, array.array("f", [math.nan]).tobytes() + data[4:]),
        "infinite": lambda: Vectors(dimension, data[:-4] + array.array("f", [math.inf]).tobytes()),
        "zero": lambda: Vectors(dimension, bytes(one) + data[one:]),
        "long": lambda: Vectors(dimension, array.array("f", [2 * x for x in array.array("f", data)]).tobytes()),
        "dimension": lambda: Vectors(dimension + 1, unit * len(vectors)),
        "bytes": lambda: data,
        "none": lambda: None,
    }
    return answers[damage]() if damage in answers else vectors


# ── a source without any library ──


@attrs.frozen(kw_only=True)
class LettersConfig:
    """Which version of it."""

    revision: str = "1"


@asynccontextmanager
async def open_letters(config, context):
    """Nothing needs opening."""
    yield LettersSource(context.name, config.revision)


class LettersSource:
    """Counts letters."""

    def __init__(self, name, revision):
        self.name = name
        self._revision = revision

    async def identity(self):
        """A dimension for each letter and one for everything else."""
        return EmbeddingIdentity(plugin="letters", model="letters", revision=self._revision, dimension=27)

    async def embed(self, texts, *, role):
        """How often a text has each letter."""
        rows = []
        for text in texts:
            counts = [text.lower().count(chr(ord("a") + n)) for n in range(26)] + [1]
            norm = math.hypot(*counts)
            rows.append(array.array("f", [count / norm for count in counts]).tobytes())
        return Vectors(27, b"".join(rows))

    async def count_tokens(self, texts):
        """A token a word."""
        return tuple(len(text.split()) for text in texts)


# ── a store that is watched ──


@attrs.frozen(kw_only=True)
class WatchedStoreConfig:
    """The SQLite file, where to write down what was asked of it, and a file that holds writers up while it is there.

    A writer that is held up makes the file `GATE.reached`; if there is a file `GATE.die`, it is killed once it has
    written.
    """

    path: str
    log: str = ""
    gate: str = ""


@asynccontextmanager
async def open_store(config, context):
    """A SQLite store, watched."""
    provider = Plugins().vector_store("sqlite")
    async with resolve(provider)(provider.config_type(path=config.path), context) as inner:
        yield WatchedStore(config, inner)


class WatchedStore:
    """Hands on every call; notes what is claimed, given back, written and deleted."""

    def __init__(self, config, inner):
        self._config = config
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)

    async def claim(self, space_id, *, holder, now, lease_seconds, limit):
        """Noted once it is done, with the time until which the claim holds."""
        # The lease counts from the caller's `now`, which a busy machine may have taken a while ago.
        began = time.monotonic() - max((times.now() - now).total_seconds(), 0.0)
        found = await self._inner.claim(space_id, holder=holder, now=now, lease_seconds=lease_seconds, limit=limit)
        if found:
            refs = [[work.ref.owner, work.ref.id, work.revision] for work in found]
            note(self._config.log, what="claimed", space=space_id, refs=refs, until=began + lease_seconds)
        return found

    async def postpone(self, space_id, *, refs, holder, until, reason):
        """Noted before it is done: from then on others may claim."""
        named = [[ref.owner, ref.id] for ref in refs]
        note(self._config.log, what="postponed", space=space_id, refs=named, reason=reason)
        await self._inner.postpone(space_id, refs=refs, holder=holder, until=until, reason=reason)

    async def release(self, space_id, *, refs, holder):
        """Noted before it is done, as what is postponed is."""
        named = [[ref.owner, ref.id] for ref in refs]
        note(self._config.log, what="postponed", space=space_id, refs=named, reason="")
        await self._inner.release(space_id, refs=refs, holder=holder)

    async def delete(self, refs):
        """Noted before it is done: it ends claims in every space."""
        note(self._config.log, what="deleted", refs=[[ref.owner, ref.id] for ref in refs])
        await self._inner.delete(refs)

    async def upsert(self, space_id, *, records, holder=None):
        """Noted before and after."""
        refs = [[record.owner, record.id, record.revision] for record in records]
        if self._config.gate:
            await asyncio.to_thread(self._wait_at_the_gate)
        note(self._config.log, what="writing", space=space_id, refs=refs)
        await self._inner.upsert(space_id, records=records, holder=holder)
        note(self._config.log, what="written", space=space_id, refs=refs)
        self._die_if_wanted()

    def _wait_at_the_gate(self):
        gate = Path(self._config.gate)
        while gate.exists():
            Path(f"{gate}.reached").touch()
            time.sleep(0.01)

    def _die_if_wanted(self):
        if self._config.gate and Path(f"{self._config.gate}.die").exists():
            os.kill(os.getpid(), signal.SIGKILL)


@hookimpl
def memspine_embedding_sources():
    """The sources."""
    return [
        Provider(name="watched", config_type=WatchedSourceConfig, open=open_source, summary="watched"),
        Provider(name="letters", config_type=LettersConfig, open=open_letters, summary="letters"),
    ]


@hookimpl
def memspine_vector_stores():
    """The store."""
    return [Provider(name="watched", config_type=WatchedStoreConfig, open=open_store, summary="watched")]
