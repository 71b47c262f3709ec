"""What the tests share: models made on the spot, configurations, processes, the log of the watching plugin, stores read
from outside."""

from __future__ import annotations

import json
import os
import shutil
import signal
import string
import subprocess
import sys
import time
from array import array
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import apsw
import attrs
import numpy as np

from memspine.blocking import MemoryManager
from memspine_sqlite import spaces

from .workers import WORDS, text_of

HERE = Path(__file__).parent
GUARD_SECONDS = 900
"""A test that takes longer than that hangs."""
PIECES = [*string.ascii_lowercase, *string.digits, *"?!.,-'"]


# ── models ──


def _tokenizer():
    """A tokenizer.json with the words of the tests and all letters."""
    words = [*WORDS, *PIECES, *(f"##{piece}" for piece in PIECES)]
    vocabulary = {word: number for number, word in enumerate(["[UNK]", *words])}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": None,
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": vocabulary,
        },
    }


def _table(seed, columns):
    rows = len(_tokenizer()["model"]["vocab"])
    return np.random.default_rng(seed).normal(size=(rows, columns)).astype("<f4")


def write_static_model(folder, *, seed=1, columns=24):
    """A folder for the plugin static, put in place as a whole file each."""
    folder.mkdir(parents=True, exist_ok=True)
    table = _table(seed, columns)
    tensor = {"dtype": "F32", "shape": list(table.shape), "data_offsets": [0, table.nbytes]}
    head = json.dumps({"embeddings": tensor}).encode()
    replace(folder / "model.safetensors", len(head).to_bytes(8, "little") + head + table.tobytes())
    replace(folder / "tokenizer.json", json.dumps(_tokenizer()).encode())
    replace(folder / "config.json", b'{"normalize": true}')
    return folder


def write_onnx_model(folder, *, seed=2, columns=24):
    """A folder for the plugin onnx: the vector of a token is its row of a table, that of a text their mean."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    folder.mkdir(parents=True, exist_ok=True)
    integers = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
        for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "sequence", columns])
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])],
        "test",
        integers,
        [output],
        [numpy_helper.from_array(_table(seed, columns), "table")],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx"
    )
    (folder / "tokenizer.json").write_text(json.dumps(_tokenizer()), encoding="utf-8")
    config = {"hidden_size": columns, "max_position_embeddings": 64}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "1_Pooling").mkdir(exist_ok=True)
    pooling = {"pooling_mode_mean_tokens": True, "word_embedding_dimension": columns}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling), encoding="utf-8")
    return folder


def replace(path, data):
    """Put a file in place as careful programs do: whole, under its name, at once."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_bytes(data)
    fresh.replace(path)


# ── a folder with a configuration ──


def _toml(value):
    return json.dumps(str(value) if isinstance(value, Path) else value)


@attrs.define
class Place:
    """A folder of one test: a configuration, a store, the watching plugin, its log."""

    folder: Path
    environ: dict = attrs.field(factory=dict)

    @classmethod
    def made(cls, folder, monkeypatch):
        """The folder, with the plugin installed for this process and for those that it starts."""
        site = folder / "site"
        info = site / "memspine_watching-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: memspine-watching\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[memspine]\nwatched = memspine_watching\n")
        shutil.copy(HERE / "watching.py", site / "memspine_watching.py")
        monkeypatch.syspath_prepend(site)
        paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH", "")])]
        return cls(folder, {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"})

    @property
    def config(self):
        return self.folder / "memspine.toml"

    @property
    def store(self):
        return self.folder / "memories.db"

    @property
    def log(self):
        return self.folder / "log"

    @property
    def gate(self):
        return self.folder / "gate"

    def configure(self, source, *, vectors=None, embedding=None, **sources):
        """Write the configuration: sources by name, watched unless they say otherwise; guards are far away."""
        watched = {"plugin": "watched", "log": self.log}
        tables = {
            "memory": {"deadline_seconds": 120},
            "retrieval": {"deadline_seconds": 120},
            "embedding": {"source": source, "deadline_seconds": 60, **(embedding or {})},
            **{f"embedding.{name}": of if "plugin" in of else watched | of for name, of in sources.items()},
            "backends.store": {"plugin": "sqlite", "path": self.store, "busy_timeout_seconds": 60},
            "vectors": vectors or {"plugin": "watched", "path": self.store, "log": self.log, "gate": self.gate},
        }
        lines = []
        for name, table in tables.items():
            lines += [f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in table.items()), ""]
        replace(self.config, "\n".join(lines).encode())
        return self.config

    @contextmanager
    def memory(self, **options):
        """A manager in this process, without background work."""
        with MemoryManager(self.config, **{"background": False, **options}) as memory:
            yield memory

    def fill(self, count, *, first=0):
        """Remember so many texts."""
        ids = [f"m{number:06}" for number in range(first, first + count)]
        with self.memory() as memory:
            for start in range(0, count, 1000):
                some = ids[start : start + 1000]
                memory.create_many([new_memory(text_of(id, 1)) for id in some], ids=some)
        return ids

    def start(self, role, **environ):
        """Start a process of `workers.py` and wait until it is ready."""
        command = [sys.executable, str(HERE / "workers.py"), role, str(self.config), str(self.folder)]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **self.environ, **environ},
        )
        line = process.stdout.readline()
        if line != "ready\n":
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"{role} did not start: {line}{out}{err}")
        return process

    def command(self, *arguments, code=0, **environ):
        """Run `memspine` as a process of its own, with an answer in JSON; None where it has no answer."""
        told = self.text(*arguments, "--json", code=code, **environ)
        return json.loads(told) if told.strip() else None

    def text(self, *arguments, code=0, **environ):
        """The same with the answer for people."""
        done = subprocess.run(
            [sys.executable, "-m", "memspine", "--config", str(self.config), *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            timeout=GUARD_SECONDS,
            env={**os.environ, **self.environ, **environ},
        )
        assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout


def new_memory(content, **fields):
    """A memory to store."""
    from memspine.model import NewMemory

    return NewMemory(content=content, **fields)


def ended(process):
    """What a worker said at its end."""
    out, err = process.communicate(timeout=GUARD_SECONDS)
    assert process.returncode == 0, f"exit code {process.returncode}\n{out}\n{err}"
    return json.loads(out.splitlines()[-1])


def killed(process):
    """Kill a worker as `kill -9` does."""
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=GUARD_SECONDS)


def wait_for(path):
    """Wait until a file is there."""
    deadline = time.monotonic() + GUARD_SECONDS
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} never came"
        time.sleep(0.005)


# ── what is in a store ──


def rows(path, statement, *values):
    """What a statement gives, on a connection of its own."""
    connection = apsw.Connection(str(path))
    try:
        connection.set_busy_timeout(60_000)
        return list(connection.execute(statement, values))
    finally:
        connection.close()


def living(path):
    """The revision of every memory, by owner and id."""
    found = rows(path, "SELECT o.name, m.id, m.revision FROM memories AS m JOIN owners AS o ON o.number = m.owner")
    return {(owner, id): revision for owner, id, revision in found}


@attrs.frozen(kw_only=True)
class Shelved:
    """A space and what it holds: by owner and id the revision and the vectors of the chunks."""

    id: str
    revision: str
    model: str
    is_active: bool
    is_complete: bool
    memories: dict
    queued: int

    @property
    def revisions(self):
        return {ref: revision for ref, (revision, _) in self.memories.items()}


def shelved(path):
    """Every space of a store, oldest first."""
    connection = apsw.Connection(str(path))
    try:
        connection.set_busy_timeout(60_000)
        with connection:  # one state of the store for all of it
            statement = "SELECT number, id, identity, active, complete FROM spaces ORDER BY number"
            return [_shelved(connection, columns) for columns in list(connection.execute(statement))]
    finally:
        connection.close()


_HELD = """SELECT o.name, v.id, v.revision, CODE FROM vectors AS v JOIN shelves AS s ON s.number = v.shelf
    JOIN owners AS o ON o.number = s.owner WHERE s.space = ? ORDER BY v.row"""


def _shelved(connection, columns):
    number, id, identity, active, complete = columns
    layout = next(one for one in spaces.layouts(connection) if one.number == number)
    memories = {}
    for owner, memory, revision, vector in connection.execute(_HELD.replace("CODE", layout.code), (number,)):
        _, vectors = memories.get((owner, memory), (revision, ()))
        memories[owner, memory] = (revision, (*vectors, bytes(vector)))
    ((queued,),) = connection.execute("SELECT count(*) FROM queue WHERE space = ?", (number,))
    document = json.loads(identity)
    return Shelved(
        id=id,
        revision=document["revision"],
        model=document["model"],
        is_active=bool(active),
        is_complete=bool(complete),
        memories=memories,
        queued=queued,
    )


def active(path):
    """The space that answers."""
    (found,) = [space for space in shelved(path) if space.is_active]
    return found


def bad_vectors(path, *, dimension):
    """The vectors of a store that are not of this dimension, finite and of norm 1."""
    found = []
    for space in shelved(path):
        for ref, (_, vectors) in space.memories.items():
            for vector in vectors:
                values = np.asarray(array("f", vector), float)
                if len(values) != dimension or not abs(np.linalg.norm(values) - 1) < 1e-3:
                    found.append((space.model, ref))
    return found


# ── the log ──


def log_lines(place, *whats):
    """What was written down, in order, of these kinds."""
    if not place.log.exists():
        return []
    found = [json.loads(line) for line in place.log.read_text(encoding="utf-8").splitlines()]
    return [line for line in found if not whats or line["what"] in whats]


def embeddings(place):
    """Each document that a source was asked to embed: revision of the model, id, revision, process and time."""
    for line in log_lines(place, "embedding"):
        if line["role"] == "document":
            for text in line["texts"]:
                id, _, rest = text.partition(" r")
                if rest:
                    yield (line["revision"], id, int(rest.split()[0])), line["process"], line["at"]


def times_embedded(place):
    """How often each revision of each memory was embedded by each model."""
    return Counter(key for key, _, _ in embeddings(place))


def writings(place):
    """When each revision of each memory was first in a space, by the model of the space."""
    models = {space.id: space.revision for space in shelved(place.store)}
    found = {}
    for line in log_lines(place, "written"):
        for _, id, revision in line["refs"]:
            found.setdefault((models[line["space"]], id, revision), line["at"])
    return found


def computed_again(place):
    """What was embedded though it was in its space already."""
    written = writings(place)
    return [key for key, _, at in embeddings(place) if at > written.get(key, at)]


def claimed_twice(place):
    """The memories that somebody claimed while another claim held."""
    claims, found = {}, []
    for line in sorted(log_lines(place), key=lambda line: line["at"]):
        for owner, id, *_ in line.get("refs", ()):
            holders = claims.setdefault((owner, id), {})
            if line["what"] == "deleted":
                holders.clear()
            elif line["what"] in {"postponed", "writing"}:
                if holders.get(line["space"], (0, 0.0))[0] == line["process"]:
                    del holders[line["space"]]
            elif line["what"] == "claimed":
                holder, until = holders.get(line["space"], (0, 0.0))
                if line["at"] < until:
                    found.append((id, holder, line["process"]))
                holders[line["space"]] = (line["process"], line["until"])
    return found
