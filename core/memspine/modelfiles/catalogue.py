"""The models that installed plugins can use, and how much of each is there."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Final, Literal

import attrs

from memspine.contracts import Model, ModelFile
from memspine.errors import UnknownPluginError
from memspine.modelfiles.errors import ModelFilesError
from memspine.plugins import Plugins

FOLDER: Final = "models"
PART: Final = ".part"
"""The end of a file's name while it is not whole."""

_WORD: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,127}")
"""What a folder or a file may be called: nothing that leads elsewhere, on no system."""


@attrs.frozen(kw_only=True)
class Offered:
    """A model, where its files belong, and how much of it is there."""

    model: Model
    folder: Path
    state: Literal["present", "partial", "missing"]

    @property
    def size_bytes(self) -> int:
        """What all files take."""
        return sum(file.size_bytes for file in self.model.files)


def offered(plugins: Plugins, *, data_folder: Path) -> tuple[Offered, ...]:
    """All models, by name. Raises ModelFilesError for one whose files cannot be named."""
    return tuple(_looked_at(model, data_folder) for model in plugins.models())


def find(plugins: Plugins, name: str) -> Model:
    """The model of this name. Raises UnknownPluginError; ModelFilesError when plugins mean different files by it."""
    models = plugins.models()
    found = [model for model in models if model.name == name]
    if not found:
        names = sorted({model.name for model in models})
        close = difflib.get_close_matches(name, names, n=1)
        advice = "`memspine models list` shows those that the installed plugins can use"
        raise UnknownPluginError("model", name, installed=names, suggestion=close[0] if close else None, advice=advice)
    if any(model.files != found[0].files for model in found):
        whose = " and ".join(model.plugin for model in found)
        raise ModelFilesError(name, f"{whose} mean different files by it", expected="one of them", kind="config")
    return found[0]


def folder_of(model: Model, *, data_folder: Path) -> Path:
    """Where the files of a model belong. Raises ModelFilesError for a name that is none."""
    return _below(data_folder / FOLDER, model.name, model=model)


def path_of(file: ModelFile, *, model: Model, folder: Path) -> Path:
    """Where one of its files belongs. Raises ModelFilesError for a path that would lead out of the folder."""
    return _below(folder, file.path, model=model)


def is_present(path: Path, file: ModelFile) -> bool:
    """Whether the file has its name, which it only got when it was whole."""
    return path.is_file() and path.stat().st_size == file.size_bytes


def _looked_at(model: Model, data_folder: Path) -> Offered:
    folder = folder_of(model, data_folder=data_folder)
    paths = [path_of(file, model=model, folder=folder) for file in model.files]
    present = [is_present(path, file) for path, file in zip(paths, model.files, strict=True)]
    if all(present):
        return Offered(model=model, folder=folder, state="present")
    began = any(present) or any(part_of(path).exists() for path in paths)
    return Offered(model=model, folder=folder, state="partial" if began else "missing")


def part_of(path: Path) -> Path:
    """Where a file is while it is not whole."""
    return path.with_name(path.name + PART)


def _below(folder: Path, name: str, *, model: Model) -> Path:
    words = name.split("/")
    if not all(map(_WORD.fullmatch, words)) or words[-1].endswith(PART):
        expected = "letters, digits, . _ + - in words between slashes"
        raise ModelFilesError(model.name, f"{name!r} of the plugin {model.plugin} is no path", expected=expected)
    return folder.joinpath(*words)
