"""What the tests share: sources and rerankers opened on a server."""

from __future__ import annotations

import asyncio
from array import array
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import attrs

from memspine.errors import ConfigError
from memspine.model import Problem
from memspine.resources import ProviderContext, SharedResources
from memspine_remote.config import RemoteEmbeddingConfig, RemoteRerankerConfig
from memspine_remote.reranker import open_reranker
from memspine_remote.source import open_source

KEY = "sk-t0p-S3cret-0123456789abcdef"


@attrs.frozen
class Hidden:
    """A credential as the kernel hands it over."""

    value: str = attrs.field(default=KEY, repr=False)

    def reveal(self):
        if not self.value:
            problem = Problem(source="c.toml", line=None, key="api_key", text="the secret's variable 'KEY' is not set")
            raise ConfigError([problem])
        return self.value


@asynccontextmanager
async def context(folder="."):
    """What the kernel gives a provider."""
    async with AsyncExitStack() as stack:
        folder = Path(folder)
        yield ProviderContext("far", config_folder=folder, data_folder=folder, resources=SharedResources(), stack=stack)


# Quick, so that tests of what is tried again need not wait.
QUICK = {"model": "m", "wait_seconds_max": 0.05, "timeout_seconds": 5.0}


@asynccontextmanager
async def source(url, *, folder=".", **options):
    """An embedding source."""
    config = RemoteEmbeddingConfig(**{**QUICK, "base_url": url, **options})
    async with context(folder) as given, open_source(config, given) as opened:
        yield opened


@asynccontextmanager
async def reranker(url, **options):
    """A reranker."""
    config = RemoteRerankerConfig(**{**QUICK, "base_url": url, **options})
    async with context() as given, open_reranker(config, given) as opened:
        yield opened


def embed(url, *texts, role="document", **options):
    """The vectors of texts, from a source that is opened for them."""

    async def go():
        async with source(url, **options) as opened:
            return await opened.embed(list(texts), role=role)

    return asyncio.run(go())


def rows(vectors):
    """Vectors as lists of numbers."""
    return [list(vectors.row(place)) for place in range(len(vectors))]


def floats(numbers):
    """Numbers as float32 rounds them."""
    return list(array("f", numbers))


async def failure(awaitable, kind):
    """The error of this kind that a call raises."""
    try:
        await awaitable
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")
