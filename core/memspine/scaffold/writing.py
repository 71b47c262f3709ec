"""Writes the files of a new plugin from the templates beside this module."""

from __future__ import annotations

import importlib.resources
import keyword
import re
import shlex
from collections.abc import Iterator, Mapping
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from memspine import __version__
from memspine.errors import MemspineError
from memspine.plugins import installed_entries

NAME_LENGTH_MAX: Final = 30

_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
# Ours, whether they are installed just now or not.
_TAKEN: Final = frozenset({"injection", "memspine", "reference", "sqlite"})
# Templates carry it so that no tool takes them for what they become.
_SUFFIX: Final = ".tmpl"
_TOKEN: Final = re.compile(r"\{\{(\w+)\}\}")
_MODULE_IN_PATHS: Final = "MODULE"


class ScaffoldError(MemspineError):
    """A plugin that cannot be written; nothing was."""

    def __init__(self, field: str, value: object, expected: str) -> None:
        self.field, self.value, self.expected = field, value, expected
        super().__init__(f"{field} {str(value)!r} cannot be used; expected {expected}")


def write_plugin(name: str, folder: Path) -> tuple[Path, ...]:
    """Write the distribution `memspine-NAME` into `folder/memspine-NAME` and return the files, in order.

    It installs, is discovered and passes the base clauses of the backend contract as it is. Raises ScaffoldError for a
    name that cannot be a module or is taken, and for a folder that holds something; OSError when writing fails.
    """
    _check_name(name)
    target = folder / f"memspine-{name}"
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ScaffoldError("folder", target, "a new or an empty folder; nothing is overwritten")
    values = _values(name)
    template = importlib.resources.files("memspine.scaffold") / "template"
    texts = {path: _filled(text, values) for path, text in _templates(template)}
    written = []
    for path, text in sorted(texts.items()):
        file = target / path.replace(_MODULE_IN_PATHS, values["module"])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="\n")
        written.append(file)
    return tuple(written)


def kit_command(name: str, *, folder: Path = Path()) -> str:
    """The shell command that proves the plugin, when it is installed; `folder` is where it was written to.

    The file of settings is needed, because without it a store has to keep what it is given beyond its closing.
    """
    settings = shlex.quote((folder / "tests" / "conformance.toml").as_posix())
    contract = f"--memspine-contract backend --memspine-backend {name} --memspine-config {settings}"
    return f"python -m pytest --pyargs memspine.conformance {contract}"


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > NAME_LENGTH_MAX:
        expected = f"at most {NAME_LENGTH_MAX} of a-z and 0-9, a letter first, words joined by - or _"
        raise ScaffoldError("name", name, f"{expected}, such as 'redis' or 'my-store'")
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise ScaffoldError("name", name, "a name that is no keyword of Python")
    if name in _TAKEN:
        raise ScaffoldError("name", name, "a name that no plugin of memspine itself has")
    for entry in installed_entries():
        if entry.name == name:
            owner = f"{entry.distribution} {entry.version}"
            raise ScaffoldError("name", name, f"a name that no installed plugin has; this one is from {owner}")


def _values(name: str) -> Mapping[str, str]:
    words = re.split("[-_]", name)
    major, minor, *_ = __version__.split(".")
    return {
        "name": name,
        "module": f"memspine_{'_'.join(words)}",
        "class": "".join(word.capitalize() for word in words),
        "kit": kit_command(name),
        "requirement": f"memspine>={major}.{minor},<{major}.{int(minor) + 1}",
    }


def _templates(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _templates(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(_SUFFIX):
            yield f"{prefix}{entry.name.removesuffix(_SUFFIX)}", entry.read_text(encoding="utf-8")


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _TOKEN.sub(lambda match: values[match[1]], text)
