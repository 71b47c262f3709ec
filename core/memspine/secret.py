"""The secret of one installation, made at first use: it signs the fences of injected blocks."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from pathlib import Path
from typing import Final

SECRET_BYTES: Final = 32


def install_secret(folder: Path) -> bytes:
    """The secret kept in `folder`, the same for every process; readable by its owner alone.

    Raises OSError when the folder can neither be read nor written.
    """
    path = folder / "secret"
    try:
        return _read(path)
    except FileNotFoundError:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Written aside and linked into place, so that whoever comes second finds it whole.
    handle, name = tempfile.mkstemp(dir=folder, prefix="secret.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(SECRET_BYTES))
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
    finally:
        Path(name).unlink()
    return _read(path)


def _read(path: Path) -> bytes:
    value = path.read_bytes()
    if len(value) != SECRET_BYTES:
        raise OSError(f"{path}: {len(value)} bytes, expected {SECRET_BYTES}; remove the file and a new one is made")
    return value
