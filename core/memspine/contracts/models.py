"""The files of a model that a plugin can use, for `memspine models`."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class ModelFile:
    """One file: its path inside the model's folder, where it comes from, and what it has to be."""

    path: str
    url: str
    sha256: str
    size_bytes: int


@attrs.frozen(kw_only=True)
class Model:
    """A model that can be fetched on request into `models/<name>` of the data folder.

    `plugin` is the source or reranker that reads it there when its option `model` names it.
    """

    name: str
    plugin: str
    summary: str
    licence: str
    files: tuple[ModelFile, ...]
