"""config, plugins, doctor, maintain, new-plugin, and the work after an answer."""

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memspine.cli.codes import Exit

# ── config ──


def test_config_check(cli, config):
    """`config check` says that nothing is wrong, or lists every problem with its line and ends with 3."""
    assert cli.ok("config", "check").out == f"{config}: no problem found; backends: notes (sqlite)\n"
    assert cli.ok("config", "check", "--json").data == {"ok": True, "source": str(config), "problems": []}
    config.write_text(
        '[memory]\nowner = 5\n[backends.notes]\nplugin = "sqlite"\npathh = "x"\n[retrieval]\nlimit = -1\n'
    )
    answer = cli("config", "check")
    assert answer.code == Exit.CONFIG
    told = answer.err.splitlines()
    assert [line.split(": ")[1:3] for line in told] == [
        [f"{config}:2", "memory.owner"], [f"{config}:5", "backends.notes.pathh"], [f"{config}:7", "retrieval.limit"],
    ]  # fmt: skip
    assert "did you mean 'path'?" in told[1]
    problems = cli("config", "check", "--json").error["details"]["problems"]
    assert [problem["line"] for problem in problems] == [2, 5, 7]
    assert list(problems[0]) == ["source", "line", "key", "text"]


def test_config_show(cli, config):
    """`config show` prints each setting with its origin and value."""
    rows = cli.ok("config", "show").rows
    assert ["memory.owner", f"{config}:2", '"me"'] in rows
    assert ["retrieval.limit", "default", "10"] in rows
    assert ["backends.notes.plugin", f"{config}:5", '"sqlite"'] in rows
    data = cli.ok("config", "show", "--json").data
    assert list(data) == ["source", "dataFolder", "settings"]
    assert list(data["settings"][0]) == ["key", "value", "origin", "help"]


def test_config_set_and_unset(cli, config):
    """`config set` changes one key, keeps the comments, says old and new; `unset` takes it out again."""
    config.write_text(f"# mine\n{config.read_text()}\n[retrieval]  # how\nlimit = 5\n")
    assert cli.ok("config", "set", "retrieval.limit", "7").out == f"{config}: retrieval.limit: 5 -> 7\n"
    assert "# mine" in config.read_text()
    assert "[retrieval]  # how\nlimit = 7" in config.read_text()
    data = cli.ok("config", "set", "memory.owner", "Ada", "--json").data
    assert data == {"path": str(config), "key": "memory.owner", "old": "me", "new": "Ada"}
    assert cli.ok("config", "unset", "retrieval.limit").out == f"{config}: retrieval.limit: 7 -> unset\n"
    assert ["retrieval.limit", "default", "10"] in cli.ok("config", "show").rows


@pytest.mark.parametrize("key", ["nope.x", "nope", "retrieval.limit", "memory.owner.name"])
def test_config_unset_of_what_is_not_set(cli, config, key):
    """`config unset` of a key that is not in the file says so, ends with 5, and leaves the file as it is."""
    before = config.read_bytes()
    answer = cli("config", "unset", key)
    assert (answer.code, answer.out) == (Exit.INVALID, "")
    assert answer.err == f"memspine: {config}: there is no key {key}; `memspine config show` says what is set\n"
    assert config.read_bytes() == before


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("retrieval.limi", "5", "did you mean 'limit'?"),
        ("retrieval.limit", "many", "expected int, got str 'many'"),
        ("retrieval.limit", "-5", "out of range"),
        ("backends.notes.plugin", "sqlit", "did you mean 'sqlite'?"),
        ("a..b", "5", "is no key of TOML"),
    ],
)
def test_config_set_refuses_what_would_not_work(cli, config, key, value, said):
    """A change that would make the configuration invalid is refused with 3, and the file stays as it is."""
    before = config.read_bytes()
    answer = cli("config", "set", key, value)
    assert answer.code == Exit.CONFIG
    assert said in answer.err
    assert config.read_bytes() == before


def test_config_path(bare, cli, config, work, tmp_path):
    """`config path` prints the file in use; without one, the file that `config set` would make."""
    assert cli.ok("config", "path").lines == [str(config)]
    answer = bare.ok("config", "path")
    assert answer.lines == [str(tmp_path / "home" / "config" / "memspine" / "memspine.toml")]
    assert "not there yet" in answer.err
    data = bare.ok("config", "path", "--json").data
    assert list(data) == ["path", "origin", "exists", "dataFolder"]
    assert (data["origin"], data["exists"]) == ("defaults", False)
    bare.ok("config", "set", "retrieval.limit", "5")
    assert bare.ok("config", "path", "--json").data["exists"] is True
    (work / "memspine.toml").write_text("")
    answer = bare.ok("config", "path")
    assert answer.lines == [str(work / "memspine.toml")]
    assert answer.err == "memspine: note: using ./memspine.toml\n"


def test_config_set_makes_the_named_file(bare, work):
    """`config set` with --config makes the file it names."""
    bare.ok("config", "set", "retrieval.limit", "5", config="new.toml")
    assert "limit = 5" in (work / "new.toml").read_text()
    assert bare("list", config="newer.toml").code == Exit.CONFIG


def test_secrets_are_checked_and_never_shown(bare, work, install, monkeypatch):
    """`config check` tells of a secret that is missing; neither it nor `config show` shows one that is there."""
    install("vault", SECRETIVE)
    (work / "vault.toml").write_text('[backends.v]\nplugin = "vault"\napi_key = { env = "VAULT_KEY" }\n')
    monkeypatch.delenv("VAULT_KEY", raising=False)
    answer = bare("config", "check", config="vault.toml")
    assert answer.code == Exit.CONFIG
    assert "vault.toml:3: backends.v.api_key: the secret's variable 'VAULT_KEY' is not set" in answer.err
    monkeypatch.setenv("VAULT_KEY", "hunter2")
    bare.ok("config", "check", config="vault.toml")
    for options in ([], ["--json"]):
        shown = bare.ok("config", "show", *options, config="vault.toml")
        assert "hunter2" not in shown.out
        assert "VAULT_KEY" in shown.out


SECRETIVE = """
import attrs
from memspine.contracts import Provider, Secret
from memspine.hookspecs import hookimpl

@attrs.frozen
class Config:
    api_key: Secret

@hookimpl
def memspine_memory_backends():
    return [Provider(name="vault", config_type=Config, open="vault:missing")]
"""


def test_local_file_is_announced(bare, work):
    """A configuration that was found in the folder is announced on standard error, in JSON only to a person."""
    (work / "memspine.toml").write_text('[backends.notes]\nplugin = "sqlite"\npath = "notes.db"\n')
    assert bare.ok("list").err == "memspine: note: using ./memspine.toml\n"
    assert bare.ok("list", "--json").err == ""
    assert bare.ok("list", "--quiet").err == ""


def test_default_needs_no_file(bare, tmp_path):
    """Without any configuration memories are kept in the user's data folder, which nobody else may read."""
    id = bare.add("text")
    assert bare.ok("get", id).lines[-1] == "text"
    folder = tmp_path / "home" / "data" / "memspine"
    assert any(folder.iterdir())
    if os.name == "posix":
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


# ── plugins ──


def test_plugins(cli):
    """`plugins` lists each installed plugin with distribution, version, what it offers and what that can do."""
    rows = cli.ok("plugins").rows
    assert ["sqlite", "memory backend", "sqlite"] in [[row[0], *row[2:4]] for row in rows]
    data = cli.ok("plugins", "--json").data
    assert list(data) == ["data", "total", "commands"]
    assert data["total"] == len(data["data"])
    sqlite = next(plugin for plugin in data["data"] if plugin["name"] == "sqlite")
    assert list(sqlite) == ["name", "distribution", "version", "module", "providers", "error"]
    assert list(sqlite["providers"][0]) == ["kind", "name", "capabilities", "contract", "summary"]
    assert "backup" in sqlite["providers"][0]["capabilities"]


def test_broken_plugins_are_listed_with_the_reason(bare, install):
    """A plugin that fails is a row with its distribution and why; the command still succeeds."""
    install("acme", "import does_not_exist")
    rows = [row for row in bare.ok("plugins").rows if row[0] == "acme"]
    assert rows[0][1:3] == ["acme 1.5", "failed"]
    assert "install the module 'does_not_exist'" in rows[0][-1]
    [acme] = [plugin for plugin in bare.ok("plugins", "--json").data["data"] if plugin["name"] == "acme"]
    assert acme["providers"] == []
    assert "does_not_exist" in acme["error"]


# ── doctor ──


def test_doctor_finds_nothing(cli):
    """`doctor` tells versions, configuration and the health of every store, and ends with 0."""
    cli.add("text")
    answer = cli.ok("doctor")
    assert ["store", "notes", "works"] in answer.rows
    assert any(row[:2] == ["version", "python"] for row in answer.rows)
    assert answer.err == "nothing wrong found\n"
    data = cli.ok("doctor", "--json").data
    assert list(data) == ["ok", "versions", "configuration", "backends", "findings"]
    assert data["ok"] is True
    assert data["versions"]["python"] == sys.version.split()[0]
    assert data["backends"]["notes"]["ok"] is True


def test_doctor_finds_a_broken_configuration(cli, config):
    """With a configuration that cannot be used `doctor` still looks at the rest, and ends with 3."""
    config.write_text('[backends.notes]\nplugin = "sqlit"\n')
    answer = cli("doctor")
    assert answer.code == Exit.CONFIG
    assert any(row[:2] == ["error", "configuration"] and "sqlit" in row[2] for row in answer.rows)
    data = cli("doctor", "--json").data
    assert (data["ok"], data["configuration"], data["backends"]) == (False, None, {})


def test_doctor_finds_a_broken_store(cli, work):
    """A store that does not work is an error with its reason, and the exit code is 7."""
    (work / "notes.db").write_bytes(b"this is no database" * 1000)
    answer = cli("doctor")
    assert answer.code == Exit.UNAVAILABLE
    assert any(row[0] == "error" and row[1] == "store notes" for row in answer.rows)
    assert cli("doctor", "--json").data["backends"]["notes"]["ok"] is False


def test_doctor_finds_a_broken_plugin(cli, install):
    """A plugin that fails and that the configuration does not name is a warning."""
    install("acme", "raise RuntimeError('boom')")
    answer = cli.ok("doctor")
    assert any(row[:2] == ["warning", "plugin acme"] and "boom" in row[2] for row in answer.rows)
    assert answer.err == "1 findings to look at\n"


@pytest.mark.skipif(os.name != "posix", reason="rights of POSIX")
def test_doctor_finds_files_that_others_may_use(bare, tmp_path):
    """Rights that let others read the memories or write the configuration are warnings with the command to run."""
    bare.add("text")
    bare.ok("config", "set", "retrieval.limit", "5")
    folder = tmp_path / "home" / "data" / "memspine"
    settings = tmp_path / "home" / "config" / "memspine" / "memspine.toml"
    folder.chmod(0o755)
    settings.chmod(0o666)
    findings = {finding["about"]: finding for finding in bare.ok("doctor", "--json").data["findings"]}
    assert findings[str(folder)]["advice"] == f"chmod go-rwx {folder}"
    assert findings[str(settings)]["advice"] == f"chmod go-w {settings}"
    assert findings[str(folder)]["level"] == "warning"


# ── maintenance ──


def expire(cli, number):
    """Memories that have expired by now."""
    for index in range(number):
        cli.add(f"text {index}", "--expires", "1s", "--no-maintenance")
    time.sleep(1.1)


MAINTAINED = ("expire", "history", "spaces", "embed", "execute", "deliver")


def test_maintain(cli):
    """`maintain` does all kinds to the end, and says how much each did."""
    expire(cli, 2)
    removed = {"expire": 2, "history": 0, "spaces": 0}
    data = {
        "removed": removed,
        "embedded": 0,
        "executed": 0,
        "delivered": 0,
        "complete": True,
        "troubles": [],
        "failure": None,
    }
    assert cli.ok("maintain", "--json").data == data
    assert cli.ok("maintain").rows == [[kind, "0"] for kind in MAINTAINED]


def test_maintain_watch(cli, config):
    """--watch repeats it until interrupted, each round told at once, and an interruption ends it with 130."""
    import signal

    config.write_text(f"{config.read_text()}\n[maintenance]\ninterval_seconds = 5\n")
    command = [sys.executable, "-c", HASTY, "--config", cli.config, "maintain", "--watch"]
    watch = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=cli.environ)
    rounds = [watch.stdout.readline() for _ in range(3 * len(MAINTAINED))]
    watch.send_signal(signal.SIGINT)
    assert watch.communicate()[1] == ""
    assert watch.returncode == Exit.INTERRUPTED
    assert rounds == [f"{kind}\t0\n" for kind in MAINTAINED] * 3


HASTY = """
import asyncio, sys
from memspine.cli import main
sleep = asyncio.sleep
asyncio.sleep = lambda seconds: sleep(seconds / 100)
sys.exit(main())
"""


@pytest.fixture
def maintained(monkeypatch):
    """The budgets of maintenance after answers."""
    budgets = []

    async def maintain(self, *, budget_seconds, only_loaded):
        assert only_loaded  # nobody waits for a model to load after the answer
        budgets.append(budget_seconds)

    monkeypatch.setattr("memspine.manager.MemoryManager.maintain", maintain)
    return budgets


def test_maintenance_follows_an_answer(cli, maintained):
    """After an answer there is maintenance, for 50 ms or less if so configured, never more."""
    cli.ok("list")
    assert cli("config", "set", "maintenance.budget_ms", "51").code == Exit.CONFIG
    cli.ok("config", "set", "maintenance.budget_ms", "20")
    cli.ok("list")
    assert maintained == [0.05, 0.02]


def test_maintenance_can_be_left_out(cli, maintained):
    """There is none with --no-maintenance, when the configuration says so, after an error, after a look at settings."""
    cli.ok("list", "--no-maintenance")
    cli("get", "nope")
    cli.ok("config", "show")
    cli.ok("config", "set", "maintenance.budget_ms", "0")
    cli.ok("list")
    cli.ok("config", "unset", "maintenance.budget_ms")
    cli.ok("config", "set", "maintenance.enabled", "false")
    cli.ok("list")
    assert maintained == []


def test_maintenance_comes_after_the_answer_and_changes_no_exit_code(cli, monkeypatch, capsys):
    """The answer is out before maintenance begins, and its failure is no failure of the command."""
    from memspine.errors import BackendUnavailable

    answered = []

    async def maintain(self, *, budget_seconds, only_loaded):
        answered.append(capsys.readouterr().out)
        raise BackendUnavailable("notes", "gone")

    cli.add("text", "--no-maintenance")
    monkeypatch.setattr("memspine.manager.MemoryManager.maintain", maintain)
    answer = cli.ok("list")
    assert "\ttext\n" in answered[0]
    assert (answer.code, answer.err) == (0, "")


def test_expired_memories_are_swept_after_an_answer(cli):
    """Maintenance after an answer does its work."""
    expire(cli, 1)
    cli.ok("list")
    assert cli.ok("maintain", "--json").data["removed"]["expire"] == 0


# ── new-plugin ──


def test_new_plugin(bare, work):
    """`new-plugin` writes a distribution and says what to do next."""
    answer = bare.ok("new-plugin", "acme")
    assert "memspine-acme/pyproject.toml" in answer.lines
    assert "  memspine plugins" in answer.lines
    assert (work / "memspine-acme" / "pyproject.toml").is_file()
    data = bare.ok("new-plugin", "bcme", "--folder", "sub", "--json").data
    assert list(data) == ["folder", "files", "next"]
    assert data["folder"] == str(Path("sub", "memspine-bcme"))
    assert bare.ok("new-plugin", "ccme", "--quiet").lines[-1].startswith("memspine-ccme")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Acme!", "a letter first"),
        ("class", "no keyword of Python"),
        ("sqlite", "no plugin of memspine"),
        ("../x", ""),
    ],
)
def test_new_plugin_of_an_impossible_name(bare, work, name, said):
    """A name that cannot be a plugin's is refused with 5, and nothing is written."""
    answer = bare("new-plugin", name)
    assert answer.code == Exit.INVALID
    assert said in answer.err
    assert list(work.iterdir()) == []


def test_new_plugin_overwrites_nothing(bare, work):
    """A folder that holds something is refused."""
    bare.ok("new-plugin", "acme")
    answer = bare("new-plugin", "acme", "--json")
    assert answer.code == Exit.INVALID
    assert "nothing is overwritten" in answer.error["message"]
