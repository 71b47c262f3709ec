"""The source: loads its model in a thread at the first call, and embeds in threads what is more than a question."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from memspine.contracts import Context, EmbeddingIdentity, Role, Vectors
from memspine.errors import ClosedError, EmbeddingError
from memspine_static.config import StaticConfig, model_folder

if TYPE_CHECKING:
    from memspine_static.model import StaticModel

# Of so few, a switch to a thread and back would take longer than embedding them.
_AT_ONCE_CHARACTERS = 500


@asynccontextmanager
async def open_source(config: StaticConfig, context: Context) -> AsyncIterator[StaticSource]:
    """The source that a configuration names. Nothing is read before its first call."""
    folder, model = model_folder(config, context)
    source = StaticSource(context.name, folder=folder, model=model, window_tokens=config.window_tokens)
    try:
        yield source
    finally:
        await source.close()


class StaticSource:
    """Vectors from a table of token vectors (`memspine.contracts.EmbeddingSource`).

    Every call raises EmbeddingError of kind `config` when the files of the model are no use; the next call tries again.
    """

    def __init__(self, name: str, *, folder: Path, model: str, window_tokens: int) -> None:
        self.name = name
        self._folder = folder
        self._model_name = model
        self._window_tokens = window_tokens
        self._model: StaticModel | None = None
        self._loading: asyncio.Task[StaticModel] | None = None
        self._is_closed = False

    async def close(self) -> None:
        """Refuse every further call, and let the model go."""
        self._is_closed = True
        if self._loading is not None:
            await asyncio.wait([self._loading])  # its thread cannot be stopped, only outlived
        self._model = self._loading = None

    async def identity(self) -> EmbeddingIdentity:
        """The identity of the vectors; its revision is a hash of the model's files."""
        model = await self._loaded()
        return EmbeddingIdentity(
            plugin="static",
            model=self._model_name,
            revision=model.revision,
            dimension=model.dimension,
            prompt_scheme="document-floor" if model.floor else "none",
            window_tokens=self._window_tokens,
        )

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """One vector a text; in both roles the same, unless the model has a floor for documents.

        Raises EmbeddingError of kind `invalid` for a batch with a text that is empty or holds blanks only.
        """
        model = await self._loaded()
        if sum(map(len, texts)) <= _AT_ONCE_CHARACTERS:
            data = self._embed(model, texts, role) if texts else b""
        else:
            data = await asyncio.to_thread(self._embed, model, texts, role)
        return Vectors(model.dimension, data)

    async def count_tokens(self, texts: Sequence[str]) -> tuple[int, ...]:
        """How many tokens each text has, those of unknown words included."""
        model = await self._loaded()
        return await asyncio.to_thread(model.count, texts) if texts else ()

    def _embed(self, model: StaticModel, texts: Sequence[str], role: Role) -> bytes:
        """The bytes of the vectors, as the contract wants them."""
        from memspine_static.model import BrokenWeights, WordlessText

        try:
            return model.embed(texts, as_documents=role == "document").astype("<f4", copy=False).tobytes()
        except WordlessText as error:
            reason = f"text {error.index} of {len(texts)} is empty"
            raise EmbeddingError(self.name, reason, expected="texts with words in them", kind="invalid") from None
        except BrokenWeights:
            reason = f"{self._folder} holds vectors that are no numbers"
            raise EmbeddingError(self.name, reason, expected="the model's own files", kind="config") from None

    async def _loaded(self) -> StaticModel:
        """The model, loaded once however many ask at the same time; a failed load is forgotten."""
        if self._is_closed:
            raise ClosedError(self.name)
        if self._model is None:
            if self._loading is None or self._loading.done():
                self._loading = asyncio.create_task(asyncio.to_thread(self._load))
                self._loading.add_done_callback(_seen)
            # Shielded: who gives up waiting does not take the model from those who go on.
            self._model = await asyncio.shield(self._loading)
        return self._model

    def _load(self) -> StaticModel:
        """The model, from its files."""
        from memspine_static.failures import ModelFilesError
        from memspine_static.model import load_model

        try:
            return load_model(self._folder)
        except ModelFilesError as error:
            raise EmbeddingError(self.name, str(error), expected=error.expected, kind="config") from error


def _seen(loading: asyncio.Task[StaticModel]) -> None:
    """Take note of a failure, which nobody else does when all who waited have given up."""
    if not loading.cancelled():
        loading.exception()
