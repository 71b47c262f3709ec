"""Copying between SQLite files and memory services that run as processes of their own."""

import asyncio
import json
import random
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs
import pytest

from memspine import times
from memspine.cli.codes import Exit
from memspine.config import load_config
from memspine.copying import opened_backends
from memspine.model import MemoryChanges, MemoryFilter, NewMemory, Scope
from memspine.plugins import Plugins

SERVER = Path(__file__).parents[2] / "plugins" / "http" / "tests" / "server.py"
START = datetime(2026, 1, 1, tzinfo=UTC)
OWNERS = ("ann", "bob the second")
ODD = (".", "..", "...", ":", "a.b", "a:b", "-", "_", "..:..", "A" * 128)
LOST_TO_PLAIN = ["revisions", "history", "telemetry", "vectors"]
GUARD_SECONDS = 120


@contextmanager
def serving(kind):
    """A memory service; its port."""
    with subprocess.Popen([sys.executable, str(SERVER), kind], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


@attrs.frozen
class Places:
    """A configuration with two SQLite files and one service."""

    folder: Path
    port: int

    @classmethod
    def made(cls, folder, port, *, preset="memspine"):
        far = f'plugin = "http"\nurl = "http://127.0.0.1:{port}/base"\nallow_local = ["127.0.0.1"]\npreset = "{preset}"'
        files = [f'[backends.{name}]\nplugin = "sqlite"\npath = "{name}.db"' for name in ("here", "back")]
        text = "\n".join(['[memory]\nprimary = "here"', *files, f"[backends.far]\n{far}\nwait_seconds_max = 0.1\n"])
        (folder / "settings.toml").write_text(text)
        return cls(folder, port)

    @classmethod
    def filled(cls, folder, port, store, **options):
        """With a copy of a store that is there."""
        shutil.copy(store, folder / "here.db")
        return cls.made(folder, port, **options)

    def command(self, *arguments):
        return [sys.executable, "-m", "memspine", "--config", str(self.folder / "settings.toml"), *map(str, arguments)]

    def run(self, *arguments, code=Exit.OK):
        """The answer of a command as JSON."""
        command = self.command(*arguments, "--json")
        done = subprocess.run(command, capture_output=True, text=True, timeout=GUARD_SECONDS, check=False)
        assert done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)

    def copy(self, source, target, *arguments, code=Exit.OK):
        return self.run("copy", "--from", source, "--to", target, *arguments, code=code)

    def kill_at(self, text, *arguments, fault):
        """Kill a command when the service has got a write that holds a text, and hangs before or after doing it;
        whether it was killed before it ended."""
        self.break_down({"kind": fault, "holds": text})
        with subprocess.Popen(self.command(*arguments), stdout=subprocess.DEVNULL) as process:
            ends = time.monotonic() + GUARD_SECONDS
            while not any(text in json.dumps(body) for _, _, _, body in self.control()["log"]):
                if process.poll() is not None:
                    return False
                assert time.monotonic() < ends
                time.sleep(0.02)
            time.sleep(0.1)
            process.kill()
        self.break_down()
        return process.returncode == -signal.SIGKILL

    def break_down(self, *faults):
        """Switch faults of the service on."""
        self.control({"faults": faults})

    def control(self, body=None):
        """What the service says of itself, or is told to be."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/control", data=data)
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            return json.loads(answer.read())

    def work(self, name, function):
        """What a function of one backend gives."""

        async def work():
            config = load_config(self.folder / "settings.toml", plugins=Plugins())
            async with opened_backends(config, name) as (chain,):
                return await function(await chain.primary.opened())

        return asyncio.run(work())


async def fill(backend, *, count=500):
    """Memories of two owners with all that a memory can have: keys, sessions, expiries, revisions, recalls, odd ids;
    some deleted, some created again."""
    chance = random.Random(4)  # noqa: S311 - the same memories each time
    for number in range(count):
        scope, now = Scope.of_owner(OWNERS[number % 2]), START + timedelta(minutes=number)
        id = ODD[number // 2] if number // 2 < len(ODD) else f"m{number}"
        new = NewMemory(
            content=f"memory {number} — žluťoučký 猫\r\n",
            session=chance.choice(["", "s", "t:1"]),
            key=f"k{number}" if number % 3 == 0 else "",
            metadata={"n": number, "real": 1.0, "deep": [{"a": None}]},
            expires_at=START.replace(year=2090) if number % 5 == 0 else None,
            created_at=now - timedelta(days=number % 7),
        )
        await backend.create(new, scope=scope, id=id, now=now)
        for turn in range(chance.randrange(3)):
            now += timedelta(seconds=1)
            await backend.update(id, MemoryChanges(content=f"memory {number}, turn {turn}"), scope=scope, now=now)
        await backend.record_access({id: number % 4}, scope=scope, now=now) if number % 4 else None
        if number % 6 == 0:
            await backend.delete(id, scope=scope, now=now + timedelta(seconds=1))
        if number % 12 == 0:
            await backend.create(new, scope=scope, id=id, now=now + timedelta(seconds=2))


async def all_of(backend):
    """Whatever a store tells of its memories: as they are, as they were, and of those that are gone."""
    ids = [*ODD, *(f"m{number}" for number in range(500))]
    page = await backend.list(MemoryFilter(), scope=Scope.everyone(), now=times.now(), limit=10_000)
    scopes = [Scope.of_owner(owner) for owner in OWNERS]
    states = {(scope.owner, id): await backend.history(id, scope=scope) for scope in scopes for id in ids}
    return page.memories, states, [await backend.tombstones(ids, scope=scope) for scope in scopes]


async def contents(backend):
    """What each owner has been told, in order."""
    page = await backend.list(MemoryFilter(), scope=Scope.everyone(), now=times.now(), limit=10_000)
    return sorted((memory.owner, memory.key, memory.session, memory.content) for memory in page.memories)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A SQLite file with memories of every kind."""
    places = Places.made(tmp_path_factory.mktemp("filled"), 1)
    places.work("here", fill)
    return places.folder / "here.db"


def test_there_and_back_nothing_changes(tmp_path, store):
    """What goes from SQLite to a capable service and back into SQLite is identical: ids, revisions, times, metadata,
    recalls, all states and tombstones; verify proves it from both sides, and a second copy finds nothing to do."""
    with serving("capable") as port:
        places = Places.filled(tmp_path, port, store)
        there, back = places.copy("here", "far"), places.copy("far", "back")
        assert there["copied"] == back["copied"]
        assert [loss["what"] for loss in (*there["losses"], *back["losses"])] == ["vectors", "vectors"]
        for one, other in (("here", "far"), ("far", "here"), ("here", "back"), ("back", "here")):
            verified = places.run("verify", one, other)
            assert (verified["same"], verified["different"]) == (there["copied"], 0)
            assert verified["withoutRevisions"] == []
        memories, states, stones = places.work("here", all_of)
        assert places.work("back", all_of) == (memories, states, stones)
        assert places.work("far", all_of) == (memories, states, stones)
        assert len(memories) == there["copied"] > 400
        assert sum(map(len, stones)) > 30
        again = places.copy("here", "far")
        assert (again["copied"], again["unchanged"], again["deleted"]) == (0, there["copied"], 0)


@pytest.mark.parametrize(
    ("kind", "preset", "lost"),
    [("plain", "memspine", LOST_TO_PLAIN), ("forgetful", "generic", ["ids", *LOST_TO_PLAIN])],
)
def test_what_a_plain_service_does_not_keep(tmp_path, store, kind, preset, lost):
    """The report of a copy into a plain service lists exactly what it does not keep, foreseen by a dry run; all that it
    does keep is there, and again is found by the next copy."""
    with serving(kind) as port:
        places = Places.filled(tmp_path, port, store, preset=preset)
        foreseen, report = places.copy("here", "far", "--dry-run"), places.copy("here", "far")
        assert [loss["what"] for loss in report["losses"]] == lost
        assert foreseen["losses"] == report["losses"]
        assert foreseen["copied"] == report["copied"]
        assert report["renamed"] == len(report["ids"]) == (report["copied"] if "ids" in lost else 0)
        assert places.work("far", contents) == places.work("here", contents)
        again = places.copy("here", "far")
        assert (again["copied"], again["unchanged"]) == (0, report["copied"])
        assert again["ids"] == report["ids"]


@pytest.mark.parametrize(("kind", "preset"), [("capable", "memspine"), ("plain", "memspine"), ("forgetful", "generic")])
def test_a_copy_that_is_killed_again_and_again_loses_nothing(tmp_path, store, kind, preset):
    """However often a copy is killed, before a memory is stored or before it hears of it, the same command ends with
    everything copied once, and an id map that names each memory and each id once."""
    with serving(kind) as port:
        places, id_map = Places.filled(tmp_path, port, store, preset=preset), tmp_path / "ids.jsonl"
        copy = ("copy", "--from", "here", "--to", "far", "--id-map", id_map)
        memories, _, _ = places.work("here", all_of)
        owners = list(dict.fromkeys(memory.owner for memory in memories))
        # Of a page, one owner's memories are written before those of another.
        order = [memory.metadata["n"] for owner in owners for memory in memories if memory.owner == owner]
        moments = ((0, "hang"), (60, "late"), (200, "hang"), (330, "late"), (440, "hang"))
        kills = [places.kill_at(f'"n": {order[place]},', *copy, fault=fault) for place, fault in moments]
        # A service that takes whole records gets few requests, so some of those memories were there before.
        assert sum(kills) >= (2 if kind == "capable" else 5)
        report = places.copy("here", "far", "--id-map", id_map)
        assert report["unchanged"] > 0
        assert report["conflicts"] == report["refused"] == 0
        assert places.work("far", contents) == places.work("here", contents)
        if kind == "capable":
            assert places.run("verify", "here", "far")["different"] == 0
            assert places.work("far", all_of) == places.work("here", all_of)
        _, *lines = map(json.loads, id_map.read_text().splitlines())
        assert len({(line["owner"], line["id"]) for line in lines}) == len(lines) == report["renamed"]
        assert len({(line["owner"], line["target_id"]) for line in lines}) == len(lines)
        assert bool(lines) == (preset == "generic")


@pytest.mark.parametrize(("kind", "preset"), [("capable", "memspine"), ("plain", "memspine"), ("forgetful", "generic")])
def test_what_a_service_refuses_stops_nothing_else(tmp_path, store, kind, preset):
    """A memory that is too long for a service is reported with the reason, exit code 9, and all others are there."""
    with serving(kind) as port:
        places = Places.filled(tmp_path, port, store, preset=preset)
        places.break_down({"kind": "answer", "status": 413, "holds": "far too long"})
        scope, now = Scope.of_owner(OWNERS[1]), START + timedelta(days=9)
        changes = MemoryChanges(content="memory 7, far too long")
        places.work("here", lambda backend: backend.update("...", changes, scope=scope, now=now))
        report = places.copy("here", "far", code=Exit.PARTIAL)
        assert [one["id"] for one in report["refusals"]] == ["..."]
        assert "HTTP 413" in report["refusals"][0]["reason"]
        here, far = places.work("here", contents), places.work("far", contents)
        assert far == [one for one in here if one[3] != "memory 7, far too long"]
        assert report["copied"] == len(far)


def test_a_lost_answer_doubles_nothing(tmp_path, store):
    """When a service that mints ids stores a memory and its answer is lost, the copy finds it there and goes on."""
    with serving("forgetful") as port:
        places = Places.filled(tmp_path, port, store, preset="generic")
        places.break_down({"kind": "lost", "method": "POST", "holds": "memory 9", "times": 1})
        report = places.copy("here", "far")
        assert (report["refused"], report["conflicts"]) == (0, 0)
        assert places.work("far", contents) == places.work("here", contents)


def test_a_service_that_goes_away_ends_the_copy(tmp_path, store):
    """A service that is gone in the middle ends the copy with its error, exit code 7; nothing counts as refused."""
    with serving("capable") as port:
        places = Places.filled(tmp_path, port, store)
        places.break_down(
            {"kind": "answer", "status": 503, "method": "PUT"}, {"kind": "answer", "status": 503, "in": "health"}
        )
        command = places.command("copy", "--from", "here", "--to", "far")
        done = subprocess.run(command, capture_output=True, text=True, timeout=GUARD_SECONDS, check=False)
        assert done.returncode == Exit.UNAVAILABLE, done.stderr
        assert "HTTP 503" in done.stderr
