"""models list, fetch, path: downloads from a real server on this machine, whole or not at all."""

import errno
import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
import urllib.error

import pytest

from memspine.cli.codes import Exit
from memspine.contracts import Model, ModelFile
from memspine.modelfiles import ModelFilesError, fetch_model, origin_of
from memspine.modelfiles.origins import _opener

from .file_server import file_server
from .test_terminal import on_terminal

WEIGHTS = bytes(range(256)) * 4096
TOKENS = b'{"model": "tokens"}'
FILES = {"weights.bin": WEIGHTS, "more/tokens.json": TOKENS}
PLUGIN = """
from memspine.contracts import Model, ModelFile
from memspine.hookspecs import hookimpl

@hookimpl
def memspine_models():
    return [Model(name="small-1", plugin="acme", summary="a small model", licence="MIT", files=(FILES))]
"""


def listed(base="https://127.0.0.1:1"):
    """The files of the model as its plugin states them, at an address where nobody is."""
    return tuple(
        ModelFile(path=path, url=f"{base}/{path}", sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content))
        for path, content in FILES.items()
    )


MODEL = Model(name="small-1", plugin="acme", summary="a small model", licence="MIT", files=listed())


@pytest.fixture
def server(monkeypatch):
    """A mirror that has the files; between two attempts nobody waits."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setattr("memspine.modelfiles.fetching.PAUSE_SECONDS", 0.01)
    with file_server() as server:
        server.files |= {f"/mirror/{path}": content for path, content in FILES.items()}
        yield server


@pytest.fixture
def models(server, install, tmp_path, monkeypatch):
    """The folder where models belong; a plugin is installed that can use one."""
    install("acme", PLUGIN.replace("FILES", "".join(f"{file!r}, " for file in MODEL.files)))
    monkeypatch.setenv("MEMSPINE_DATA", str(tmp_path / "data"))
    return tmp_path / "data" / "models"


def part(models):
    return models / "small-1" / "weights.bin.part"


def fetch(cli, server, *options, **keywords):
    return cli("models", "fetch", "small-1", "--from", f"{server.url}/mirror", *options, **keywords)


def names(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


# ── list and path ──


def ours(answer):
    [found] = [model for model in answer.data["data"] if model["name"] == "small-1"]
    return found


def test_list(models, cli):
    """`models list` says what plugins can use, with size and licence, and whether it is here, in part, or not."""
    rows = cli.ok("models", "list").rows
    assert ["small-1", "acme", "1.0 MB", "MIT", "missing", "a small model"] in rows
    found = ours(cli.ok("models", "list", "--json"))
    assert list(found) == ["name", "plugin", "summary", "licence", "sizeBytes", "state", "path", "files"]
    assert list(found["files"][0]) == ["path", "url", "sha256", "sizeBytes"]
    assert found["path"] == str(models / "small-1")
    part(models).parent.mkdir(parents=True)
    part(models).write_bytes(WEIGHTS[:10])
    assert ours(cli.ok("models", "list", "--json"))["state"] == "partial"


def test_list_makes_and_asks_nothing(models, cli, server):
    """Looking at what there is downloads nothing and makes no folder."""
    cli.ok("models", "list")
    cli.ok("models", "path", "small-1")
    assert server.requests == []
    assert not models.exists()


def test_path(models, cli, server):
    """`models path` prints the folder of a model, and notes when it is not there."""
    answer = cli.ok("models", "path", "small-1")
    assert answer.lines == [str(models / "small-1")]
    assert answer.err == "memspine: note: it is missing; `memspine models fetch small-1` fetches it\n"
    fetch(cli, server)
    assert cli.ok("models", "path", "small-1").err == ""
    data = cli.ok("models", "path", "small-1", "--json").data
    assert data == {"name": "small-1", "path": str(models / "small-1"), "state": "present"}


@pytest.mark.parametrize("action", ["fetch", "path"])
def test_unknown_model(models, cli, action):
    """A model that no plugin can use is refused with 3 and the near name."""
    answer = cli("models", action, "smal-1")
    assert answer.code == Exit.CONFIG
    assert "no model named 'smal-1'" in answer.err
    assert "did you mean 'small-1'?" in answer.err


@pytest.mark.parametrize("path", ["../secret", "/etc/x", "a//b", "", "a\\b", "c:x", "x.part", ".", "a/.."])
def test_paths_lead_nowhere_else(tmp_path, server, path):
    """A path that would lead out of the model's folder is refused."""
    file = ModelFile(path=path, url="https://127.0.0.1:1/x", sha256="0" * 64, size_bytes=1)
    model = Model(name="m", plugin="acme", summary="", licence="", files=(file,))
    with pytest.raises(ModelFilesError, match="is no path"):
        fetch_model(model, data_folder=tmp_path / "data", origin=origin_of("m", f"{server.url}/mirror"))
    assert server.requests == []


# ── fetch ──


def test_fetch(models, cli, server):
    """`models fetch` downloads every file, checked, and nothing else stays; the second time it asks for nothing."""
    answer = fetch(cli, server)
    assert (answer.code, answer.rows, answer.err) == (0, [[str(models / "small-1"), "2 files fetched"]], "")
    assert names(models) == {
        ".small-1.lock",
        "small-1/manifest.json",
        "small-1/weights.bin",
        "small-1/more/tokens.json",
    }
    assert (models / "small-1" / "weights.bin").read_bytes() == WEIGHTS
    assert len(server.requests) == 2
    again = fetch(cli, server, "--json").data
    assert again == {"name": "small-1", "path": str(models / "small-1"), "fetched": [], "bytesRead": 0}
    assert fetch(cli, server).rows[0][1] == "is there already"
    assert len(server.requests) == 2


def test_the_manifest_lists_the_files(models, cli, server):
    """What is fetched says beside itself what each file has to be, for whoever loads it later."""
    fetch(cli, server)
    entries = json.loads((models / "small-1" / "manifest.json").read_text())["files"]
    assert [entry["path"] for entry in entries] == ["weights.bin", "more/tokens.json"]
    for entry in entries:
        content = (models / "small-1" / entry["path"]).read_bytes()
        assert (entry["size_bytes"], entry["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())


def test_cut_connection(models, cli, server):
    """A connection that is cut is taken up where it ended."""
    server.cuts += [300_000, 300_000]
    data = fetch(cli, server, "--json").data
    assert data["bytesRead"] == len(WEIGHTS) + len(TOKENS)
    assert (models / "small-1" / "weights.bin").read_bytes() == WEIGHTS
    assert [wanted for path, wanted in server.requests if path.endswith("bin")] == [
        None, "bytes=300000-", "bytes=600000-",
    ]  # fmt: skip


def test_connection_that_brings_nothing_more(models, cli, server):
    """When several attempts bring nothing new, it ends with 7, says how far it came, and the next run goes on there."""
    server.cuts += [300_000, *[0] * 10]
    answer = fetch(cli, server)
    assert answer.code == Exit.UNAVAILABLE
    assert f"model 'small-1': weights.bin ended after 300000 of {len(WEIGHTS)} bytes" in answer.err
    assert "the same command goes on from there" in answer.err
    assert part(models).read_bytes() == WEIGHTS[:300_000]
    assert not (models / "small-1" / "weights.bin").exists()
    server.cuts.clear()
    server.requests.clear()
    assert fetch(cli, server).code == 0
    assert server.requests[0] == ("/mirror/weights.bin", "bytes=300000-")


def test_server_without_ranges(models, cli, server):
    """A server that knows no ranges sends all of it, which then replaces what was there."""
    server.ranges = False
    server.cuts += [300_000]
    assert fetch(cli, server).code == 0
    assert (models / "small-1" / "weights.bin").read_bytes() == WEIGHTS


def test_part_that_is_no_beginning(models, cli, server):
    """A part that is longer than the file, or that the server has no rest for, is begun anew."""
    part(models).parent.mkdir(parents=True)
    part(models).write_bytes(b"x" * (len(WEIGHTS) + 1))
    assert fetch(cli, server).code == 0
    (models / "small-1" / "weights.bin").unlink()
    part(models).write_bytes(b"x" * 1000)
    server.codes.append((416, {}))
    assert fetch(cli, server).code == 0
    assert (models / "small-1" / "weights.bin").read_bytes() == WEIGHTS


def test_wrong_content(models, cli, server):
    """What has another checksum is deleted and told; no file gets its name."""
    wrong = WEIGHTS[:-1] + b"\0"
    server.files["/mirror/weights.bin"] = wrong
    answer = fetch(cli, server)
    assert answer.code == Exit.UNAVAILABLE
    assert f"weights.bin has the SHA-256 {hashlib.sha256(wrong).hexdigest()}" in answer.err
    assert f"expected {len(WEIGHTS)} bytes with the SHA-256 {hashlib.sha256(WEIGHTS).hexdigest()}" in answer.err
    assert "what came was deleted" in answer.err
    assert names(models) == {".small-1.lock"}
    assert fetch(cli, server, "--json").error["type"] == "unavailable"


def test_part_of_another_file(models, cli, server):
    """A part whose beginning is another file's is deleted when the whole does not fit; the next run has it right."""
    part(models).parent.mkdir(parents=True)
    part(models).write_bytes(b"x" * 1000)
    assert "what came was deleted" in fetch(cli, server).err
    assert fetch(cli, server).code == 0


def test_larger_content(models, cli, server):
    """A server that sends more than the file is not read to its end."""
    server.files["/mirror/weights.bin"] = WEIGHTS + b"more"
    assert f"weights.bin is larger than {len(WEIGHTS)} bytes" in fetch(cli, server).err
    assert names(models) == {".small-1.lock"}


def test_damaged_file_is_fetched_again(models, cli, server):
    """A file that is no longer what it was is replaced, and only that one."""
    fetch(cli, server)
    (models / "small-1" / "weights.bin").write_bytes(bytes(len(WEIGHTS)))
    assert fetch(cli, server, "--json").data["fetched"] == ["weights.bin"]
    assert (models / "small-1" / "weights.bin").read_bytes() == WEIGHTS


@pytest.mark.parametrize(("code", "said"), [(404, "answered 404 Not Found"), (503, "answered 503 Service Unavailable")])
def test_server_that_refuses(models, cli, server, code, said):
    """What the server answers instead of the file is told with the address, without what follows a question mark."""
    server.codes += [(code, {})] * 10
    answer = fetch(cli, server)
    assert answer.code == Exit.UNAVAILABLE
    assert f"{server.url}/mirror/weights.bin: the server {said}" in answer.err
    assert answer.err.count("\n") == 1


def test_nobody_listens(models, cli, server):
    """An address where nobody answers is told at once, over the address of the plugin as over a mirror's."""
    answer = cli("models", "fetch", "small-1")
    assert answer.code == Exit.UNAVAILABLE
    assert "https://127.0.0.1:1/weights.bin: " in answer.err
    answer = cli("models", "fetch", "small-1", "--from", "http://127.0.0.1:1")
    assert "http://127.0.0.1:1/weights.bin: " in answer.err
    assert server.requests == []


def test_silent_server(models, cli, server, monkeypatch):
    """A server that says nothing is not waited for without end."""
    monkeypatch.setattr("memspine.modelfiles.origins.TIMEOUT_SECONDS", 0.2)
    server.gate.clear()
    answer = fetch(cli, server)
    assert answer.code == Exit.UNAVAILABLE
    assert "timed out" in answer.err


def test_another_file_in_a_folder(models, cli, server, tmp_path):
    """A file of another size is not the one that is wanted, and nothing of it is kept."""
    (tmp_path / "copies").mkdir()
    (tmp_path / "copies" / "weights.bin").write_bytes(WEIGHTS[:100])
    answer = cli("models", "fetch", "small-1", "--from", tmp_path / "copies")
    assert answer.code == Exit.UNAVAILABLE
    assert f"has 100 bytes, weights.bin {len(WEIGHTS)}" in answer.err
    assert names(models) == {".small-1.lock"}


def test_from_a_folder(models, cli, server, tmp_path):
    """--from takes a folder as well; what is copied is checked like what is downloaded."""
    folder = tmp_path / "copies"
    (folder / "more").mkdir(parents=True)
    (folder / "more" / "tokens.json").write_bytes(TOKENS)
    answer = cli("models", "fetch", "small-1", "--from", folder)
    assert answer.code == Exit.UNAVAILABLE
    assert f"{folder / 'weights.bin'} cannot be read: No such file or directory" in answer.err
    (folder / "weights.bin").write_bytes(bytes(len(WEIGHTS)))
    assert "has the SHA-256" in cli("models", "fetch", "small-1", "--from", folder).err
    (folder / "weights.bin").write_bytes(WEIGHTS)
    assert cli.ok("models", "fetch", "small-1", "--from", folder).rows[0][1] == "2 files fetched"
    assert (folder / "weights.bin").exists()
    assert server.requests == []


@pytest.mark.parametrize("place", ["http://me:hunter2@127.0.0.1/x", "https://127.0.0.1/x?key=hunter2", "https:///x"])
def test_mirrors_carry_no_credentials(models, cli, place):
    """The address of a mirror has a host and no credentials, and what is refused is not repeated."""
    answer = cli("models", "fetch", "small-1", "--from", place)
    assert answer.code == Exit.USAGE
    assert "the address of the mirror cannot be used" in answer.err
    assert "hunter2" not in answer.err


# ── where it may come from ──


def test_plugins_name_https_alone(tmp_path, server):
    """An address of a plugin that anyone on the way could answer is refused before it is asked."""
    model = Model(name="m", plugin="acme", summary="", licence="", files=listed(f"{server.url}/mirror"))
    with pytest.raises(ModelFilesError, match="expected an address of https"):
        fetch_model(model, data_folder=tmp_path / "data", origin=origin_of("m", None))
    assert server.requests == []


def test_redirects(models, cli, server):
    """A server may lead elsewhere, and the range goes with it."""
    server.files["/other?signature=hunter2"] = WEIGHTS
    server.cuts += [300_000]
    server.moved["/mirror/weights.bin"] = "/other?signature=hunter2"
    assert fetch(cli, server).code == Exit.OK
    assert server.requests[3] == ("/other?signature=hunter2", "bytes=300000-")


def test_redirects_away_from_https(server):
    """What began with https does not go on without."""
    with pytest.raises(urllib.error.URLError, match="unknown url type: http"):
        _opener("https").open(f"{server.url}/mirror/weights.bin")
    assert server.requests == []


def test_proxies_of_the_environment(models, cli, server, monkeypatch):
    """The proxy that the environment names is asked."""
    server.files["http://models.example/mirror/weights.bin"] = WEIGHTS
    server.files["http://models.example/mirror/more/tokens.json"] = TOKENS
    monkeypatch.setenv("http_proxy", server.url)
    assert cli.ok("models", "fetch", "small-1", "--from", "http://models.example/mirror").code == Exit.OK
    assert server.requests[0][0] == "http://models.example/mirror/weights.bin"


# ── the disk and other processes ──


@pytest.mark.skipif(os.name != "posix", reason="rights of POSIX")
def test_folders_are_the_users_alone(models, cli, server):
    """Folders that are made for a model are readable by their owner alone, the data folder too."""
    fetch(cli, server)
    folders = (models.parent, models, models / "small-1")
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o700] * 3


def test_too_little_space(models, cli, server, monkeypatch):
    """Without room for it nothing is asked for, and the error says how much is missing: 5."""
    free = shutil.disk_usage("/")._replace(free=len(WEIGHTS))
    monkeypatch.setattr("shutil.disk_usage", lambda path: free)
    answer = fetch(cli, server)
    assert answer.code == Exit.INVALID
    assert f"{len(WEIGHTS) + len(TOKENS)} bytes are to come, {len(WEIGHTS)} are free" in answer.err
    assert server.requests == []


def test_one_process_at_a_time(models, cli, server):
    """A second process waits for the first one, says so, and has nothing left to do."""
    server.gate.clear()
    command = [sys.executable, "-m", "memspine", "--config", cli.config, "models", "fetch", "small-1"]
    command += ["--from", f"{server.url}/mirror"]
    both = []
    for _ in range(2):
        both.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        eventually(lambda: server.requests)
    told = both[1].stderr.readline()
    server.gate.set()
    answers = [process.communicate() for process in both]
    assert told == "memspine: note: another process is fetching this model; waiting for it\n"
    assert [process.returncode for process in both] == [0, 0]
    assert ["2 files fetched" in answers[0][0], "is there already" in answers[1][0]] == [True, True]
    assert len(server.requests) == 2


@pytest.mark.parametrize("times_out", ["the disk", "the origin"])
def test_only_a_taken_lock_is_another_process(models, monkeypatch, times_out):
    """A disk or an origin that takes too long is told as what it is, once, and not as another process that fetches."""
    waits, attempts = [], []

    def late(*arguments, **keywords):
        attempts.append(1)
        raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")

    class Origin:
        opened = late

    if times_out == "the disk":
        monkeypatch.setattr("shutil.disk_usage", late)
    with pytest.raises(TimeoutError, match="Connection timed out"):
        fetch_model(MODEL, data_folder=models.parent, origin=Origin(), on_wait=lambda: waits.append(1))
    assert (waits, attempts) == ([], [1])


def test_interrupted_fetch(models, cli, server):
    """Ctrl-C ends it with 130, what came stays a part, and no lock stays behind."""
    server.files["/mirror/more/tokens.json"] = TOKENS
    server.cuts += [300_000]
    command = [sys.executable, "-c", SLOW, "--config", cli.config, "models", "fetch", "small-1"]
    command += ["--from", f"{server.url}/mirror"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    eventually(lambda: part(models).exists() and part(models).stat().st_size == 300_000)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    assert process.communicate() == ("", "")
    assert process.returncode == Exit.INTERRUPTED
    server.requests.clear()
    assert fetch(cli, server).code == 0
    assert server.requests[0] == ("/mirror/weights.bin", "bytes=300000-")


SLOW = """
import sys
from memspine.cli import main
from memspine.modelfiles import fetching
fetching.PAUSE_SECONDS = 60.0
sys.exit(main())
"""


def eventually(holds):
    ends = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_progress(models, cli, server):
    """On a terminal it shows how far it is; elsewhere and with --json nothing of that is printed."""
    place = f"{server.url}/mirror"
    environ = {"PYTHONPATH": str(models.parent.parent / "site"), "MEMSPINE_DATA": str(models.parent)}
    _, printed = on_terminal(cli, "models", "fetch", "small-1", "--from", place, environ=environ)
    assert "small-1: 1.0 of 1.0 MB" in printed
