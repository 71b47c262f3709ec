"""The rules of the code base that neither ruff nor mypy nor import-linter knows."""

import ast
import configparser
import difflib
import io
import math
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
MAX_FUNCTION_LINES = 70
MAX_FILE_LINES = 500
LINES_PER_SUPPRESSION = 200

# The only places that may catch everything, "file::function": why.
CATCHES_EVERYTHING = {
    "core/memspine/blocking.py::MemoryManager.initialize": "ends the thread it began, and raises again",
    "core/memspine/errors.py::describe": "an error whose own text raises is still an error to tell of",
    "core/memspine/placing.py::place_memories": "neither an injector nor a token counter may cost the user an answer",
    "core/memspine/ondemand.py::OnDemand._hold": "a provider that raises anything while it opens or closes has failed",
    "core/memspine/ondemand.py::OnDemand.ask": "the same for its calls: the one place that makes our errors of others'",
    "core/memspine/cli/app.py::main": "the outermost surface: one line and an exit code, whatever happened",
    "core/memspine/plugins.py::_load": "a plugin that fails to load loses only itself, whatever it raises",
    "core/memspine/plugins.py::_resolved": "the same for what a plugin names and is imported at first use",
    "plugins/onnx/src/memspine_onnx/trouble.py::translated": "its libraries raise bare and undocumented exceptions",
}

# What a start must not import: either slow, or needed by few.
HEAVY = frozenset(
    {
        "apsw",
        "cattrs",
        "httpx",
        "hypothesis",
        "markdown_it",
        "mcp",
        "numpy",
        "onnxruntime",
        "sqlite_vec",
        "tenacity",
        "tokenizers",
        "tokie",
        "pytest",
        "qdrant_client",
        "rich",
        "sqlite3",
        "starlette",
        "tomlkit",
        "yaml",
    }
)

# Put together from pieces, so that this file does not break its own rule.
FORBIDDEN_TEXT = re.compile(
    "|".join(
        [
            *(re.escape("/" + name + "/") for name in ("root", "home")),
            re.escape("pyenv" + "/versions"),
            re.escape("pypi" + ".org"),
            re.escape("python" + "hosted.org"),
            re.escape("npm" + "js."),
            re.escape("deb.debian" + ".org"),
            re.escape(str(ROOT) + "/"),
        ]
    )
)

type_ignore = re.compile(r"#\s*type:\s*ignore(?P<code>\[[\w, -]+\])?")
noqa = re.compile(r"#\s*(?:ruff:\s*)?noqa(?P<code>:\s*[A-Z]+\d+)?", re.IGNORECASE)


def python_files(*patterns: str) -> list[Path]:
    """The Python files below the folders that match."""
    return sorted(file for pattern in patterns for folder in ROOT.glob(pattern) for file in folder.rglob("*.py"))


def source_files() -> list[Path]:
    """What is shipped: the kernel and the plugins."""
    files = python_files("core", "plugins/*/src")
    assert files, "no source found: the rule would hold for nothing"
    return files


def committed_files() -> Iterator[Path]:
    """Every file that git tracks or would track, the tests of the architecture left out."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listing.stdout.split("\0")):
        file = ROOT / name
        if file.is_file() and Path(__file__).parent not in file.parents:
            yield file


def named_functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function with its qualified name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield prefix + node.name, node
        inner = prefix + node.name + "." if hasattr(node, "name") and isinstance(node.name, str) else prefix
        yield from named_functions(node, inner)


def line_count(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines from `def` to the end, the docstring not counted."""
    first = function.body[0]
    has_docstring = ast.get_docstring(function, clean=False) is not None
    docstring = (first.end_lineno - first.lineno + 1) if has_docstring else 0
    return function.end_lineno - function.lineno + 1 - docstring


def relative(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def test_functions_are_short():
    """A function has at most 70 lines, its docstring not counted."""
    long = [
        f"{relative(file)}:{function.lineno}: {name} has {line_count(function)} lines"
        for file in source_files()
        for name, function in named_functions(ast.parse(file.read_text(encoding="utf-8")))
        if line_count(function) > MAX_FUNCTION_LINES
    ]
    assert not long, "\n".join(long)


def test_files_are_short():
    """A file has at most 500 lines."""
    lengths = {relative(file): len(file.read_text(encoding="utf-8").splitlines()) for file in source_files()}
    long = [f"{name}: {count} lines" for name, count in lengths.items() if count > MAX_FILE_LINES]
    assert not long, "\n".join(long)


def catches_everything(handler: ast.ExceptHandler) -> bool:
    """Whether the handler is bare or names `Exception` or `BaseException`, alone or in a tuple."""
    if handler.type is None:
        return True
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(name, ast.Name) and name.id in {"Exception", "BaseException"} for name in caught)


def handlers(tree: ast.AST, where: str = "<module>", prefix: str = "") -> Iterator[tuple[str, ast.ExceptHandler]]:
    """Every handler with the qualified name of the function around it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ExceptHandler):
            yield where, node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = prefix + node.name
            yield from handlers(node, where if isinstance(node, ast.ClassDef) else inner, inner + ".")
        else:
            yield from handlers(node, where, prefix)


def test_only_listed_places_catch_everything():
    """Nothing catches `Exception`, `BaseException` or everything, but the places listed here with their reason."""
    found = {
        f"{relative(file)}::{where}": handler.lineno
        for file in source_files()
        for where, handler in handlers(ast.parse(file.read_text(encoding="utf-8")))
        if catches_everything(handler)
    }
    unlisted = [f"{place} (line {line})" for place, line in found.items() if place not in CATCHES_EVERYTHING]
    assert not unlisted, f"catches everything: {unlisted}"
    stale = CATCHES_EVERYTHING.keys() - found.keys()
    assert not stale, f"listed, but catches nothing blindly any more: {sorted(stale)}"


def suppressions(file: Path) -> Iterator[tuple[int, str, bool]]:
    """Line, comment and whether it says what it suppresses, for each suppressing comment."""
    for token in tokenize.generate_tokens(io.StringIO(file.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.COMMENT:
            for match in [*type_ignore.finditer(token.string), *noqa.finditer(token.string)]:
                yield token.start[0], token.string, match["code"] is not None


def test_suppressions_name_their_rule():
    """Every `type: ignore` and `noqa` says which rule it switches off."""
    blanket = [
        f"{relative(file)}:{line}: {comment}"
        for file in [*python_files("core", "plugins", "tests"), *ROOT.glob("*.py")]
        for line, comment, has_code in suppressions(file)
        if not has_code
    ]
    assert not blanket, "\n".join(blanket)


@pytest.mark.parametrize(
    "folders", [("core",), ("plugins/*/src",), ("tests", "plugins/*/tests")], ids=["kernel", "plugins", "tests"]
)
def test_suppressions_are_rare(folders):
    """There is at most one suppressed rule in 200 lines."""
    files = python_files(*folders)
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
    found = [f"{relative(file)}:{line}: {comment}" for file in files for line, comment, _ in suppressions(file)]
    budget = math.ceil(lines / LINES_PER_SUPPRESSION)
    assert len(found) <= budget, f"{len(found)} suppressions in {lines} lines:\n" + "\n".join(found)


def test_every_test_states_its_rule():
    """Every test has a docstring, which is the sentence it proves."""
    files = [*python_files("tests", "plugins/*/tests", "core/memspine/conformance"), *ROOT.glob("*.py")]
    silent = [
        f"{relative(file)}:{function.lineno}: {name}"
        for file in files
        for name, function in named_functions(ast.parse(file.read_text(encoding="utf-8")))
        if function.name.startswith("test_") and not ast.get_docstring(function)
    ]
    assert not silent, "\n".join(silent)


def is_empty_container(value: ast.expr | None) -> bool:
    """Whether the expression is an empty list, dict or set, which only makes sense if it is filled later."""
    if isinstance(value, (ast.List, ast.Dict)):
        return not (value.elts if isinstance(value, ast.List) else value.keys)
    makers = {"list", "dict", "set", "defaultdict", "OrderedDict", "deque"}
    return (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and value.func.id in makers
        and (not value.args or value.func.id == "defaultdict")
    )


def test_modules_hold_no_state():
    """No module starts with an empty container to be filled while running, and no function rebinds a module's name."""
    found = []
    for file in source_files():
        tree = ast.parse(file.read_text(encoding="utf-8"))
        found += [
            f"{relative(file)}:{node.lineno}: an empty container of the module"
            for node in tree.body
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and is_empty_container(node.value)
        ]
        found += [
            f"{relative(file)}:{node.lineno}: global {', '.join(node.names)}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Global)
        ]
    assert not found, "\n".join(found)


def imported_modules(code: str) -> set[str]:
    """The modules that a fresh interpreter imports to run the code, which has to succeed."""
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code],
        cwd=ROOT / "tests",
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, f"exit code {run.returncode}\n{run.stdout}\n{run.stderr[-3000:]}"
    names = re.findall(r"^import time:.*\|\s*([\w.]+)$", run.stderr, re.MULTILINE)
    assert "memspine" in names, "the import was not seen"
    return set(names)


@pytest.mark.parametrize(
    "code",
    [
        "from memspine import MemoryManager; MemoryManager",
        "import sys; sys.argv = ['memspine', '--help']; from memspine.cli import main; sys.exit(main())",
    ],
    ids=["library", "help"],
)
def test_start_imports_nothing_heavy(code):
    """Neither the import of the MemoryManager nor `memspine --help` imports a heavy package."""
    modules = imported_modules(code)
    heavy = {name.partition(".")[0] for name in modules} & HEAVY
    assert not heavy, f"imported at the start: {sorted(heavy)}"
    assert "memspine.config" not in modules, "the configuration is read by whoever opens a store"


def test_command_is_the_one_measured():
    """The command `memspine` runs the function whose start is measured here."""
    assert project(ROOT)["scripts"] == {"memspine": "memspine.cli:main"}


def test_public_api_changes_on_purpose():
    """The public API is that of public_api.txt, which `python tests/arch/public_api.py --write` updates."""
    script = Path(__file__).with_name("public_api.py")
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, encoding="utf-8", check=False)
    assert run.returncode == 0, run.stderr
    written = script.with_suffix(".txt").read_text(encoding="utf-8")
    difference = "\n".join(
        difflib.unified_diff(written.splitlines(), run.stdout.splitlines(), "written", "now", "", "", 0)
    )
    assert not difference, f"{difference}\nIf that is what you want: python {relative(script)} --write"


def test_public_api_is_whole():
    """Every module that the package names as public is in the snapshot of the public API."""
    tree = ast.parse((ROOT / "core" / "memspine" / "__init__.py").read_text(encoding="utf-8"))
    named = set(re.findall(r"`(memspine\.\w+)`", ast.get_docstring(tree)))
    assert len(named) > 5
    written = Path(__file__).with_name("public_api.txt").read_text(encoding="utf-8").splitlines()
    assert named <= set(written)


def test_core_is_no_package():
    """The folder core is no package, or it could be imported under two names."""
    assert (ROOT / "core").is_dir()
    assert not (ROOT / "core" / "__init__.py").exists()


def test_files_name_no_place():
    """No file names a path of the machine it was written on, or the host of a package registry."""
    found = []
    for file in committed_files():
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [
            f"{relative(file)}:{number}: {match[0]}"
            for number, line in enumerate(text.splitlines(), 1)
            for match in FORBIDDEN_TEXT.finditer(line)
        ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_shared_files_are_there_in_ci(without_shared, monkeypatch, ci, outcome):
    """A test that lacks a file of ../shared is skipped, but fails in CI."""
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="no such data"):
        without_shared("no such data")


def test_no_test_skips_for_shared_files_by_itself():
    """What uses ../shared leaves it to the fixture `without_shared` whether to skip or to fail."""
    files = python_files("tests", "plugins/*/tests")
    texts = {relative(file): file.read_text(encoding="utf-8") for file in files if "arch" not in file.parts}
    users = {name: text for name, text in texts.items() if re.search(r'/ "shared"|\.\./shared|NO_DATA', text)}
    assert users
    assert not [name for name, text in users.items() if re.search(r"pytest\.skip|skipif|importorskip", text)]


def settings_of(folder: Path) -> dict:
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))


def project(folder: Path) -> dict:
    return settings_of(folder)["project"]


def plugin_folders() -> list[Path]:
    return sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))


def test_every_plugin_is_checked():
    """A plugin is known to import-linter, mypy, the workspace, the extras and requirements-dev.txt."""
    settings = settings_of(ROOT)
    requirements = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8").splitlines()
    missing = []
    for folder in plugin_folders():
        name, version = project(folder)["name"], project(folder)["version"]
        extra, package = name.removeprefix("memspine-"), name.replace("-", "_")
        places = {
            "tool.importlinter.root_packages": package in settings["tool"]["importlinter"]["root_packages"],
            "tool.mypy.mypy_path": any(
                f"/{relative(folder)}/src" in path for path in settings["tool"]["mypy"]["mypy_path"]
            ),
            "tool.uv.sources": name in settings["tool"]["uv"]["sources"],
            "optional-dependencies": settings["project"]["optional-dependencies"].get(extra) == [f"{name}=={version}"],
            "requirements-dev.txt": any(re.fullmatch(rf"-e (\./)?{relative(folder)}", line) for line in requirements),
        }
        missing += [f"{name} is missing in {place}" for place, is_there in places.items() if not is_there]
    assert not missing, "\n".join(missing)


def oldest_deps() -> list[str]:
    """What the environment `oldest` of tox.ini installs, a line each."""
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    return tox["testenv:oldest"]["deps"].split("\n")[1:]


def strangers(requirements: list[str]) -> list[Requirement]:
    """Those that are not distributions of this repository."""
    found = map(Requirement, requirements)
    return [requirement for requirement in found if requirement.name.partition("-")[0] != "memspine"]


def test_every_dependency_is_tested_at_its_oldest():
    """The environment `oldest` installs every distribution, with every extra that brings a dependency."""
    expected = set()
    for folder in [ROOT, *plugin_folders()]:
        extras = project(folder).get("optional-dependencies", {})
        names = ",".join(sorted(name for name, requirements in extras.items() if strangers(requirements)))
        expected.add(f"-e {relative(folder)}" + (f"[{names}]" if names else ""))
    assert expected == {line for line in oldest_deps() if line.startswith("-e ")}


def test_a_dependency_has_one_lower_bound():
    """All distributions bound a dependency alike: tested together, they would get the highest of their bounds."""
    bounds: dict[str, dict[str, str]] = {}
    named = {"tox.ini": [line for line in oldest_deps() if not line.startswith("-e ")]}
    for folder in [ROOT, *plugin_folders()]:
        settings = settings_of(folder)
        extras, groups = settings["project"].get("optional-dependencies", {}), settings.get("dependency-groups", {})
        lists = [settings["build-system"]["requires"], settings["project"]["dependencies"]]
        named[relative(folder)] = list(chain(*lists, *extras.values(), *groups.values()))
    for place, requirements in named.items():
        for requirement in strangers(requirements):
            name = canonicalize_name(requirement.name)
            bounds.setdefault(name, {}).setdefault(str(requirement.specifier), place)
    assert bounds
    assert not {name: places for name, places in bounds.items() if len(places) > 1}


def test_ci_runs_what_the_readme_says():
    """The test command of .ci/run stands in the README, word by word."""
    commands = [line for line in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines() if "/tox" in line]
    assert len(commands) == 1
    assert commands[0] in (ROOT / "README.md").read_text(encoding="utf-8")
