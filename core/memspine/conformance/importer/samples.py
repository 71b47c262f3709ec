"""What a plugin's author gives the kit: exports of the product, and what has to come of them."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
import pytest

from memspine.conformance.subject import Place
from memspine.contracts import Importer


@attrs.frozen(kw_only=True)
class Wanted:
    """A memory that has to come of a sample. Those of one sample with equal `ids`, which are not empty, are called by
    the same ids in the product; all others are different ones."""

    content: str
    owner: str = ""
    ids: str = ""


def _wanted(memories: Iterable[Wanted | str]) -> tuple[Wanted, ...]:
    return tuple(Wanted(content=one) if isinstance(one, str) else one for one in memories)


@attrs.frozen(kw_only=True)
class Sample:
    """An export, a file or a folder, as the product writes it.

    `memories` are what has to come of it, in the order of the source; a text stands for a memory without an owner.
    `bad_lines` are the numbers of its bad lines, each once.
    """

    path: Path
    memories: tuple[Wanted, ...] = attrs.field(converter=_wanted)
    bad_lines: tuple[int, ...] = ()


@attrs.frozen
class Product:
    """The importer under test, and its exports."""

    importer: Importer
    samples: tuple[Sample, ...]
    _module: Any
    _folder: Path

    @classmethod
    def of(cls, place: Place) -> Product:
        """From the file that the TOML names; fails the test where there is none, or nothing in it."""
        importer, file = place.subject.importer, place.subject.settings.samples
        assert importer is not None
        if file is None:
            pytest.fail('the kit knows no exports of the product; name a file that makes some: samples = "samples.py"')
        spec = importlib.util.spec_from_file_location("memspine_kit_samples", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        folder = place.folder / "samples"
        folder.mkdir()
        samples = tuple(module.samples(importer.name, folder))
        if not samples:
            pytest.fail(f"{file}: samples({importer.name!r}, folder) gives none")
        return cls(importer, samples, module, place.folder)

    def grown(self, memories: int) -> Path:
        """A source of so many memories."""
        folder = self._folder / f"grown-{memories}"
        folder.mkdir()
        path: Path = self._module.grown(self.importer.name, folder, memories)
        return path
