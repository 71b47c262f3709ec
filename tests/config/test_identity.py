"""Which store a backend is, told from its options."""

import os

import attrs

from memspine.config import config_from_mapping
from memspine.plugins import Plugins


def identity(folder, *, data=None, **table):
    """Of a backend in a configuration that stands in a folder."""
    table = {"plugin": "sqlite", **table}
    config = config_from_mapping(
        {"backends": {"notes": table}}, plugins=Plugins(), folder=folder, data_folder=data or folder / "data"
    )
    return config.primary.identity(config.folders)


@attrs.frozen
class Kept:
    """A credential that a program holds."""

    value: str

    def reveal(self):
        return self.value


def test_a_relative_path_is_a_place_of_its_folder(tmp_path):
    """One relative path in two folders names two files; an absolute one, or a link to it, the same from everywhere."""
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
    (other / "link.db").symlink_to(one / "a.db")
    here = identity(one, path="a.db")
    assert here != identity(other, path="a.db")
    assert here == identity(other, path=str(one / "a.db")) == identity(other, path="../one/./a.db", cache_mb=2)
    assert here == identity(other, path="link.db")
    assert here.place == os.path.realpath(one / "a.db")


def test_a_store_without_a_path_is_one_of_the_data_folder(tmp_path):
    """The file that nobody names is the same from every folder, and another one in another data folder."""
    data = tmp_path / "data"
    assert identity(tmp_path / "one", data=data) == identity(tmp_path / "other", data=data)
    assert identity(tmp_path, data=data) != identity(tmp_path, data=tmp_path / "more")


def test_credentials_make_accounts_and_are_not_shown(tmp_path, monkeypatch):
    """A service is another store for another reference or another credential of a program, stays the same when what is
    referred to is renewed, and shows neither."""
    service = {"plugin": "http", "url": "https://memory.example.org/v1"}
    monkeypatch.setenv("KEY", "old")
    keys = [None, {"env": "KEY"}, {"env": "OTHER"}, {"file": "KEY"}, Kept("a"), Kept("b")]
    found = [identity(tmp_path, **service, **({"api_key": key} if key else {})) for key in keys]
    assert len({one.mark for one in found}) == len(keys)
    assert {one.place for one in found} == {"https://memory.example.org/v1"}
    monkeypatch.setenv("KEY", "new")
    assert identity(tmp_path, **service, api_key={"env": "KEY"}) == found[1]
    assert identity(tmp_path, **service, api_key=Kept("a")) == found[4]


def test_a_plugin_that_names_no_place(tmp_path, plugins):
    """Where no plugin says what of the options is the place, other options and other folders are other stores, and
    nothing of them is shown."""

    def found(folder, **options):
        table = {"plugin": "vault", **options}
        config = config_from_mapping({"backends": {"notes": table}}, plugins=plugins, folder=folder)
        return config.primary.identity(config.folders)

    here = found(tmp_path, url="x")
    assert here == found(tmp_path, url="x", size=1)
    assert here.place == ""
    assert here != found(tmp_path, url="y")
    assert here != found(tmp_path / "other", url="x")
