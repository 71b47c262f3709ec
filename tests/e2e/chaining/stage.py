"""Where a chain is tried out: a folder with its configurations, its services, and what is in each store."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import attrs
import httpx

from memspine.blocking import MemoryManager
from memspine.chain import notes

HERE = Path(__file__).parent
GUARD_SECONDS = 300
"""What takes longer hangs."""
DEADLINE_SECONDS = 10
NAMES = {"capable": "team", "plain": "archive"}
TABLES = {
    "retrieval": {"deadline_seconds": 20},
    "embedding": {"source": "none"},
    "vectors": {"enabled": False},
    "maintenance": {"interval_seconds": 5},
}
QUICK = {"allow_local": ["127.0.0.1"], "timeout_seconds": 5, "attempts": 2, "wait_seconds_max": 0.01}


@attrs.define
class Process:
    """A program that can be killed and started again: a module of this folder, and what it is told."""

    arguments: tuple
    process: subprocess.Popen | None = None
    kills: int = 0

    @property
    def runs(self):
        """Whether it has not ended."""
        return self.process is not None and self.process.poll() is None

    def start(self):
        """Start it."""
        module, *told = map(str, self.arguments)
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"{HERE.name}.{module}", *told],
            cwd=HERE.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return self

    def line(self):
        """The next line that it prints."""
        line = self.process.stdout.readline()
        if not line:
            self.ended()
        return line.strip()

    def kill(self):
        """Kill it as `kill -9` does."""
        if self.runs:
            self.kills += 1
            self.process.send_signal(signal.SIGKILL)
        if self.process is not None:
            self.process.communicate(timeout=GUARD_SECONDS)

    def ended(self):
        """What it printed; it has to end well by itself."""
        out, err = self.process.communicate(timeout=GUARD_SECONDS)
        assert self.process.returncode == 0, f"exit code {self.process.returncode}\n{out}\n{err}"
        return out


@attrs.define
class Service(Process):
    """A service of `service.py`, on the same port for as long as it is needed."""

    kind: str = "capable"
    file: Path = Path()
    port: int = 0

    @classmethod
    def of(cls, kind, folder):
        """One that runs."""
        return cls((), kind=kind, file=folder / f"{kind}.jsonl").start()

    def start(self):
        self.arguments = ("service", self.kind, self.file, self.port)
        super().start()
        self.port = int(self.line())
        return self

    @property
    def url(self):
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def control(self, **told):
        """Switch faults, or tolerance for what is indigestible, on or off."""
        told = {"faults": [], **told}
        httpx.post(f"{self.url}/control", json=told, timeout=GUARD_SECONDS, trust_env=False).raise_for_status()

    def puts(self, store):
        """Owner, id, revision, is deletion, had effect: of every record that was put into a store, in order."""
        lines = map(json.loads, self.file.read_text(encoding="utf-8").splitlines())
        return [tuple(effect) for line in lines if line["target"].startswith(f"{store}/") for effect in line["effects"]]


def toml(tables):
    """A configuration as text."""
    lines = []
    for name, table in tables.items():
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items()), ""]
    return "\n".join(lines)


@attrs.define
class Stage:
    """A chain of stores `notes` (sqlite), `team` (capable) and `archive` (plain), in a folder."""

    folder: Path
    services: dict[str, Service]
    store: str = "/store"
    primary: str = ""
    replicas: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    options: dict = attrs.field(factory=dict)

    @classmethod
    @contextmanager
    def set_up(cls, folder, *, kinds=("capable", "plain")):
        """The folder with services that run; in the end they are killed."""
        services = {}
        try:
            for kind in kinds:
                services[NAMES[kind]] = Service.of(kind, folder)
            yield cls(folder, services)
        finally:
            for service in services.values():
                service.kill()

    @classmethod
    def beside(cls, folder, ports, *, number):
        """A folder in this one, and stores of their own in the services that were started for it."""
        own = folder / f"{number}"
        own.mkdir()
        services = {
            NAMES[kind]: Service((), kind=kind, file=folder / f"{kind}.jsonl", port=port)
            for kind, port in ports.items()
        }
        return cls(own, services, store=f"/s{number}")

    def break_primary(self, *, is_down):
        """Let the service that is the primary refuse everything in this stage's store, or work again."""
        if (service := self.services.get(self.primary)) is not None:
            fault = {"kind": "answer", "status": 503, "in": f"{self.store}/"}
            service.control(faults=[fault] if is_down else [])

    @property
    def config(self):
        """The configuration of the chain."""
        return self.folder / "memspine.toml"

    @property
    def log(self):
        """What the driver did."""
        return self.folder / "log.jsonl"

    def backend(self, name):
        """The table of a store."""
        if name == "notes":
            return {"plugin": "sqlite", "path": "notes.db", "busy_timeout_seconds": 4}
        return {"plugin": "http", "url": self.services[name].url + self.store, **QUICK}

    def configure(self, primary, *, replicas=(), others=(), **memory):
        """Write the configuration."""
        self.primary, self.replicas, self.others = primary, replicas, others
        tables = {
            "memory": {
                "primary": primary,
                "fallbacks": [*replicas, *others],
                "deadline_seconds": DEADLINE_SECONDS,
                **memory,
            },
            **TABLES,
        }
        for name in (primary, *replicas, *others):
            tables[f"backends.{name}"] = self.backend(name) | ({"replicate": True} if name in replicas else {})
        self.config.write_text(toml(tables), encoding="utf-8")

    @contextmanager
    def memory(self, **options):
        """A manager of the chain in this process, without background work."""
        with MemoryManager(self.config, **{"background": False, **options}) as memory:
            yield memory

    @contextmanager
    def alone(self, name):
        """A manager of one store, outside the chain."""
        path = self.folder / f"{name}-alone.toml"
        path.write_text(toml({"memory": {"primary": name}, **TABLES, f"backends.{name}": self.backend(name)}))
        with MemoryManager(path, background=False) as memory:
            yield memory

    def command(self, *arguments, codes=(0,)):
        """What a command of memspine says, run as a process of its own."""
        done = subprocess.run(
            [sys.executable, "-m", "memspine", "--config", self.config, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=GUARD_SECONDS,
        )
        assert done.returncode in codes, f"{arguments}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout

    def drain(self, *, provoked=(), in_process=False):
        """Maintain until nothing waits but what the test provoked; what was set aside is tried at once."""
        deadline = time.monotonic() + GUARD_SECONDS
        while True:
            if not in_process:
                self.command("maintain", codes=(0, 9))
            with impatience(), self.memory() as memory:
                memory.maintain(["deliver"])
                entries = [one for one in memory.journal_entries() if (one.owner, one.id) not in provoked]
                assert all(one.state == "pending" for one in entries), entries
                if entries:
                    memory.retry([one.number for one in entries])
                waiting = [*entries, *owed(memory.status())]
            if not waiting:
                return
            assert time.monotonic() < deadline, f"never arrived: {waiting}"
            time.sleep(0.05)


@contextmanager
def impatience():
    """Whoever began a write and has not ended it counts as dead at once: nobody else is at work."""
    seconds, notes.FORGOTTEN_SECONDS = notes.FORGOTTEN_SECONDS, -float(DEADLINE_SECONDS)
    try:
        yield
    finally:
        notes.FORGOTTEN_SECONDS = seconds


def owed(status):
    """What keeps a chain from having everything everywhere, single memories that were set aside apart."""
    replicas = [(one.name, one.replica) for one in status.backends if one.replica is not None]
    found = [one for one in replicas if one[1].stage != "following" or one[1].behind != 0]
    found += [(one.name, one.health) for one in status.backends if not one.health.ok]
    return found + ([status.journal] if status.journal is not None and status.journal.error else [])


def wait_for_lines(path, count, *, seconds):
    """Wait until a log has grown by so many lines, or the time is over."""
    deadline = time.monotonic() + seconds
    path.touch()
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        seen = 0
        while (seen := seen + file.read().count(b"\n")) < count and time.monotonic() < deadline:
            time.sleep(0.005)
