"""Changing one key of a file: what is written, what stays, and what happens when it cannot be done."""

import copy
import os
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memspine.config import find_config, load_config, set_value, unset_value, user_config_file
from memspine.config.edit import _parses_as
from memspine.config.files import locked
from memspine.config.show import toml_text
from memspine.config.splice import with_value, without_value
from memspine.errors import ConfigError

START = """\
# who
[memory]   # first
owner = "me"    # me
  session = ''

# how
[retrieval]
limit = 5
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "memspine.toml"
    path.write_text(START, encoding="utf-8")
    return path


CHAIN = """\
[memory]
primary = "a"
fallbacks = ["b"]
[backends.a]
plugin = "full"
[backends.b]
plugin = "vault"
"""

CHANGES = [
    # before, key, value, after
    (START, "retrieval.limit", "7", START.replace("limit = 5", "limit = 7")),
    (START, "memory.owner", '"you"', START.replace('"me"', '"you"')),
    (START, "memory.owner", "you and me", START.replace('"me"', '"you and me"')),
    (START, "memory.owner", "'a\"b'", START.replace('"me"', "'a\"b'")),
    (START, "memory.owner", "a # b", START.replace('"me"', '"a # b"')),
    (START, "memory.owner", 'x"\nlimit = "y', START.replace('"me"', '"x\\"\\nlimit = \\"y"')),
    (START, "retrieval.max_tokens", "0x10", START + "max_tokens = 0x10\n"),
    (START, "memory.history_days", " 1 ", START.replace("''\n", "''\n  history_days = 1\n")),
    (START, "injection.limit", "3", START + "\n[injection]\nlimit = 3\n"),
    (START, "backends.notes.plugin", "full", START + '\n[backends.notes]\nplugin = "full"\n'),
    ("", "memory.owner", "you", '[memory]\nowner = "you"\n'),
    ("# empty", "memory.owner", "you", '# empty\n\n[memory]\nowner = "you"\n'),
    ("[memory]", "memory.owner", "you", '[memory]\nowner = "you"\n'),
    ("[memory] # c", "memory.owner", "you", '[memory] # c\nowner = "you"\n'),
    (
        'memory.owner = "a" # c\n[retrieval]\n', "memory.session", "s",
        'memory.owner = "a" # c\nmemory.session = "s"\n[retrieval]\n',
    ),
    ("memory = { owner = 'a' } # c\n", "memory.session", "s", 'memory = { owner = "a", session = "s" } # c\n'),
    ("memory = { owner = 'a' } # c\n", "memory.owner", "b", 'memory = { owner = "b" } # c\n'),
    (
        "[memory]\r\nowner = 'a' # c\r\n[retrieval]\r\n", "memory.session", "s",
        "[memory]\r\nowner = 'a' # c\r\nsession = \"s\"\r\n[retrieval]\r\n",
    ),
    ("[memory]\r\n", "retrieval.limit", "2", "[memory]\r\n\r\n[retrieval]\r\nlimit = 2\r\n"),
    ("[memory]\nowner = '''\na'''  # c\n", "memory.owner", "b", '[memory]\nowner = "b"  # c\n'),
    (
        '[backends.a]\nplugin = "full"\n\n# how\n[retrieval]\nlimit = 1\n[memory]\nprimary = "a"\n',
        "backends.b.plugin", "full",
        ('[backends.a]\nplugin = "full"\n\n[backends.b]\nplugin = "full"\n\n'
         '# how\n[retrieval]\nlimit = 1\n[memory]\nprimary = "a"\n'),
    ),
    (
        '[backends.a]\nplugin = "full"\n', "backends.a.api_key", '{ env = "KEY" }',
        '[backends.a]\nplugin = "full"\napi_key = { env = "KEY" }\n',
    ),
    (
        '[backends.a]\nplugin = "full"\nheaders = { A = "x" }\n', 'backends.a.headers."B c"', "y",
        '[backends.a]\nplugin = "full"\nheaders = { A = "x", "B c" = "y" }\n',
    ),
    (START, "embedding.source", "onnx", START + '\n[embedding]\nsource = "onnx"\n'),
    (
        '[embedding]\nsource = "auto"\n\n# how\n[retrieval]\n', "embedding.onnx.threads", "2",
        '[embedding]\nsource = "auto"\n\n[embedding.onnx]\nthreads = 2\n\n# how\n[retrieval]\n',
    ),
    (
        '[embedding]\nsource = "onnx"\n[embedding.onnx]\n', "embedding.fallback", "none",
        '[embedding]\nsource = "onnx"\nfallback = "none"\n[embedding.onnx]\n',
    ),
    (
        "[embedding.onnx]\nthreads = 2\n", "embedding.onnx.api_key", '{ env = "KEY" }',
        '[embedding.onnx]\nthreads = 2\napi_key = { env = "KEY" }\n',
    ),
    ("", "vectors.cells", "3", "[vectors]\ncells = 3\n"),
    ("", "journal.path", "waiting.db", '[journal]\npath = "waiting.db"\n'),
    (CHAIN, "backends.b.replicate", "true", CHAIN + "replicate = true\n"),
    (CHAIN, "memory.on_write_failure", "spool", CHAIN.replace("]\n[", ']\non_write_failure = "spool"\n[', 1)),
    ("[rerank.onnx]\n", "rerank.source", "onnx", '[rerank.onnx]\n\n[rerank]\nsource = "onnx"\n'),
]  # fmt: skip


@pytest.mark.parametrize("case", CHANGES)
def test_what_is_written(case, file, plugins):
    """One key is written where a person would write it, and no other character changes."""
    before, key, value, after = case
    file.write_bytes(before.encode())
    set_value(file, key, value, plugins=plugins)
    assert file.read_bytes().decode() == after


def test_change(file, plugins):
    """A change tells the plain values before and after."""
    change = set_value(file, ' retrieval . "limit" ', "7", plugins=plugins)
    assert (change.path, change.key, change.old, change.new) == (file, "retrieval.limit", 5, 7)
    change = set_value(file, "retrieval.max_tokens", "7", plugins=plugins)
    assert (change.old, change.new) == (None, 7)
    assert load_config(file, plugins=plugins).retrieval.max_tokens == 7


@pytest.mark.parametrize(
    ("before", "key", "after"),
    [
        (START, "retrieval.limit", START.replace("limit = 5\n", "")),
        (START, "memory.owner", START.replace('owner = "me"    # me\n', "")),
        (START, "memory", "# who\n\n# how\n[retrieval]\nlimit = 5\n"),
        (START, "memory.history_days", START),
        (START, "injection", START),
        ("memory.owner = 'a'\nmemory.session = 'b'", "memory", ""),
        ("memory = { owner = 'a', session = 'b' } # c\n", "memory.owner", 'memory = { session = "b" } # c\n'),
        ('[backends.a]\nplugin = "full"\n[backends.a.retry]\npause = 1\n', "backends.a", ""),
        (
            "[embedding]\nsource = 'onnx'\n[embedding.onnx]\nthreads = 2\n",
            "embedding.onnx",
            "[embedding]\nsource = 'onnx'\n",
        ),
        ("[embedding.onnx]\nthreads = 2\nmodel = 'x'\n", "embedding.onnx.threads", "[embedding.onnx]\nmodel = 'x'\n"),
    ],
)
def test_unset(before, key, after, file, plugins):
    """A key or table goes with its lines, all else stays; without it nothing is written."""
    file.write_text(before, encoding="utf-8")
    assert unset_value(file, key, plugins=plugins).new is None
    assert file.read_text(encoding="utf-8") == after


@pytest.mark.parametrize(
    "case",
    [
        (START, "retrieval.limit", "0", "8: retrieval.limit: 0 is out of range; expected 1..10000"),
        (START, "retrieval.limit", "many", "8: retrieval.limit: expected int, got str 'many'"),
        (START, "retrieval.limt", "1", "9: retrieval.limt: unknown key; did you mean 'limit'?"),
        (START, "retrieval", "1", "7: retrieval: cannot be changed where it is written; change it by hand"),
        (START, "memory.owner.name", "1", " memory.owner: expected a table, got str 'me'"),
        (START, "owner", "x", "1: owner: unknown key"),
        (START, "backends.a.path", "x", "10: backends.a: missing required key 'plugin'"),
        ("[memory]\nowner = 1\n", "retrieval.limit", "1", "2: memory.owner: expected str, got int 1"),
        (CHAIN, "backends.a.replicate", "true", "6: backends.a.replicate: 'a' is the primary, so it is no replica"),
        ("[memory\n", "retrieval.limit", "1", "1: not TOML: "),
        ("[[steps]]\n", "steps.a", "1", " steps: expected a table, got an array"),
        ("", "embedding.onnx.thread", "1", "2: embedding.onnx.thread: unknown key; did you mean 'threads'?"),
        ("", "embedding.source", "onx", "2: embedding.source: 'onx' is neither a table [embedding.NAME] nor"),
        ("", "vectors.cells", "0", "2: vectors.cells: 'cells' must be >= 1: 0"),
    ],
)
def test_nothing_is_written_when_something_is_wrong(case, file, plugins):
    """A change that gives no valid configuration, or a file that is none, is an error, and the file stays."""
    before, key, value, text = case
    file.write_text(before, encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        set_value(file, key, value, plugins=plugins)
    assert str(error.value).startswith(f"{file}:{text}")
    assert file.read_text(encoding="utf-8") == before


def test_secrets_are_not_set(file, plugins):
    """A secret itself is refused and not shown."""
    file.write_text('[backends.a]\nplugin = "full"\n', encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        set_value(file, "backends.a.api_key", "sk-12345", plugins=plugins)
    assert "a secret is never written down here" in str(error.value)
    assert "sk-12345" not in str(error.value)


@pytest.mark.parametrize("key", ["", "a b", "a = 1\nb", "memory..owner"])
def test_keys_that_are_none(key, file, plugins):
    """What is no key of TOML is refused."""
    with pytest.raises(ConfigError, match="is no key of TOML"):
        set_value(file, key, "1", plugins=plugins)


def test_missing_file(tmp_path, plugins):
    """File and folder are made, for their owner alone; a mistake makes neither."""
    file = tmp_path / "a" / "b" / "memspine.toml"
    with pytest.raises(ConfigError):
        set_value(file, "memory.owner", "''", plugins=plugins)
    unset_value(file, "memory.owner", plugins=plugins)
    assert list(tmp_path.glob("a")) == []
    set_value(file, "memory.owner", "you", plugins=plugins)
    assert file.read_text(encoding="utf-8") == '[memory]\nowner = "you"\n'
    if os.name == "posix":
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.name != "posix", reason="there are no modes of files")
def test_mode_and_links_stay(file, tmp_path, plugins):
    """The mode of the file stays, and a link to it stays a link, a broken one too."""
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    file.chmod(0o640)
    set_value(link, "retrieval.limit", "7", plugins=plugins)
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o640
    assert "limit = 7" in file.read_text(encoding="utf-8")
    file.unlink()
    set_value(link, "retrieval.limit", "8", plugins=plugins)
    assert link.is_symlink()
    assert file.read_text(encoding="utf-8") == "[retrieval]\nlimit = 8\n"


def test_nothing_is_left_behind(file, plugins, monkeypatch):
    """Beside the file there is its lock file and nothing else, not even after a failure, which leaves the old file."""
    set_value(file, "retrieval.limit", "7", plugins=plugins)

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ConfigError, match="cannot be written: No space left on device"):
        set_value(file, "retrieval.limit", "8", plugins=plugins)
    assert sorted(path.name for path in file.parent.iterdir()) == [".memspine.toml.lock", "memspine.toml"]
    assert "limit = 7" in file.read_text(encoding="utf-8")


def test_read_only_file(file, plugins, monkeypatch):
    """A file that its owner made read-only is not replaced."""
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with pytest.raises(ConfigError, match="cannot be written: it is read-only"):
        set_value(file, "retrieval.limit", "7", plugins=plugins)
    assert file.read_text(encoding="utf-8") == START


def test_folder_instead_of_a_file(tmp_path, plugins):
    """A folder is refused."""
    with pytest.raises(ConfigError, match="is a folder"):
        set_value(tmp_path, "retrieval.limit", "7", plugins=plugins)


def test_locked_file(file, plugins):
    """A change waits for another one, but not for ever."""
    busy = pytest.raises(ConfigError, match=r"is being changed by another process for more than 0\.05 s; try again$")
    with locked(file, timeout_seconds=1), busy:
        set_value(file, "retrieval.limit", "7", plugins=plugins, timeout_seconds=0.05)
    set_value(file, "retrieval.limit", "7", plugins=plugins, timeout_seconds=0.05)


def test_changing_the_file_that_was_found(plugins, tmp_path):
    """The file of a ConfigSource, or else the user's, can be changed and is found again."""
    assert find_config(environ={}, working_folder=tmp_path).path is None
    set_value(user_config_file(), "memory.owner", "you", plugins=plugins)
    assert load_config(plugins=plugins, environ={}, working_folder=tmp_path).memory.owner == "you"


def test_origin_of_the_file_is_respected(file, plugins):
    """A reference to a secret is not written into a file that will be found only in the working folder."""
    file.write_text('[backends.a]\nplugin = "full"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match="may not refer to secrets"):
        set_value(file, "backends.a.api_key", '{ env = "KEY" }', plugins=plugins, origin="folder")


WORKER = """
    import sys, types
    sys.path.insert(0, {folder!r})
    from conftest import Options, module_of, provider
    from memspine.config import set_value
    from memspine.plugins import PluginEntry, Plugins

    sys.modules["fake"] = module_of(provider("sqlite", Options))
    plugins = Plugins(find=lambda: [PluginEntry(name="sqlite", module="fake")])
    for number in range(20):
        set_value({file!r}, f"backends.b.headers.{{sys.argv[1]}}{{number}}", "x", plugins=plugins, timeout_seconds=60)
"""


def test_two_processes_lose_nothing(file):
    """Two processes that change the file at the same time lose no change of the other."""
    file.write_text(START + '[backends.b]\nplugin = "sqlite"\n', encoding="utf-8")
    code = textwrap.dedent(WORKER.format(folder=str(Path(__file__).parent), file=str(file)))
    workers = [subprocess.Popen([sys.executable, "-c", code, name]) for name in "xy"]
    assert [worker.wait(timeout=120) for worker in workers] == [0, 0]
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    assert document["backends"]["b"]["headers"].keys() == {f"{name}{n}" for name in "xy" for n in range(20)}


LINES = st.sampled_from(
    ["", "# c", "a = 1", " b = [\n 1, # x\n 2 ] # c", "c.d = 'x'", '"e f" = """\n[x]\n"""', "c.g = {h = 1}"]
)
KEYS = st.sampled_from(
    [["a"], ["b"], ["c", "d"], ["c", "i"], ["c", "g", "h"], ["c", "g", "j"], ["e f"], ["new"], ["n", "m"]]
)
TABLES = ["x", "y", "s.t", "s.u", "s.t.v", "s"]
VALUES = st.one_of(st.integers(), st.booleans(), st.text(st.characters(codec="utf-8")), st.lists(st.integers()))


@st.composite
def documents(draw):
    """A document of tables in any order, with comments between."""
    text = ""
    for table in [None, *draw(st.lists(st.sampled_from(TABLES), unique=True))]:
        text += draw(st.sampled_from(["", "\n", "# about\n", "\n# about\n\n"])) if table else ""
        text += f"[{table}] # head\n" if table else ""
        for line in draw(st.lists(LINES, unique=True, max_size=4)):
            text += line + "\n"
    return text[: draw(st.sampled_from([None, -1]))]


@given(documents(), st.sampled_from([None, *TABLES]), KEYS, VALUES)
def test_a_change_keeps_everything_else(text, table, keys, value):
    """Setting any key of any document changes that key alone and no comment; unsetting it again does the same."""
    path = (*(table.split(".") if table else ()), *keys)
    document = tomllib.loads(text)
    inner = document
    for key in path[:-1]:
        inner = inner.setdefault(key, {})
    is_new = path[-1] not in inner
    before = copy.deepcopy(document)
    inner[path[-1]] = value
    results = with_value(text, path, toml_text(value), document=document)
    result = next(result for result in results if _parses_as(result, document))
    comments = text.count("# c") + text.count("# about") + text.count("# head")
    assert result.count("# c") + result.count("# about") + result.count("# head") >= comments - text.count("# x")
    if is_new and path[-2:-1] != ("g",):
        left = iter(result.splitlines())
        assert all(line in left for line in text.splitlines())  # in this order
        assert _parses_as(without_value(result, path, document=before), before)
