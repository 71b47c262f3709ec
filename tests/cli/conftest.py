"""The command line in this process, and as a process of its own; distributions that exist for one test."""

import importlib.metadata
import io
import json
import os
import subprocess
import sys
import types

import attrs
import pytest

from memspine.cli import main

from . import toy


@attrs.frozen
class Answer:
    """What a command gave."""

    code: int
    out: str
    err: str

    @property
    def data(self):
        """The answer as JSON; there has to be exactly one document."""
        return json.loads(self.out)

    @property
    def error(self):
        """The error as JSON; standard error has to hold nothing else."""
        return json.loads(self.err)["error"]

    @property
    def lines(self):
        return self.out.splitlines()

    @property
    def rows(self):
        return [line.split("\t") for line in self.lines]


@attrs.frozen
class CommandLine:
    """`memspine` with a configuration of the test's own."""

    config: str
    capsys: object
    monkeypatch: object
    environ: dict

    def __call__(self, *arguments, stdin=b"", config=None):
        """Run in this process."""
        stream = io.TextIOWrapper(io.BytesIO(stdin if isinstance(stdin, bytes) else stdin.encode()), encoding="utf-8")
        self.monkeypatch.setattr(sys, "stdin", stream)
        self.capsys.readouterr()
        code = main([*self._options(config), *map(str, arguments)])
        written = self.capsys.readouterr()
        return Answer(int(code), written.out, written.err)

    def ok(self, *arguments, **keywords):
        """Run, and succeed."""
        answer = self(*arguments, **keywords)
        assert answer.code == 0, f"exit code {answer.code}\n{answer.out}\n{answer.err}"
        return answer

    def add(self, *arguments, **keywords):
        """Remember something; the id."""
        return self.ok("add", "--json", *arguments, **keywords).data["id"]

    def process(self, *arguments, stdin=b"", config=None, environ=None, encoding="utf-8"):
        """Run as a process of its own."""
        run = subprocess.run(
            [sys.executable, "-m", "memspine", *self._options(config), *map(str, arguments)],
            input=stdin,
            capture_output=True,
            env={**self.environ, **(environ or {})},
            check=False,
        )
        return Answer(run.returncode, run.stdout.decode(encoding), run.stderr.decode(encoding))

    def _options(self, config):
        name = self.config if config is None else str(config)
        return ["--config", name] if name else []


@pytest.fixture
def work(tmp_path, monkeypatch):
    """The folder that the commands run in."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def config(work):
    """A configuration with the SQLite backend, and without vectors, whatever sources are installed."""
    path = work / "settings.toml"
    path.write_text(
        '[memory]\nowner = "me"\n\n[backends.notes]\nplugin = "sqlite"\npath = "notes.db"\n'
        '\n[embedding]\nsource = "none"\n'
    )
    return path


@pytest.fixture
def cli(config, capsys, monkeypatch):
    """The command line over an empty SQLite store."""
    return CommandLine(str(config), capsys, monkeypatch, {**os.environ, "PYTHONWARNINGS": "error"})


_GROUPS = ("memspine", "memspine.commands")


def _read(entry):
    """An entry point whose distribution has been read already."""
    distribution = types.SimpleNamespace(name=entry.dist.name, version=entry.dist.version)
    return types.SimpleNamespace(name=entry.name, value=entry.value, dist=distribution)


@pytest.fixture
def unprivileged(cli, monkeypatch):
    """Turns this process into one without privileges until the test is over; what root may do proves nothing."""
    # The environment of the tests may be root's alone: what is installed is found, and imported, beforehand.
    cli.add("imports what root alone may be able to read")
    cli("get", "nope")
    found = {group: [_read(entry) for entry in importlib.metadata.entry_points(group=group)] for group in _GROUPS}
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda *, group: found[group])
    root = os.geteuid() == 0
    yield lambda: os.seteuid(65534) if root else None
    if root:
        os.seteuid(0)


@pytest.fixture
def bare(work, capsys, monkeypatch):
    """The command line without --config."""
    return CommandLine("", capsys, monkeypatch, {**os.environ, "PYTHONWARNINGS": "error"})


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Make a distribution that is installed for this test: `install("acme", code)`."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    made = []

    def install(name, code, *, group="memspine", entry=None):
        information = folder / f"{name}-1.5.dist-info"
        information.mkdir()
        about = f"Name: {name}\nVersion: 1.5\nSummary: the summary of {name}\n"
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\n{about}")
        (information / "entry_points.txt").write_text(f"[{group}]\n{name} = {entry or name}\n")
        (folder / f"{name}.py").write_text(code)
        made.append(name)

    yield install
    for name in made:
        sys.modules.pop(name, None)


@attrs.frozen
class Toy:
    """The source of `toy.py`, in use."""

    folder: object
    config: object

    @property
    def log(self):
        """What the source was asked."""
        file = self.folder / "log"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def embedded(self):
        """The memories that it embedded, in their order."""
        return [line.removeprefix("document ") for line in self.log if line.startswith("document ")]

    def configure(self, **options):
        """Other options of the source."""
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in options.items())
        store = '[backends.notes]\nplugin = "sqlite"\npath = "notes.db"\n'
        self.config.write_text(
            f'{store}[embedding]\nsource = "toy"\n[embedding.toy]\nfolder = "{self.folder}"\n{lines}'
        )

    def fails(self, *, now=True, how="broken"):
        """Whether it is out of order from now on: "broken", or "lost" if not even its model is there."""
        if now:
            (self.folder / how).touch()
        else:
            (self.folder / how).unlink()


@pytest.fixture
def toy_source(install, config, tmp_path):
    """A configuration whose embedding source is the toy."""
    install("toy", toy.CODE)
    folder = tmp_path / "toy"
    folder.mkdir()
    made = Toy(folder, config)
    made.configure()
    return made
