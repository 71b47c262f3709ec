"""Switching between embedding sources, killing who indexes, indexing together: nothing is lost, nothing done twice."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from .parts import (
    active,
    claimed_twice,
    computed_again,
    embeddings,
    ended,
    killed,
    living,
    log_lines,
    rows,
    shelved,
    times_embedded,
    wait_for,
    write_onnx_model,
    write_static_model,
)
from .workers import text_of

MEMORIES = int(os.environ.get("MEMSPINE_TEST_MEMORIES", "2000"))
"""How many memories are switched; 20000 takes some minutes."""
MODELS = "MEMSPINE_TEST_MODELS"
LEASE = {"MEMSPINE_TEST_LEASE": "8"}


def other_source(kind, folder):
    """The table of a source that is not the shipped one."""
    if kind == "static":
        return {"inner": "static", "model": write_static_model(folder / "other")}
    if kind == "onnx":
        return {"inner": "onnx", "model": write_onnx_model(folder / "other")}
    if not os.environ.get(MODELS):
        pytest.skip(f"no real model: ${MODELS} names no folder")
    return {"inner": "onnx", "model": Path(os.environ[MODELS]) / "all-MiniLM-L6-v2"}


@pytest.mark.parametrize("kind", ["static", "onnx", "minilm"])
def test_switching_is_unseen(place, kind):
    """While a store is switched to another model and back, one process asks all the time and another writes all the
    time: no answer is empty or degraded, nothing that is stored is computed again, and in the end everything is
    there."""
    sources = {"shipped": {}, "other": other_source(kind, place.folder)}
    place.configure("shipped", **sources)
    place.fill(MEMORIES if kind != "minilm" else MEMORIES // 10)
    seconds = [ended(place.start("index", **LEASE))["seconds"]]
    asking, writing = place.start("search", **LEASE), place.start("write", **LEASE)
    answering = [active(place.store).model]
    for source in ("other", "shipped"):
        place.configure(source, **sources)
        done = ended(place.start("index", **LEASE))
        assert (done["complete"], list(done["troubles"])) == (True, [])
        seconds.append(done["seconds"])
        answering.append(active(place.store).model)
    (place.folder / "stop").touch()
    asked, written = ended(asking), ended(writing)
    print(f"{kind}: {seconds} s, {asked['answers']} answers, slowest {asked['slowest']:.2f} s, {written}")
    assert (asked["count"], asked["faults"]) == (0, [])
    assert answering[0] == answering[2] != answering[1]
    assert ended(place.start("index", **LEASE))["complete"]
    assert active(place.store).revisions == living(place.store)
    assert computed_again(place) == []
    assert claimed_twice(place) == []


def test_a_killed_process_costs_a_batch(place):
    """However often a process that indexes is killed, at most one batch of it is embedded again, no two processes hold
    one memory at the same time, and the next one completes the space."""
    batch, kills = 16, 14
    place.configure("slow", embedding={"batch_texts": batch}, slow={"seconds": 0.25})
    place.fill(2000)
    chances = np.random.default_rng(11)
    dead, other = [], place.start("index", **LEASE)
    for _ in range(kills):
        victim, other = other, place.start("index", **LEASE)
        time.sleep(chances.uniform(0, 0.5))
        killed(victim)
        dead.append(victim.pid)
    killed(other)
    dead.append(other.pid)
    assert len(active(place.store).memories) < 2000, "the killing began too late"
    assert ended(place.start("index", **LEASE))["complete"]
    assert active(place.store).revisions == living(place.store)
    assert (active(place.store).is_complete, active(place.store).queued) == (True, 0)
    assert claimed_twice(place) == []
    assert computed_again(place) == []
    written = {line["process"]: set() for line in log_lines(place)}
    for line in log_lines(place, "writing"):
        written[line["process"]].update(id for _, id, _ in line["refs"])
    for process in dead:
        lost = {key[1] for key, by, _ in embeddings(place) if by == process} - written.get(process, set())
        assert len(lost) <= batch
    repeated = sum(count - 1 for count in times_embedded(place).values())
    print(f"{kills + 1} kills, {repeated} of 2000 memories embedded again")
    assert repeated <= len(dead) * batch


def test_two_processes_share_the_work(place):
    """Of two processes that index one store at once, each does a part, and nothing is done twice."""
    place.configure("slow", embedding={"batch_texts": 32}, slow={"seconds": 0.03})
    place.fill(2000)
    (place.folder / "wait").touch()
    both = [place.start("index"), place.start("index")]
    (place.folder / "wait").unlink()
    done = [ended(process) for process in both]
    assert [one["complete"] for one in done] == [True, True]
    assert sum(one["embedded"] for one in done) == 2000
    assert min(one["embedded"] for one in done) >= 200
    assert set(times_embedded(place).values()) == {1}
    assert claimed_twice(place) == []
    assert active(place.store).revisions == living(place.store)


def test_what_changes_while_it_is_embedded_is_embedded_again_at_once(place):
    """A memory that is changed while its old text is being embedded does not wait for the lease on it to run out."""
    place.configure("shipped", shipped={})
    place.fill(3)
    place.gate.touch()
    indexing = place.start("index", MEMSPINE_TEST_LEASE="20")
    wait_for(Path(f"{place.gate}.reached"))
    with place.memory() as memory:
        memory.update("m000001", content=text_of("m000001", 2))
        memory.maintain(["embed"], budget_seconds=0.5)  # reads the feed, and so queues the new text
    started = time.monotonic()
    place.gate.unlink()
    assert ended(indexing)["complete"]
    waited = time.monotonic() - started
    assert active(place.store).revisions == living(place.store)
    assert waited < 15, f"{waited:.0f} s, of which all but a moment was waiting for its own lease of 20 s to run out"


def test_a_purge_during_indexing_leaves_nothing(place):
    """What is purged while another process embeds it is in no space afterwards, and its bytes in no file."""
    place.configure("shipped", shipped={})
    place.fill(10)
    gone = _vectors_of(place, "m000007")
    place.gate.touch()
    indexing = place.start("index")
    wait_for(Path(f"{place.gate}.reached"))
    with place.memory() as memory:
        receipt = memory.purge(["m000007"])
        assert receipt.memories == 1
        place.gate.unlink()
        assert ended(indexing)["complete"]
        assert _files_with(place.folder, gone) == [], "while a process has the store open"
    assert ("me", "m000007") not in active(place.store).memories
    assert _files_with(place.folder, [*gone, b"m000007 r1"]) == []


def test_who_is_killed_over_a_purged_memory_leaves_nothing(place):
    """A process that stores the vectors of what was purged meanwhile, and is killed right after that, leaves them in no
    space for good."""
    place.configure("shipped", shipped={})
    place.fill(10)
    place.gate.touch()
    indexing = place.start("index", **LEASE)
    wait_for(Path(f"{place.gate}.reached"))
    with place.memory() as memory:
        memory.purge(["m000007"])
        memory.maintain(["embed"], budget_seconds=0.5)  # another process has read the deletion already
    Path(f"{place.gate}.die").touch()
    place.gate.unlink()
    indexing.communicate()
    assert indexing.returncode != 0
    Path(f"{place.gate}.die").unlink()
    assert ended(place.start("index", **LEASE))["complete"]
    assert set(active(place.store).memories) == set(living(place.store))


@pytest.mark.parametrize("rounds", [1, 4])
def test_purges_race_with_indexing(place, rounds):
    """However often memories are purged while others index and write, no space holds a purged one in the end."""
    place.configure("slow", embedding={"batch_texts": 16}, slow={"seconds": 0.01})
    ids = place.fill(600)
    workers = [place.start("index"), place.start("write")]
    with place.memory() as memory:
        for number in range(rounds * 5):
            memory.purge(ids[number * 20 : number * 20 + 20])
    (place.folder / "stop").touch()
    for worker in workers:
        ended(worker)
    assert ended(place.start("index"))["complete"]
    assert active(place.store).revisions == living(place.store)
    purged = ids[: rounds * 100]
    assert not set(purged) & {id for space in shelved(place.store) for _, id in space.memories}
    assert _files_with(place.folder, [f"{id} r1".encode() for id in purged]) == []
    assert rows(place.store, "SELECT count(*) FROM queue") == [(0,)]


def _vectors_of(place, id):
    """The middle of each vector that the configured source gives a text, as it would stand in a file."""
    place.folder.joinpath("aside").mkdir()
    aside = type(place)(place.folder / "aside", place.environ)
    aside.configure("shipped", shipped={"log": ""})
    with aside.memory() as memory:
        memory.create(text_of(id, 1), id=id)
        memory.reindex()
    _, vectors = active(aside.store).memories["me", id]
    for file in sorted(aside.folder.iterdir(), reverse=True):
        file.unlink()
    aside.folder.rmdir()
    return [vector[64:192] for vector in vectors]


def _files_with(folder, pieces):
    """The store's files that hold one of these pieces."""
    found = []
    for file in sorted(folder.glob("memories.db*")):
        data = file.read_bytes()
        found += [(file.name, piece) for piece in pieces if piece in data]
    return found
