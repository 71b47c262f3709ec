"""The command line over a store of the test's own."""

import io
import json
import sys

import attrs
import pytest

from memspine.cli import main


@attrs.frozen
class Answer:
    code: int
    out: str
    err: str

    @property
    def data(self):
        return json.loads(self.out)


@pytest.fixture
def cli(tmp_path, monkeypatch, capsys):
    """The command line over an empty store of its own, without vectors."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    config = work / "settings.toml"
    config.write_text(
        '[memory]\nowner = "me"\n[backends.notes]\nplugin = "sqlite"\npath = "notes.db"\n[embedding]\nsource = "none"\n'
    )

    def run(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        capsys.readouterr()
        code = main(["--config", str(config), *map(str, arguments)])
        written = capsys.readouterr()
        return Answer(int(code), written.out, written.err)

    return run
