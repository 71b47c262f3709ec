"""From conversations and settings to a report."""

from __future__ import annotations

import asyncio
import os
import platform
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from memspine.contracts import EmbeddingIdentity
from memspine_bench.data import Conversation, DataFile
from memspine_bench.errors import MeasureError, RequestError
from memspine_bench.places import Base, base, constants, placed
from memspine_bench.report import (
    Comparison,
    DataFacts,
    MachineFacts,
    Report,
    Row,
    Tuned,
    comparison,
    measurements,
    row_of,
    tuned_of,
)
from memspine_bench.running import Progress, Taken, Variant, run
from memspine_bench.settings import (
    DEFAULT_SETTINGS,
    KEYWORD_LEG,
    VECTOR_LEG,
    Document,
    Setting,
    chosen_settings,
    grid,
    nested,
    with_legs,
)
from memspine_bench.sources import SharedSources
from memspine_bench.tuning import Values, leave_one_out

if TYPE_CHECKING:
    from memspine.config import Config
    from memspine.engine import EmbeddingEngine


@attrs.frozen(kw_only=True)
class _Line:
    """What becomes one row, and the points of the grid for it."""

    setting: Setting
    source: str
    asked_for: bool
    variant: Variant
    points: tuple[tuple[Values, Variant], ...] = ()


@attrs.frozen(kw_only=True)
class _Source:
    """An embedding source by its name in the configuration; why there is none, where the name is empty."""

    name: str
    reason: str = ""
    identity: EmbeddingIdentity | None = None


def evaluate(
    conversations: Sequence[Conversation] | DataFile,
    *,
    settings: Sequence[str | Setting] = DEFAULT_SETTINGS,
    sources: Sequence[str] = (),
    config: str | Path | Document | None = None,
    overrides: Sequence[Document] = (),
    tune: Mapping[str, Sequence[Any]] | None = None,
    limits: Sequence[str] = (),
    progress: Progress | None = None,
) -> Report:
    """Measure each setting with each source, each conversation as one owner in a fresh store.

    `settings` are names of `SETTINGS` or settings of your own; `sources` are names of embedding sources, none for the
    one that memspine would choose. Without `config` the defaults hold, not the configuration of the user; whatever it
    says, memories are kept in a temporary place, unless `overrides` name another. `tune` has the values to choose from
    by dotted key. `limits` are only passed on to the report.

    Starts an event loop, so it cannot be called inside one. Raises RequestError, MeasureError, ConfigError and what
    stores and sources raise.
    """
    data = conversations if isinstance(conversations, DataFile) else DataFile.of(conversations)
    chosen = data.conversations
    if not any(conversation.questions for conversation in chosen):
        raise RequestError("no question has gold ids, so there is nothing to measure")
    if tune and sum(bool(conversation.questions) for conversation in chosen) < 2:
        raise RequestError("tuning leaves out one conversation at a time, so it needs two with questions")
    asked = chosen_settings(settings)
    start = base(config, overrides=overrides)
    points = grid(tune or {})
    for values in points:
        start.checked(*_documents(values))  # before anything is measured, with every problem
    measurement = _Measurement(start, chosen, progress or (lambda _: None))
    began, started_at = time.perf_counter(), datetime.now(UTC)
    parts = asyncio.run(measurement.made(asked, sources, points))
    return Report(
        data=_data_facts(data, limits),
        machine=MachineFacts(
            versions=_versions(),
            python=f"{platform.python_implementation()} {platform.python_version()}",
            platform=f"{platform.system()} {platform.machine()}",
            cpu_count=os.cpu_count() or 1,
            started_at=started_at.isoformat(timespec="seconds"),
            seconds=time.perf_counter() - began,
        ),
        **parts,
        notes=tuple(_left_out_options(start)),
    )


class _Measurement:
    """Plans the variants, runs them, and puts the results together."""

    def __init__(self, start: Base, conversations: Sequence[Conversation], progress: Progress) -> None:
        self._base = start
        self._conversations = [conversation for conversation in conversations if conversation.questions]
        self._progress = progress
        self._sources = SharedSources(config_folder=start.config.source.folder, data_folder=start.config.data_folder)

    async def made(
        self, asked: Sequence[Setting], names: Sequence[str], points: Sequence[Values]
    ) -> dict[str, tuple[Any, ...]]:
        """Rows, comparisons, tuned rows, and what was left out."""
        settings = with_legs(asked)
        try:
            sources = await self._found(settings, names)
            lines = list(self._lines(settings, asked, sources, points))
            left_out = tuple(
                f"{setting.name}: {source.reason}"
                for setting in settings
                for source in sources
                if setting.uses_source and not source.name
            )
            if not lines:
                raise RequestError("; ".join(left_out))
            variants = [variant for line in lines for variant in (line.variant, *(point for _, point in line.points))]
            taken = await run(
                variants,
                self._conversations,
                base=self._base,
                sources=self._sources,
                progress=self._progress,
            )
        finally:
            await self._sources.close()
        rows = [self._row(line, taken[line.variant], sources) for line in lines]
        return {
            "rows": tuple(rows),
            "comparisons": tuple(_comparisons(lines, rows)),
            "tuned": tuple(self._tuned(lines, rows, taken)),
            "left_out": left_out,
        }

    async def _found(self, settings: Sequence[Setting], names: Sequence[str]) -> list[_Source]:
        """The sources by their real names, each once."""
        if not any(setting.uses_source for setting in settings):
            return []
        found: dict[str, _Source] = {}
        for name in dict.fromkeys(names or (self._base.config_source,)):
            source = await self._source(name)
            found.setdefault(source.name, source)
        return list(found.values())

    async def _source(self, name: str) -> _Source:
        """The source behind a name, tried out: what is wrong with it should not show after the first conversation."""
        config = self._base.checked({"embedding": {"source": name}})
        if config.embedding.source == "auto":
            engine = await self._engine(config, probe=False)
            if engine.source == "none":
                return _Source(name="", reason=engine.reason)
            config = self._base.checked({"embedding": {"source": engine.source}})
        if config.embedding.source == "none":
            return _Source(name="", reason='the embedding source is "none"')
        chosen = config.embedding_source(config.embedding.source)
        self._progress(f"opening the embedding source {chosen.name}")
        engine = await self._engine(config, probe=True)
        if engine.trouble:
            raise MeasureError(engine.trouble)
        return _Source(name=chosen.name, identity=await self._sources.identity(chosen))

    async def _engine(self, config: Config, *, probe: bool) -> EmbeddingEngine:
        from memspine import MemoryManager

        with tempfile.TemporaryDirectory(prefix="memspine-bench-", ignore_cleanup_errors=True) as folder:
            there = placed(config, folder=Path(folder), sources=self._sources)
            async with MemoryManager(there, background=False) as memory:
                return (await memory.engine(probe=probe)).embedding

    def _lines(
        self,
        settings: Sequence[Setting],
        asked: Sequence[Setting],
        sources: Sequence[_Source],
        points: Sequence[Values],
    ) -> Iterator[_Line]:
        for setting in settings:
            is_asked_for = setting in asked
            names = [source.name for source in sources if source.name] if setting.uses_source else [""]
            for name in names:
                changes: list[Document] = [{"embedding": {"source": name}}] if name else []
                changes.append(setting.changes)
                yield _Line(
                    setting=setting,
                    source=name,
                    asked_for=is_asked_for,
                    variant=self._variant(setting, name, changes),
                    points=tuple(
                        (values, self._variant(setting, name, [*changes, *_documents(values)], values=values))
                        for values in (points if is_asked_for else ())
                    ),
                )

    def _variant(
        self, setting: Setting, source: str, changes: Sequence[Document], *, values: Values | None = None
    ) -> Variant:
        words = [setting.name, source, *(f"{key}={value}" for key, value in (values or {}).items())]
        return Variant(
            label=" ".join(filter(None, words)),
            config=self._base.checked(*changes),
            uses_source=setting.uses_source,
            is_timed=values is None,
        )

    def _row(self, line: _Line, taken: Taken, sources: Sequence[_Source]) -> Row:
        identity = {source.name: source.identity for source in sources}
        config: Config = line.variant.config
        return row_of(
            taken,
            setting=line.setting.name,
            source=line.source,
            asked_for=line.asked_for,
            constants=constants(config),
            identity=identity.get(line.source),
            backend=config.primary.plugin,
        )

    def _tuned(self, lines: Sequence[_Line], rows: Sequence[Row], taken: Mapping[Variant, Taken]) -> Iterator[Tuned]:
        names = [conversation.id for conversation in self._conversations]
        for line, row in zip(lines, rows, strict=True):
            if line.points:
                points = [(values, measurements(taken[variant])) for values, variant in line.points]
                yield tuned_of(row, leave_one_out(points, names=names))


def _comparisons(lines: Sequence[_Line], rows: Sequence[Row]) -> Iterator[Comparison]:
    by_name = {(row.setting, row.source): row for row in rows}
    for line, row in zip(lines, rows, strict=True):
        keyword, vectors = by_name.get((KEYWORD_LEG, "")), by_name.get((VECTOR_LEG, line.source))
        if line.setting.is_fused and keyword is not None and vectors is not None:
            yield comparison(row, keyword=keyword, vectors=vectors)


def _documents(values: Values) -> list[Document]:
    return [nested(key, value) for key, value in values.items()]


def _data_facts(data: DataFile, limits: Sequence[str]) -> DataFacts:
    conversations = data.conversations
    return DataFacts(
        name=data.name,
        sha256=data.sha256,
        conversations=len(conversations),
        memories=sum(len(conversation.messages) for conversation in conversations),
        questions=sum(len(conversation.questions) for conversation in conversations),
        without_gold=sum(conversation.without_gold for conversation in conversations),
        cut=sum(conversation.cut for conversation in conversations),
        limits=tuple(limits),
    )


def _left_out_options(start: Base) -> Iterator[str]:
    if start.left_out:
        yield f"not taken over from the configuration, as they may name a place: {', '.join(start.left_out)}"


def _versions() -> dict[str, str]:
    """memspine, and what extends it here, by the name of the distribution."""
    from importlib import metadata

    found = {"memspine": metadata.version("memspine")}
    for group in ("memspine", "memspine.commands"):
        for entry in metadata.entry_points(group=group):
            if entry.dist is not None:
                found[entry.dist.name] = entry.dist.version
    return found
