"""Finds the configuration file, reads it, and checks it: a Config, or a ConfigError with everything that is wrong."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from memspine.config.chains import check_chain
from memspine.config.instances import BACKENDS, RERANKERS, SOURCES, check_choice, check_instances
from memspine.config.locate import KeyPath
from memspine.config.schema import (
    DEFAULT_BACKEND,
    FILE_NAME,
    SIMPLE_TABLES,
    TABLES,
    BackendSettings,
    Config,
    ConfigSource,
    EmbeddingSettings,
    Origin,
    RerankSettings,
)
from memspine.config.secrets import references
from memspine.config.stores import check_vectors
from memspine.config.structure import INVALID, Structurer, located, suggestion
from memspine.contracts import Folders
from memspine.errors import ConfigError
from memspine.model import Problem
from memspine.plugins import Plugins

FILE_BYTES_MAX: Final = 1024 * 1024

_POSITION: Final = re.compile(r" \(at line (\d+), column (\d+)\)$")
_AT_END: Final = " (at end of document)"


def load_config(
    path: str | os.PathLike[str] | None = None,
    *,
    plugins: Plugins,
    environ: Mapping[str, str] | None = None,
    working_folder: Path | None = None,
) -> Config:
    """The configuration: of `path`, else of $MEMSPINE_CONFIG, ./memspine.toml, the user's, else the defaults.

    Raises ConfigError with every problem.
    """
    environ = os.environ if environ is None else environ
    source = find_config(path, environ=environ, working_folder=working_folder)
    return check_source(source, plugins=plugins, environ=environ, working_folder=working_folder)


def config_from_mapping(
    mapping: Mapping[str, Any],
    *,
    plugins: Plugins,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
    data_folder: Path | None = None,
    name: str = "configuration",
) -> Config:
    """The configuration that a program builds itself, checked like a file; relative paths start at `folder`.

    Raises ConfigError with every problem, whose source is `name`.
    """
    environ = os.environ if environ is None else environ
    folder = Path.cwd() if folder is None else folder
    source = ConfigSource(path=None, origin="mapping", folder=folder, name=name)
    if data_folder is None:
        data_folder = find_data_folder(environ=environ, working_folder=folder)
    return check_document(mapping, source=source, plugins=plugins, environ=environ, data_folder=data_folder)


def find_config(
    path: str | os.PathLike[str] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    working_folder: Path | None = None,
) -> ConfigSource:
    """The file that `load_config` would take, read but not checked. Raises ConfigError if it cannot be read."""
    environ = os.environ if environ is None else environ
    folder = Path.cwd() if working_folder is None else working_folder
    if path is not None:
        return read_source(folder / expanded(path), origin="option", name=str(path))
    if named := environ.get("MEMSPINE_CONFIG"):
        return read_source(folder / expanded(named, source="$MEMSPINE_CONFIG"), origin="environment", name=named)
    notes: tuple[str, ...] = ()
    local = folder / FILE_NAME
    if os.path.lexists(local):
        if not (objection := _objection(local)):
            source = read_source(local, origin="folder", name=FILE_NAME)
            return attrs.evolve(source, notes=(f"using ./{FILE_NAME}",))
        notes = (f"ignoring ./{FILE_NAME}: {objection}",)
    user = user_config_file()
    if os.path.lexists(user):
        return attrs.evolve(read_source(user, origin="user", name=str(user)), notes=notes)
    return ConfigSource(path=None, origin="defaults", folder=folder, name="defaults", notes=notes)


def user_config_file() -> Path:
    """The file in the user's configuration folder, there or not."""
    from platformdirs import user_config_path

    return user_config_path("memspine") / FILE_NAME


def find_data_folder(*, environ: Mapping[str, str] | None = None, working_folder: Path | None = None) -> Path:
    """Where memories are kept when the configuration does not say: $MEMSPINE_DATA, else the user's data folder."""
    from platformdirs import user_data_path

    if named := (os.environ if environ is None else environ).get("MEMSPINE_DATA"):
        return (Path.cwd() if working_folder is None else working_folder) / expanded(named, source="$MEMSPINE_DATA")
    return user_data_path("memspine")


def expanded(path: str | os.PathLike[str], *, source: str | None = None) -> Path:
    """The path with the home folder that `~` or `~user` stands for. Raises ConfigError where there is none.

    `source` is how the problem calls what named the path (default: the path itself).
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        text = f"{Path(path).parts[0]!r} is nobody's home folder; name the folder in full"
        raise _failed(source or str(path), text) from None


def check_source(
    source: ConfigSource,
    *,
    plugins: Plugins,
    environ: Mapping[str, str] | None = None,
    working_folder: Path | None = None,
) -> Config:
    """The configuration in what was read. Raises ConfigError with every problem."""
    environ = os.environ if environ is None else environ
    data_folder = find_data_folder(environ=environ, working_folder=working_folder)
    document = parse(source.text or "", name=source.name)
    return check_document(document, source=source, plugins=plugins, environ=environ, data_folder=data_folder)


def read_source(path: Path, *, origin: Origin, name: str) -> ConfigSource:
    """The text of a file, its line ends kept. Raises ConfigError if it is no readable UTF-8 text of at most 1 MiB."""
    try:
        if path.is_dir():
            raise _failed(name, "is a folder; name a file")
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        reasons = {"option": "", "environment": "; $MEMSPINE_CONFIG names it"}
        raise _failed(name, f"does not exist{reasons.get(origin, '; it is a broken link')}") from None
    except (OSError, ValueError) as error:
        raise _failed(name, f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(content) > FILE_BYTES_MAX:
        raise _failed(name, f"is larger than {FILE_BYTES_MAX} bytes")
    if content.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise _failed(name, "starts with a byte order mark; save it as UTF-8 without one", line=1)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _failed(name, f"byte 0x{content[error.start]:02x} is not UTF-8; save it as UTF-8", line=line) from None
    return ConfigSource(path=path, origin=origin, folder=path.absolute().parent, name=name, text=text)


def parse(text: str, *, name: str) -> dict[str, Any]:
    """A document as tomllib sees it. Raises ConfigError with the line of the first syntax error."""
    import tomllib

    try:
        return tomllib.loads(text)
    except ValueError as error:  # TOMLDecodeError is one, and so is what int() says to 5000 digits
        message = str(error)
        line: int | None = None
        if match := _POSITION.search(message):
            line = int(match[1])
            message = f"{message[: match.start()]} (column {match[2]})"
        elif message.endswith(_AT_END):
            line = text.rstrip("\n").count("\n") + 1
        raise _failed(name, f"not TOML: {message}", line=line) from None
    except RecursionError:
        raise _failed(name, "is nested too deeply") from None


def check_document(
    document: Mapping[str, Any],
    *,
    source: ConfigSource,
    plugins: Plugins,
    environ: Mapping[str, str],
    data_folder: Path,
) -> Config:
    """The configuration in a parsed document. Raises ConfigError with every problem, in the order of its lines."""
    structurer = Structurer(source=source, environ=environ)
    _check_tables(structurer, document)
    settings = {name: structurer.table((name,), document.get(name, {}), cls) for name, cls in SIMPLE_TABLES.items()}
    tables = document.get("backends", {})
    tables = {DEFAULT_BACKEND: {"plugin": DEFAULT_BACKEND}} if tables == {} else tables
    backends = check_instances(structurer, BACKENDS, tables, plugins)
    folders = Folders(config_folder=source.folder, data_folder=data_folder)
    check_chain(structurer, document, backends, folders=folders)
    settings["embedding"], sources = check_choice(
        structurer,
        SOURCES,
        document.get("embedding", {}),
        EmbeddingSettings,
        keys=("source", "fallback"),
        plugins=plugins,
    )
    primary = _primary(settings["memory"], backends)
    settings["vectors"], store = check_vectors(structurer, document, primary=primary, plugins=plugins)
    settings["rerank"], rerankers = check_choice(
        structurer, RERANKERS, document.get("rerank", {}), RerankSettings, keys=("source",), plugins=plugins
    )
    structurer.raise_problems()
    return Config(
        **settings,
        backends=backends,
        sources=sources,
        store=store,
        rerankers=rerankers,
        source=source,
        data_folder=data_folder,
        document=document,
    )


def check_secrets(config: Config) -> tuple[Problem, ...]:
    """The references to secrets that lead nowhere now, by line. Nothing of a secret is kept."""
    problems: list[tuple[KeyPath, str]] = []
    for table, instance in config.instances:
        for path, secret in references(table, instance.options):
            try:
                secret.reveal()
            except ConfigError as error:
                problems += [(path, problem.text) for problem in error.problems]
    return located(problems, config.source)


def _check_tables(structurer: Structurer, document: Mapping[str, Any]) -> None:
    known = [*TABLES, "backends"]
    for key, value in document.items():
        if key not in known:
            what = "table" if isinstance(value, (Mapping, list)) else "key"
            structurer.refuse((key,), f"unknown {what}{suggestion(str(key), known)}")


def _primary(memory: Any, backends: tuple[BackendSettings, ...]) -> BackendSettings | None:
    """The primary, if it can be told in spite of problems."""
    if memory is INVALID:
        return None
    named = [backend for backend in backends if backend.name == (memory.primary or backend.name)]
    return named[0] if len(named) == 1 else None


def _failed(name: str, text: str, *, line: int | None = None) -> ConfigError:
    return ConfigError([Problem(source=name, line=line, key="", text=text)])


def _objection(path: Path) -> str:
    """Why a file that nobody named is not used: it may be a stranger's. Empty if it may be."""
    if not hasattr(os, "getuid"):
        return ""
    try:
        found = [path.lstat(), path.stat()]
    except OSError as error:
        return error.strerror or str(error)
    if any(status.st_uid != os.getuid() for status in found):
        return "it belongs to another user; name it with --config if you trust it"
    if found[1].st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others may write it; chmod go-w {FILE_NAME}"
    return ""
