"""The folder of a model: where it is, which of its files are used, and whether they are whole."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from memspine_onnx.models import MODELS
from memspine_onnx.trouble import ModelTrouble

MODELS_FOLDER: Final = "models"
"""Where fetched models are, in the data folder."""
MANIFEST: Final = "manifest.json"
"""What may stand beside the files, to be compared with them: `{"files": [{"path", "sha256", "size_bytes"}, …]}`."""
TOKENIZER: Final = "tokenizer.json"
_FULL: Final = ("model.onnx", "onnx/model.onnx")
_QUANTISED: Final = tuple(
    folder + name
    for name in (
        "model_quantized.onnx",
        "model_int8.onnx",
        "model_uint8.onnx",
        "model_quint8_avx2.onnx",
        "model_qint8_avx512_vnni.onnx",
        "model_qint8_avx512.onnx",
        "model_qint8_arm64.onnx",
    )
    for folder in ("", "onnx/")
)


@attrs.frozen
class Stamp:
    """What a file looks like from outside; a file with the same stamp is not read again to know its checksum."""

    path: Path
    size_bytes: int
    modified_ns: int


@attrs.frozen(kw_only=True)
class ModelFiles:
    """The files of a model that are used."""

    folder: Path
    model: str
    """What to call it in an identity and in messages."""
    weights: Path
    tokenizer: Path

    @property
    def again(self) -> str:
        """How to get the files, for the end of a message."""
        return advice(self.folder, self.model)

    def document(self, path: str) -> dict[str, Any]:
        """A JSON file of the folder; empty when there is none. Raises ModelTrouble."""
        file = self.folder / path
        try:
            document = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise ModelTrouble(f"{file} cannot be read: {error}", expected=f"JSON; {self.again}") from error
        if not isinstance(document, dict):
            raise ModelTrouble(f"{file} holds no object", expected=f"a JSON object; {self.again}")
        return document

    def hashed(self) -> tuple[Path, ...]:
        """What the numbers come from: the weights, parts of them in files of their own, the tokenizer."""
        parts = (path for path in self.weights.parent.glob(self.weights.name + "?*") if path.suffix != ".part")
        return (self.weights, *sorted(path for path in parts if path.is_file()), self.tokenizer)


def advice(folder: Path, model: str) -> str:
    """How to get a model, as far as it is known."""
    if any(known.name == model for known in MODELS):
        return f"`memspine models fetch {model}` fetches it"
    return f"put the files of the model into {folder}; `memspine models list` shows what can be fetched"


def locate(model: str, *, config_folder: Path, data_folder: Path) -> Path:
    """The folder of a model that is given by name or by path. Raises ModelTrouble when there is none."""
    try:
        path = config_folder / Path(model).expanduser()
    except RuntimeError as error:
        reason = f"{model}: no home folder is known for its `~`"
        raise ModelTrouble(reason, expected="a whole path in `model`") from error
    fetched = data_folder / MODELS_FOLDER / model
    is_name = Path(model).name == model and not model.startswith("~")
    places = [fetched, path] if is_name else [path]
    for place in places:
        if place.is_dir():
            return place
    name = Path(model).name
    place = data_folder / MODELS_FOLDER / name if is_name or any(name == known.name for known in MODELS) else path
    where = " nor ".join(map(str, places))
    raise ModelTrouble(
        f"there is no folder {where}", expected=f"an ONNX file and {TOKENIZER} in one; {advice(place, name)}"
    )


def choose(folder: Path, *, model: str, file: str, quantised: bool | None) -> ModelFiles:
    """The files to use. Raises ModelTrouble when one is missing, or was not fetched to its end."""
    name = Path(model).name or folder.resolve().name
    weights = _weights(folder, file=file, quantised=quantised, again=advice(folder, name))
    tokenizer = next(
        (place for place in (folder / TOKENIZER, weights.parent / TOKENIZER) if place.is_file()), folder / TOKENIZER
    )
    files = ModelFiles(folder=folder, model=name, weights=weights, tokenizer=tokenizer)
    if not tokenizer.is_file():
        raise ModelTrouble(
            f"{folder} has no {TOKENIZER}",
            expected=f"the tokenizer of the model in that format (vocab.txt alone does not do); {files.again}",
        )
    return files


def _weights(folder: Path, *, file: str, quantised: bool | None, again: str) -> Path:
    if file:
        chosen = folder / file
        if not chosen.is_file():
            raise ModelTrouble(_missing(chosen), expected=f"the file that `file` names; {again}")
        return chosen
    names = {True: _QUANTISED, False: _FULL, None: _FULL + _QUANTISED}[quantised]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.onnx"))
    if len(found) == 1 and quantised is None:
        return folder / found[0]
    if found:
        reason = f"{folder} holds {', '.join(found)}, none of which is called {' or '.join(names[:2])}"
        raise ModelTrouble(reason, expected="`file` to name the one to use, or another `quantised`")
    raise ModelTrouble(_missing(folder / names[0]), expected=f"an ONNX file; {again}")


def _missing(file: Path) -> str:
    if file.with_name(file.name + ".part").is_file():
        return f"{file} was not fetched to its end"
    return f"there is no file {file}"


class Checksums:
    """SHA-256 of files, kept in memory as long as a file looks the same from outside."""

    def __init__(self) -> None:
        self._known: dict[Stamp, str] = {}

    def of(self, path: Path) -> str:
        """The checksum of a file in hexadecimal digits. Raises OSError."""
        stat = path.stat()
        stamp = Stamp(path, stat.st_size, stat.st_mtime_ns)
        if stamp not in self._known:
            with path.open("rb") as stream:
                self._known[stamp] = hashlib.file_digest(stream, "sha256").hexdigest()
        return self._known[stamp]


def check_sizes(files: ModelFiles) -> Mapping[str, str]:
    """The checksums that the manifest of a fetched model promises, by path; the sizes are compared here.

    Raises ModelTrouble for a file that is missing or of another size: it was not fetched to its end.
    """
    promised: dict[str, str] = {}
    for entry in _manifest(files):
        file = files.folder / entry["path"]
        size = file.stat().st_size if file.is_file() else None
        if size is None:
            raise ModelTrouble(_missing(file), expected=f"what {MANIFEST} lists; {files.again}")
        if size != entry["size_bytes"]:
            reason = f"{file} has {size} bytes and not {entry['size_bytes']}: it is not whole"
            raise ModelTrouble(reason, expected=f"the file that {MANIFEST} lists; {files.again}")
        promised[os.path.normpath(file)] = entry["sha256"]
    return promised


def _manifest(files: ModelFiles) -> list[dict[str, Any]]:
    entries = files.document(MANIFEST).get("files", [])
    shape = {"path": str, "sha256": str, "size_bytes": int}
    if not isinstance(entries, list) or not all(
        isinstance(entry, dict) and all(isinstance(entry.get(key), kind) for key, kind in shape.items())
        for entry in entries
    ):
        reason = f"{files.folder / MANIFEST} is not understood"
        raise ModelTrouble(reason, expected=f"`files` with path, sha256 and size_bytes each; {files.again}")
    return entries


def checked_sums(files: ModelFiles, checksums: Checksums) -> tuple[str, ...]:
    """The checksum of each file that the numbers come from. Raises ModelTrouble where the manifest has another."""
    promised = check_sizes(files)
    sums = []
    for path in files.hashed():
        try:
            found = checksums.of(path)
        except OSError as error:
            raise ModelTrouble(f"{path} cannot be read: {error}", expected=files.again) from error
        wanted = promised.get(os.path.normpath(path), found)
        if found != wanted:
            reason = f"{path} has the SHA-256 {found} and not {wanted}: it is not the file that was fetched"
            raise ModelTrouble(reason, expected=f"the file that {MANIFEST} lists; {files.again}")
        sums.append(found)
    return tuple(sums)
