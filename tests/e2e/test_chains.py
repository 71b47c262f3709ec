"""Chains of three processes, each of them killed and started again at any moment: what was acknowledged arrives
everywhere, once, in order, and what was deleted stays deleted."""

from __future__ import annotations

import json
import os
import time

import attrs
import pytest

from .chaining.belief import Belief
from .chaining.faultpoints import STORIES
from .chaining.judging import findings, out_of_order, sent_twice, twice
from .chaining.stage import Process, Stage, wait_for_lines
from .chaining.writing import ARCHIVED, chances

FEW, MANY = (int(os.environ.get("MEMSPINE_TEST_MEMORIES", count)) for count in ("160", "5000"))
"""How many memories are made by two owners: many take minutes."""
SEED = os.environ.get("MEMSPINE_TEST_SEED", "1")
OWNERS = ("ann", "ben")
POINTS_MIN = 60
"""With fewer, some steps are not seen."""
EVENTS = 24
"""About how often something is killed."""


@attrs.frozen
class Topology:
    """Who is what in a chain."""

    primary: str
    replicas: tuple[str, ...]
    others: tuple[str, ...] = ()
    memory: dict = attrs.field(factory=dict)
    memories: int = FEW


TOPOLOGIES = {
    "sqlite first": Topology("notes", ("team",), ("archive",), memories=MANY),
    "capable service first": Topology("team", ("notes",), ("archive",), {"on_write_failure": "spool"}),
    "plain service first": Topology("archive", ("notes", "team")),
}


@pytest.fixture
def stage(tmp_path):
    """A folder with both services."""
    with Stage.set_up(tmp_path) as stage:
        yield stage


def fill_archive(stage):
    """Put what the archive has on its own: ids that the chain will make and delete, too."""
    with stage.alone("archive") as memory:
        for owner in OWNERS:
            for number in range(ARCHIVED):
                id = f"{owner}-{number}"
                memory.create(f"archived walnut {id}", id=id, owner=owner, management=True)


def provoke(stage):
    """Make a memory of each owner conflict with the first replica, and one that it does not digest."""
    provoked = set()
    with stage.memory() as memory:
        for owner in OWNERS:
            memory.create(f"{owner} once", id="torn", owner=owner, management=True)
    stage.drain()
    with stage.alone(stage.replicas[0]) as memory:
        for owner in OWNERS:
            memory.update("torn", content=f"{owner} by hand", owner=owner, management=True)
    with stage.memory() as memory:
        for owner in OWNERS:
            memory.update("torn", content=f"{owner} twice", owner=owner, management=True)
            provoked.add((owner, "torn"))
        if "team" in stage.replicas:
            memory.create("indigestible", id="stone", owner=OWNERS[0], management=True)
            provoked.add((OWNERS[0], "stone"))
    return provoked


def torment(stage, luck, *, memories):
    """Kill and start again the driver and both services, until the driver has done its work; then all run."""
    driver = Process(("driver", stage.config, stage.log, memories, SEED)).start()
    while driver.runs:
        wait_for_lines(stage.log, luck.randint(1, memories * 8 // EVENTS), seconds=1)
        for service in stage.services.values():
            if not service.runs and luck.random() < 0.6:
                service.start()
        running = [service for service in stage.services.values() if service.runs]
        victim = luck.choice([driver, *running, None])
        if victim is None or not driver.runs:
            continue
        victim.kill()
        if victim is driver:
            driver.start()
    for service in stage.services.values():
        if not service.runs:
            service.start()
    driver.ended()
    print({name: one.kills for name, one in {"driver": driver, **stage.services}.items()}, "times killed")


@pytest.mark.parametrize("kind", TOPOLOGIES)
def test_whoever_is_killed_nothing_is_lost(stage, kind):
    """Once all are up and drained, every acknowledged write is in the primary and in every replica, except what the
    test put into conflict or made indigestible; nothing that was deleted comes back; nobody sees what is another's."""
    topology = TOPOLOGIES[kind]
    fill_archive(stage) if topology.primary != "archive" else None
    stage.configure(topology.primary, replicas=topology.replicas, others=topology.others, **topology.memory)
    provoked = provoke(stage)
    torment(stage, chances(SEED, kind), memories=topology.memories)
    belief = Belief.read(stage.log)
    print(f"{kind}: {belief.lines} lines, {dict(belief.outcomes)}")
    assert belief.faults == []
    assert sum(belief.promised.values()) >= topology.memories
    stage.drain(provoked=provoked)
    with stage.memory() as memory:
        entries = memory.journal_entries()
    assert {(one.owner, one.id) for one in entries} == provoked, entries
    assert all(one.state == "conflict" for one in entries if one.id == "torn"), entries
    assert findings(stage, belief, aside=provoked) == []
    puts = stage.services["team"].puts(stage.store)
    assert twice(puts) == []
    settle(stage)
    assert findings(stage, belief) == []
    if topology.primary != "archive":  # which begins anew with the revisions of what is made again
        for replica in stage.replicas:
            stage.command("verify", stage.primary, replica)


def settle(stage):
    """Take away what the test provoked: the primary is right, and everything is digested."""
    stage.services["team"].control(tolerant=True)
    with stage.memory() as memory:
        memory.retry()
        for replica in stage.replicas:
            memory.reconcile(replica, take="primary")
    stage.drain()
    with stage.memory() as memory:
        assert memory.journal_entries() == ()


def write_much(stage):
    """Make, change and delete memories without delivering anything."""
    with stage.memory() as memory:
        for owner in OWNERS:
            for number in range(FEW // 2):
                id = f"{owner}-early-{number}"
                memory.create(f"{owner} has {id} walnut", id=id, owner=owner, management=True)
                if number % 3 == 0:
                    memory.update(id, content=f"{owner} has {id} walnut again", owner=owner, management=True)
                if number % 7 == 0:
                    memory.delete(id, owner=owner, management=True)


DELIVERING = [("notes", ("team",)), ("archive", ("team",))]


@pytest.mark.parametrize(("primary", "replicas"), DELIVERING, ids=["feed", "no feed"])
def test_two_processes_deliver_each_state_once(stage, primary, replicas):
    """Of two processes that deliver for one chain at the same time, no state is sent twice, nor behind a later one of
    its memory."""
    stage.configure(primary, replicas=replicas)
    write_much(stage)
    both = [Process(("deliverer", stage.config, stage.folder)).start() for _ in range(2)]
    assert [process.line() for process in both] == ["ready", "ready"]
    (stage.folder / "go").touch()
    delivered = [int(process.ended()) for process in both]
    puts = stage.services["team"].puts(stage.store)
    print(f"{delivered} delivered, {len(puts)} put")
    assert sent_twice(puts) == []
    assert out_of_order(puts) == []
    assert sum(delivered) == len(puts)
    assert findings(stage, Belief.read(stage.log)) == []


@pytest.mark.parametrize(("primary", "replicas"), DELIVERING, ids=["feed", "no feed"])
def test_killed_deliverers_apply_nothing_twice(stage, primary, replicas):
    """While somebody writes and delivers, and two others deliver and are killed again and again, no state is applied
    twice, none behind a later one, and all arrive."""
    luck = chances(SEED, primary)
    stage.configure(primary, replicas=replicas)
    write_much(stage)
    (stage.folder / "go").touch()
    driver = Process(("driver", stage.config, stage.log, FEW // 2, SEED)).start()
    both = [Process(("deliverer", stage.config, stage.folder)).start() for _ in range(2)]
    for _ in range(EVENTS // 2):
        time.sleep(luck.uniform(0.1, 0.8))
        victim = luck.choice(both)
        victim.kill()
        victim.start()
    for process in (driver, *both):
        process.ended()
    belief = Belief.read(stage.log)
    assert belief.faults == []
    stage.drain()
    puts = stage.services["team"].puts(stage.store)
    assert twice(puts) == []
    assert out_of_order(puts) == []
    assert findings(stage, Belief.read(stage.log)) == []


@pytest.mark.parametrize("story", STORIES)
def test_a_kill_between_any_two_steps_loses_nothing(stage, story):
    """A process that is killed before or after any call of a store or any commit of the journal leaves a chain that
    comes to hold every acknowledged write, none twice, none out of order, and nothing that was deleted."""
    ports = [stage.services[name].port for name in ("team", "archive")]
    told = json.loads(Process(("faultpoints", story, stage.folder, *ports)).start().ended())
    print(f"{story}: {told['points']} points")
    assert told["points"] > POINTS_MIN
    assert not told["faults"], json.dumps(told["faults"], indent=1)
