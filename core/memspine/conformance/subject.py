"""What is being tested: a provider, its options, and how it is opened in a folder of its own."""

from __future__ import annotations

import os
import tempfile
import tomllib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

import attrs
import cattrs
from cattrs.errors import BaseValidationError

from memspine.contracts import Context, Importer, Provider, Secret
from memspine.errors import ConfigError
from memspine.model import Problem
from memspine.plugins import Plugin, PluginEntry, Plugins, resolve
from memspine.resources import SharedResources, open_provider

_SECTIONS: Final = {
    "backend": "backends",
    "embedding": "embedding",
    "vectors": "vectors",
    "reranker": "rerank",
    "injector": "injectors",
    "importer": "importers",
}
_KINDS: Final = {
    "backend": "memory backend",
    "embedding": "embedding source",
    "vectors": "vector store",
    "reranker": "reranker",
    "injector": "injector",
    "importer": "importer",
}
# Keys of a plugin's table that the kernel reads, not the plugin.
_KERNEL_KEYS: Final = frozenset({"plugin", "replicate"})


@attrs.frozen(kw_only=True)
class ExpectedFailure:
    """A clause that the plugin is known not to keep, and why."""

    clause: str
    reason: str
    issue: str = ""


@attrs.frozen(kw_only=True)
class Settings:
    """What the TOML file says: the plugin's options, and what the kit has to know about it.

    `volatile` is for stores that keep nothing beyond their closing. `backup_as` is where, in the data folder, a backup
    has to stand to be opened; without it the kit takes the name of the largest file there. `requests` is a file of
    requests for an injector whose shape the kit does not know, `samples` the file that makes exports for an importer.
    """

    options: Mapping[str, Any] = attrs.field(factory=dict)
    file: Path | None = None
    volatile: bool = False
    backup_as: str = ""
    requests: Path | None = None
    samples: Path | None = None
    expected_failures: tuple[ExpectedFailure, ...] = ()


@attrs.frozen(kw_only=True)
class Subject:
    """The plugin under test. An importer has nothing to open, so its provider only hands it out."""

    contract: str
    name: str
    provider: Provider[Any, Any]
    entry: PluginEntry
    settings: Settings
    importer: Importer | None = None

    @classmethod
    def find(cls, contract: str, name: str, *, config: Path | None) -> Subject:
        """The installed plugin of this name. Raises UnknownPluginError, PluginError, ConfigError."""
        plugins = Plugins()
        lookup: dict[str, Callable[[str], Provider[Any, Any]]] = {
            "backend": plugins.memory_backend,
            "embedding": plugins.embedding_source,
            "vectors": plugins.vector_store,
            "reranker": plugins.reranker,
            "injector": plugins.injector,
        }
        importer = plugins.importer(name) if contract == "importer" else None
        provider = _handing_out(importer) if importer else lookup[contract](name)
        if config is None and name == "reference":
            config = Path(__file__).with_name("reference") / "reference.toml"
        settings = Settings() if config is None else read_settings(config, contract=contract, name=name)
        entry = _entry_of(plugins, _KINDS[contract], importer or provider)
        subject = cls(
            contract=contract, name=name, provider=provider, entry=entry, settings=settings, importer=importer
        )
        subject.options(Path())  # so that a mistake in the file is told once, not by every test
        return subject

    def options(self, folder: Path) -> Any:
        """The checked options, `{folder}` replaced. Raises ConfigError."""
        table = _filled(dict(self.settings.options), folder)
        try:
            return _converter().structure(table, self.provider.config_type)
        except BaseValidationError as error:
            text = "; ".join(cattrs.transform_error(error))
            raise ConfigError([Problem(source="the plugin's options", line=None, key=self.name, text=text)]) from error

    def open(self, folder: Path) -> AbstractAsyncContextManager[Any]:
        """The plugin, opened with this folder as its data folder."""
        return _open(self, folder)

    def construct(self, folder: Path, context: Context) -> AbstractAsyncContextManager[Any]:
        """The plugin's context manager, not entered."""
        return resolve(self.provider)(self.options(folder), context)


@attrs.frozen
class Place:
    """A folder in which the plugin under test can be opened, again and again."""

    subject: Subject
    folder: Path

    def open(self) -> AbstractAsyncContextManager[Any]:
        """The plugin, opened here."""
        return self.subject.open(self.folder)

    def another(self) -> Place:
        """A fresh folder beside this one."""
        return Place(self.subject, Path(tempfile.mkdtemp(prefix="store-", dir=self.folder.parent)))


@attrs.frozen
class Opening:
    """What the fixture `store` and its like hold until the test runs: the place to open."""

    place: Place

    def open(self) -> AbstractAsyncContextManager[Any]:
        """The plugin, opened."""
        return self.place.open()


@attrs.frozen
class ReferencedSecret:
    """A credential named as `{ env = "NAME" }` or `{ file = "path" }`."""

    env: str = ""
    file: str = ""

    def reveal(self) -> str:
        """The credential."""
        return os.environ[self.env] if self.env else Path(self.file).expanduser().read_text(encoding="utf-8").strip()


def read_settings(file: Path, *, contract: str, name: str) -> Settings:
    """The options of the plugin, and the keys of the kit. Raises ConfigError."""
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
        failures = cattrs.Converter(forbid_extra_keys=True).structure(
            document.get("expected-failures", []), tuple[ExpectedFailure, ...]
        )
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise _config_error(file, "", str(error)) from error
    except (BaseValidationError, TypeError) as error:
        text = "; ".join(cattrs.transform_error(error))
        raise _config_error(file, "expected-failures", text) from error
    tables = list(_tables(document.get(_SECTIONS[contract], {}), name))
    if len(tables) > 1:
        raise _config_error(file, _SECTIONS[contract], f"{len(tables)} tables name the plugin {name!r}; keep one")
    return Settings(
        options=tables[0] if tables else {},
        file=file.resolve(),
        volatile=document.get("volatile", False) is True,
        backup_as=str(document.get("backup_as", "")),
        requests=file.resolve().parent / str(document["requests"]) if "requests" in document else None,
        samples=file.resolve().parent / str(document["samples"]) if "samples" in document else None,
        expected_failures=failures,
    )


def _tables(section: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """The tables of a section that configure the plugin, without what the kernel reads."""
    inner = {key: value for key, value in section.items() if isinstance(value, dict) and "plugin" not in section}
    for key, table in {"": section, **inner}.items():
        if table.get("plugin", key) == name:
            yield {option: value for option, value in table.items() if option not in _KERNEL_KEYS}


def _filled(value: Any, folder: Path) -> Any:
    if isinstance(value, str):
        return value.replace("{folder}", str(folder))
    if isinstance(value, dict):
        return {key: _filled(item, folder) for key, item in value.items()}
    return [_filled(item, folder) for item in value] if isinstance(value, list) else value


def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True)
    converter.register_structure_hook(Secret, lambda table, _: ReferencedSecret(**table))
    return converter


def _config_error(file: Path, key: str, text: str) -> ConfigError:
    return ConfigError([Problem(source=str(file), line=None, key=key, text=text)])


def _entry_of(plugins: Plugins, kind: str, offer: Provider[Any, Any] | Importer) -> PluginEntry:
    for plugin in plugins.load_all():
        if isinstance(plugin, Plugin):
            offered: tuple[object, ...] = plugin.importers if kind == "importer" else plugin.providers[kind]
            if any(offer is one for one in offered):
                return plugin.entry
    return PluginEntry(name=offer.name, module="")


@attrs.frozen
class _NoOptions:
    """What an importer has."""


def _handing_out(importer: Importer) -> Provider[Importer, _NoOptions]:
    return Provider(name=importer.name, config_type=_NoOptions, open=lambda _, __: nullcontext(importer))


@asynccontextmanager
async def _open(subject: Subject, folder: Path) -> AsyncIterator[Any]:
    async with open_provider(
        subject.provider,
        subject.options(folder),
        name=subject.name,
        config_folder=subject.settings.file.parent if subject.settings.file else folder,
        data_folder=folder,
        resources=SharedResources(),
    ) as opened:
        yield opened
