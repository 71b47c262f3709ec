"""Models and stores of vectors that are broken, missing or mad: texts are stored, words find them, answers say what was
missing, and nothing bad is in a space afterwards."""

from __future__ import annotations

import json
import sqlite3
import time

import pytest

from memspine.indexing.filling import RETRY_SECONDS

from .parts import active, bad_vectors, new_memory, replace, shelved, write_onnx_model, write_static_model
from .watching import DAMAGE
from .workers import text_of

GARDEN = "The walnut tree stands in the garden."


def contents(result):
    return [hit.memory.content for hit in result.hits]


def leg(result, name):
    (found,) = [one for one in result.trace.legs if one.leg == name]
    return found


def damage(place, **of_roles):
    """Say what is wrong with a source from now on."""
    path = place.folder / "damage"
    replace(path, json.dumps(of_roles).encode())
    return path


# ── sources that answer badly ──


@pytest.mark.parametrize("what", DAMAGE)
def test_no_bad_vector_gets_into_a_space(place, what):
    """Whatever a source answers, the text is stored, its words find it, the trace says what is missing, and no vector
    is kept; when the source is well again everything is embedded."""
    place.configure("bad", bad={"damage": damage(place, document=what, query=what)})
    with place.memory() as memory:
        memory.create(GARDEN)
        report = memory.reindex()
        result = memory.search("walnut")
        assert contents(result) == [GARDEN]
        assert leg(result, "vector").status == "failed"
        assert result.trace.degraded
        assert report.embedded == 0
        assert memory.list().total == 1
    assert [space.memories for space in shelved(place.store) if space.memories] == []
    damage(place)
    with place.memory() as memory:
        assert memory.reindex(rebuild=True).complete
        result = memory.search("walnut")
        assert (result.trace.degraded, leg(result, "vector").matched) == ((), 1)
    assert bad_vectors(place.store, dimension=264) == []


@pytest.mark.parametrize("what", [*DAMAGE, "counting"])
def test_missing_vectors_are_told(place, what):
    """When a source answers questions well and documents badly, nothing bad is kept, and the trace says that memories
    have no vectors."""
    harm = {"counting": "yes"} if what == "counting" else {"document": what}
    place.configure("bad", bad={"damage": damage(place, **harm)})
    with place.memory() as memory:
        long = " ".join(text_of(f"m{n}", 1) for n in range(200))
        memory.create_many([new_memory(GARDEN), new_memory(long)])
        memory.reindex()
        result = memory.search("walnut")
    assert GARDEN in contents(result)
    held = [ref for space in shelved(place.store) for ref in space.memories]
    assert held == []
    assert result.trace.degraded, f"nothing said, though no memory has a vector; legs: {result.trace.legs}"


@pytest.mark.parametrize("what", ["nan", "fewer", "dimension", "raises", "refuses"])
def test_a_bad_source_does_not_take_over(place, what):
    """A source that cannot embed a single memory does not take the place of vectors that answer well."""
    place.configure("good", good={})
    with place.memory() as memory:
        memory.create_many([new_memory(text_of(f"m{n}", 1)) for n in range(20)])
        memory.reindex()
        before = contents(memory.search("walnut", strategy="semantic", limit=20))
    old = active(place.store).id
    bad = {"inner": "static", "model": write_static_model(place.folder / "other"), "damage": damage(place)}
    damage(place, document=what)
    place.configure("bad", good={}, bad=bad)
    with place.memory() as memory:
        memory.reindex()
        after = memory.search("walnut", strategy="semantic", limit=20)
    assert len(before) == 20
    assert (active(place.store).id, contents(after)) == (old, before)


def test_a_hanging_source_costs_no_answer(place):
    """A source that never answers costs the deadline of the vector leg; words answer, and the trace says so."""
    place.configure("bad", embedding={"deadline_seconds": 0.5}, bad={"damage": damage(place)})
    with place.memory() as memory:
        memory.create(GARDEN)
        memory.reindex()
        damage(place, query="hangs", document="hangs")
        memory.create("Another walnut.")
        result = memory.search("walnut")
    assert sorted(contents(result)) == ["Another walnut.", GARDEN]
    assert "longer than 0.5 s" in leg(result, "vector").detail
    assert result.trace.degraded


def test_an_outage_is_no_fault_of_a_memory(place):
    """However often a source was out of order, a memory that it then refuses once is tried again as soon as any other
    that was refused once."""
    place.configure("bad", bad={"damage": damage(place, document="refuses")})
    for _ in range(6):
        with place.memory() as memory:  # each with a breaker of its own, as commands have
            if not memory.list().total:
                memory.create(GARDEN)
            assert memory.reindex().troubles
    damage(place, document="nan")
    with place.memory() as memory:
        memory.reindex()
    connection = sqlite3.connect(place.store)
    ((due, failures),) = connection.execute("SELECT due_at, failures FROM queue")
    connection.close()
    assert due / 1000 - time.time() <= RETRY_SECONDS, f"put off by {failures} failures, of which it caused one"


def test_a_long_outage_breaks_no_index(place):
    """After a thousand outages a text that is refused is put off like any other, and indexing goes on."""
    place.configure("bad", bad={"damage": damage(place)})
    with place.memory() as memory:
        memory.create(GARDEN)
    damage(place, document="refuses")
    with place.memory() as memory:
        memory.reindex()
    with sqlite3.connect(place.store) as connection:
        connection.execute("UPDATE queue SET failures = 1100")
    connection.close()
    damage(place, document="nan")
    with place.memory() as memory:
        assert memory.reindex().embedded == 0


# ── models whose files are no use ──


def _broken(folder, kind, fault):
    """A folder with a model that has one fault."""
    made = {"static": write_static_model, "onnx": write_onnx_model}[kind](folder)
    weights = made / {"static": "model.safetensors", "onnx": "model.onnx"}[kind]
    if fault == "no weights":
        weights.unlink()
    elif fault == "half the weights":
        weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    elif fault == "a page instead":
        weights.write_bytes(b"<html>404 not found</html>" * 50)
    elif fault == "no tokenizer":
        (made / "tokenizer.json").unlink()
    elif fault == "half the tokenizer":
        (made / "tokenizer.json").write_bytes((made / "tokenizer.json").read_bytes()[:200])
    elif fault == "no folder":
        made.rename(made.with_name("elsewhere"))
    return made


FAULTS = ("no folder", "no weights", "half the weights", "a page instead", "no tokenizer", "half the tokenizer")


@pytest.mark.parametrize("kind", ["static", "onnx"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_model_costs_the_meaning_alone(place, kind, fault):
    """With a model that is no use, commands store and find by words and say why meaning is missing; when its files are
    whole the next command uses it."""
    folder = place.folder / "model"
    place.configure("mine", mine={"inner": kind, "model": _broken(folder, kind, fault)})
    place.command("add", GARDEN)
    found = place.command("search", "walnut")
    assert [hit["content"] for hit in found["results"]] == [GARDEN]
    assert any("mine" in reason for reason in found["trace"]["degraded"])
    done = place.command("reindex", code=7)
    assert done["troubles"]
    assert str(folder) in done["troubles"][0]
    assert str(folder) in json.dumps(place.command("doctor"))
    {"static": write_static_model, "onnx": write_onnx_model}[kind](folder)
    found = place.command("search", "walnut")
    assert found["trace"]["degraded"] == []
    assert bad_vectors(place.store, dimension=24) == []


def test_new_weights_answer_with_new_vectors_only(place):
    """When other weights of the same dimension are put in place, a question is never compared with vectors of the old
    ones: not by the process that has the old ones loaded, not by one that loads the new ones."""
    folder = write_static_model(place.folder / "model", seed=1)
    place.configure("mine", mine={"inner": "static", "model": folder})
    with place.memory() as lasting:
        lasting.create_many([new_memory(text_of(f"m{n}", 1)) for n in range(30)])
        lasting.reindex()
        expected = [hit.id for hit in _by_meaning(lasting)]
        old = active(place.store)
        write_static_model(folder, seed=2)
        with place.memory() as fresh:
            result = fresh.search("walnut lisbon", strategy="semantic", limit=30)
            assert leg(result, "vector").status == "ran" or "others than" in " ".join(result.trace.degraded)
            assert fresh.reindex().complete
            new = active(place.store)
            assert (new.revision != old.revision, new.is_complete) == (True, True)
            renewed = {hit.id: hit.legs[0].score for hit in _by_meaning(fresh)}
            assert not any("others" in reason for reason in fresh.search("walnut").trace.degraded)
        late = lasting.search("walnut lisbon", strategy="semantic", limit=30)
        assert leg(late, "vector").status == "failed" or [hit.memory.id for hit in late.hits] == expected
    assert len(renewed) == 30
    unchanged = next(space for space in shelved(place.store) if space.id == old.id)
    assert unchanged.memories == old.memories


def _by_meaning(memory):
    found = memory.search("walnut lisbon", strategy="semantic", limit=30)
    assert found.trace.degraded == ()
    return [_Scored(hit) for hit in found.hits]


class _Scored:
    def __init__(self, hit):
        self.id, self.legs = hit.memory.id, hit.legs


def test_reindexing_goes_to_its_end_though_the_old_model_is_dead(place):
    """When the model whose vectors answer is gone, one `reindex` with another one embeds everything and hands over."""
    place.configure("dead", dead={"inner": "static", "model": write_static_model(place.folder / "model")})
    place.fill(400)
    with place.memory() as memory:
        assert memory.reindex().complete
    (place.folder / "model").rename(place.folder / "gone")
    place.configure("new", embedding={"batch_texts": 16}, new={"seconds": 0.1})
    with place.memory() as memory:
        report = memory.reindex()
        left = memory.search("walnut").trace.degraded
    assert (report.embedded, active(place.store).model, left) == (400, "memspine-static-1", ())


def test_reindexing_goes_to_its_end_with_new_weights_in_place(place):
    """The same when the weights were exchanged in place."""
    folder = write_static_model(place.folder / "model", seed=1)
    mine = {"inner": "static", "model": folder, "seconds": 0.1}
    place.configure("mine", embedding={"batch_texts": 16}, mine=mine)
    place.fill(400)
    with place.memory() as memory:
        assert memory.reindex().complete
    write_static_model(folder, seed=2)
    with place.memory() as memory:
        report = memory.reindex()
        left = memory.search("walnut").trace.degraded
    assert (report.embedded, left) == (400, ())


def test_a_broken_fallback_disturbs_nothing(place):
    """When the fallback's model is no use, the source that works answers as if there were no fallback."""
    broken = {"inner": "static", "model": _broken(place.folder / "model", "static", "no weights")}
    place.configure("good", embedding={"fallback": "broken"}, good={}, broken=broken)
    with place.memory() as memory:
        memory.create(GARDEN)
        memory.reindex()
        result = memory.search("walnut")
    assert leg(result, "vector").status == "ran", result.trace.degraded


def test_a_complete_fallback_answers_when_the_active_source_cannot_be_opened(place):
    """When the plugin of the vectors that answer is gone, the complete vectors of the fallback answer, and the trace
    says so."""
    place.configure("odd", embedding={"fallback": "good"}, odd={"plugin": "letters"}, good={"plugin": "static"})
    with place.memory() as memory:
        memory.create(GARDEN)
        assert memory.reindex().complete
    assert [space.is_complete for space in shelved(place.store)] == [True, True]
    with sqlite3.connect(place.store) as connection:
        connection.execute("UPDATE spaces SET source = replace(source, 'letters', 'gone') WHERE active = 1")
    connection.close()
    new = {"damage": damage(place, document="refuses")}
    place.configure("new", embedding={"fallback": "good"}, new=new, good={"plugin": "static"})
    with place.memory() as memory:
        result = memory.search("walnut")
    assert leg(result, "vector").status == "ran", result.trace.degraded
    assert result.trace.resolution.embedding_source == "good"
    assert result.trace.degraded


# ── stores of vectors that are no use, engines that are missing ──


@pytest.mark.parametrize("fault", ["garbage", "foreign", "folder", "read-only", "damaged", "newer"])
def test_a_broken_vector_store_costs_the_meaning_alone(place, fault):
    """With a file of vectors that is no use, commands store and find by words, say why meaning is missing, and leave a
    file that is not theirs as it is."""
    path = place.folder / "vectors.db"
    place.configure("mine", vectors={"plugin": "sqlite", "path": path}, mine={})
    place.fill(300)
    _spoil(place, path, fault)
    before = path.read_bytes() if path.is_file() else None
    place.command("add", GARDEN)
    found = place.command("search", "walnut tree stands garden")
    assert found["results"][0]["content"] == GARDEN
    told = [*found["trace"]["degraded"], *(one["detail"] for one in found["trace"]["legs"] if one["leg"] == "vector")]
    assert any(str(path) in reason for reason in told), told
    place.command("reindex", code=7)
    assert str(path) in json.dumps(place.command("doctor", code=7))
    if fault in {"garbage", "foreign", "newer"}:
        assert path.read_bytes() == before


def _spoil(place, path, fault):
    """Make a file of vectors that is no use."""
    if fault == "garbage":
        path.write_bytes(b"these are no vectors" * 1000)
    elif fault == "folder":
        path.mkdir()
    elif fault == "foreign":
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE vectors (of_somebody TEXT)")
        connection.close()
    else:
        with place.memory() as memory:
            assert memory.reindex().complete
        data = bytearray(path.read_bytes())
        if fault == "read-only":
            data[18] = 3  # SQLite reads a file of a later write format, and refuses to write to it, whoever asks
        elif fault == "damaged":
            data[8192 * 2 :] = b"\xa5" * (len(data) - 8192 * 2)
        else:
            _make_newer(path)
            return
        path.write_bytes(data)


def _make_newer(path):
    """Let a later release have written the file."""
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE meta SET value = '999' WHERE name IN ('tables', 'schema', 'version')")
        connection.execute("PRAGMA user_version = 999")
    connection.close()


def test_the_doctor_looks_into_the_vectors(place):
    """Where vectors are in a file of their own, the doctor checks all of it too."""
    path = place.folder / "vectors.db"
    place.configure("mine", vectors={"plugin": "sqlite", "path": path}, mine={})
    place.fill(30)
    with place.memory() as memory:
        memory.reindex()
    assert place.command("doctor")["ok"]
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM vectors WHERE row = 7")
    connection.close()
    assert "vectors" in json.dumps(place.command("doctor", code=7)["findings"])


@pytest.mark.parametrize("without", ["", "sqlite_vec", "numpy", "numpy sqlite_vec"])
def test_every_way_to_compare_vectors_answers_the_same(place, without):
    """Whatever is missing of numpy and sqlite-vec, commands find the same memories in the same order."""
    place.configure("plain", plain={"inner": "letters"})
    place.fill(200)
    with place.memory() as memory:
        assert memory.reindex().complete
        expected = [hit.memory.id for hit in memory.search("lisbon spring", limit=20).hits]
    (place.folder / "site" / "sitecustomize.py").write_text(BLOCK_IMPORTS)
    found = place.command("search", "lisbon spring", "--limit", 20, MEMSPINE_TEST_WITHOUT=without)
    assert [hit["id"] for hit in found["results"]] == expected
    assert found["trace"]["degraded"] == []


def test_the_doctor_tells_that_vectors_are_compared_slowly(place):
    """Where neither numpy nor sqlite-vec is there, the doctor says that comparing is slow."""
    place.configure("plain", plain={"inner": "letters"})
    place.command("add", GARDEN)
    (place.folder / "site" / "sitecustomize.py").write_text(BLOCK_IMPORTS)
    checked = place.command("doctor", MEMSPINE_TEST_WITHOUT="numpy sqlite_vec")
    assert "compared in Python" in json.dumps(checked)


def test_a_model_without_its_library_costs_the_meaning_alone(place):
    """Where numpy is missing the static model cannot work: words find, and the trace names what is missing."""
    place.configure("mine", mine={})
    (place.folder / "site" / "sitecustomize.py").write_text(BLOCK_IMPORTS)
    place.command("add", GARDEN, MEMSPINE_TEST_WITHOUT="numpy")
    found = place.command("search", "walnut", MEMSPINE_TEST_WITHOUT="numpy")
    assert [hit["content"] for hit in found["results"]] == [GARDEN]
    assert any("numpy" in reason for reason in found["trace"]["degraded"])
    found = place.command("search", "walnut")
    assert found["trace"]["degraded"] == []


BLOCK_IMPORTS = """
import importlib.machinery, os
names = set(os.environ.get("MEMSPINE_TEST_WITHOUT", "").split())
original = importlib.machinery.PathFinder.find_spec.__func__

def find_spec(cls, name, path=None, target=None):
    return None if name.partition(".")[0] in names else original(cls, name, path, target)

importlib.machinery.PathFinder.find_spec = classmethod(find_spec)
"""


def test_the_feed_may_be_trimmed_before_it_was_ever_read(place):
    """What was written after the memories were listed is embedded, though the feed was trimmed before anybody read
    it."""
    place.configure("mine", mine={})
    place.fill(5)
    with place.memory() as memory:
        memory.reindex()
    with sqlite3.connect(place.store) as connection:
        # As a process leaves it that was killed between listing the memories and reading the feed.
        connection.execute("""UPDATE spaces SET position = '["feed", null, 1]'""")
    connection.close()
    place.fill(5, first=5)
    with sqlite3.connect(place.store) as connection:
        connection.execute("UPDATE changes SET changed_at = changed_at - 40 * 86400000")
    connection.close()
    with place.memory() as memory:
        assert memory.maintain(["history"]).removed["history"] == 10
        assert memory.reindex().complete
    assert len(active(place.store).memories) == 10
