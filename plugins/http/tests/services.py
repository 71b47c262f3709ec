"""Starting the services of `server.py`, and speaking to them beside the backend."""

from __future__ import annotations

import subprocess
import sys
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import attrs
import httpx

from memspine.errors import ConfigError
from memspine.model import Problem
from memspine.resources import ProviderContext, SharedResources
from memspine_http.backend import open_backend
from memspine_http.config import HttpConfig

KEY = "sk-t0p-S3cret-0123456789abcdef"
# Quick, so that tests of what is tried again need not wait.
QUICK = {"wait_seconds_max": 0.3, "timeout_seconds": 2.0, "allow_local": ("127.0.0.1",)}


@attrs.frozen
class Hidden:
    """A credential as the kernel hands it over."""

    value: str = attrs.field(default=KEY, repr=False)

    def reveal(self):
        if not self.value:
            problem = Problem(source="c.toml", line=None, key="api_key", text="the secret's variable 'KEY' is not set")
            raise ConfigError([problem])
        return self.value


@attrs.define
class Served:
    """A service that runs."""

    port: int
    stores: int = 0

    @property
    def root(self):
        return f"http://127.0.0.1:{self.port}"

    def fresh(self):
        """The URL of a store that nobody has used; no fault is switched on any more."""
        self.stores += 1
        self.break_down()
        return f"{self.root}/base/v{self.stores}"

    def break_down(self, *faults):
        """Switch faults on, and forget what was asked."""
        self._control("POST", {"faults": faults})

    def asked(self):
        """(method, target, headers, body) of each request since then."""
        return [tuple(one) for one in self._control("GET")["log"]]

    def connections(self):
        return self._control("GET")["connections"]

    def _control(self, method, body=None):
        return httpx.request(method, f"{self.root}/control", json=body, timeout=5, trust_env=False).json()


@contextmanager
def serving(*arguments, program="server.py"):
    """A service in a process of its own."""
    command = [sys.executable, str(Path(__file__).with_name(program)), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Served(int(process.stdout.readline()))
        finally:
            process.kill()


@asynccontextmanager
async def backend(url, *, folder=".", **options):
    """A backend, opened on a service."""
    config = HttpConfig(url=url, **{**QUICK, **options})
    async with AsyncExitStack() as stack:
        folder = Path(folder)
        context = ProviderContext(
            "far", config_folder=folder, data_folder=folder, resources=SharedResources(), stack=stack
        )
        yield await stack.enter_async_context(open_backend(config, context))
