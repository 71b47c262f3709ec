"""Every error memspine raises. Each takes fields, keeps them public and builds its own text:
what failed, the value, what was expected, what to do. No text ever holds a credential."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from memspine.model import Problem


class MemspineError(Exception):
    """Base of all errors that memspine raises on purpose."""


class ConfigError(MemspineError):
    """The configuration cannot be used; `problems` lists everything that is wrong with it, in file order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class PluginError(MemspineError):
    """A plugin cannot be used."""

    def __init__(self, plugin: str, text: str) -> None:
        self.plugin = plugin
        super().__init__(text)


class PluginLoadError(PluginError):
    """A plugin was found but failed to import, to register, or to resolve what it registered."""

    def __init__(self, plugin: str, *, distribution: str, step: str, cause: str, advice: str) -> None:
        self.distribution, self.step, self.cause, self.advice = distribution, step, cause, advice
        super().__init__(plugin, f"plugin {plugin!r} ({distribution}) failed in {step}: {cause}; {advice}")


class ContractMismatchError(PluginError):
    """A plugin was written for another version of a contract."""

    def __init__(self, plugin: str, *, contract: int, expected: int) -> None:
        self.contract, self.expected = contract, expected
        super().__init__(
            plugin,
            f"plugin {plugin!r} implements contract {contract}, this memspine has contract {expected}; "
            "install a release of the plugin that fits this memspine",
        )


class UnknownPluginError(MemspineError):
    """No installed plugin offers what the configuration names."""

    def __init__(self, kind: str, name: str, *, installed: Iterable[str], suggestion: str | None, advice: str) -> None:
        self.kind, self.name, self.installed, self.suggestion, self.advice = (
            kind,
            name,
            tuple(installed),
            suggestion,
            advice,
        )
        listed = ", ".join(self.installed) or "none"
        hint = f"; did you mean {suggestion!r}?" if suggestion else ""
        super().__init__(f"no {kind} named {name!r}; installed: {listed}{hint}; {advice}")


class InvalidMemoryError(MemspineError):
    """A value that cannot be stored or asked for; nothing was stored.

    `index` is the position in the batch, for calls that take several.
    """

    def __init__(self, field: str, value: object, expected: str, *, index: int | None = None) -> None:
        self.field, self.value, self.expected, self.index = field, value, expected, index
        place = field if index is None else f"item {index}: {field}"
        super().__init__(f"{place}: {shorten(value)} cannot be used; expected {expected}")


class ScopeError(MemspineError):
    """A call in a scope that does not allow it."""

    def __init__(self, operation: str, scope: object, expected: str) -> None:
        self.operation, self.scope, self.expected = operation, scope, expected
        super().__init__(f"{operation} is not allowed in {scope}; expected {expected}")


class CapabilityError(MemspineError):
    """A call that needs a capability which this store does not claim."""

    def __init__(self, capability: str, *, operation: str, store: str) -> None:
        self.capability, self.operation, self.store = capability, operation, store
        super().__init__(
            f"{operation} needs the capability {str(capability)!r}, which {store} does not have; "
            "use a store that lists it in `memspine plugins`"
        )


class NoVectorsError(CapabilityError):
    """A call that needs vectors where there are none; `reason` says why."""

    def __init__(self, operation: str, reason: str) -> None:
        self.capability, self.operation, self.store, self.reason = "vectors", operation, "memspine", reason
        MemspineError.__init__(self, f"{operation} needs vectors: {reason}")


class BackendError(MemspineError):
    """A store could not do what was asked."""

    def __init__(self, backend: str, text: str) -> None:
        self.backend = backend
        super().__init__(f"{backend}: {text}")


class BackendUnavailable(BackendError):
    """A store cannot be reached, is too slow, or is broken.

    `outcome` is "none" when nothing was changed, "unknown" when a write may or may not have been done: repeating it is
    safe then, a create with the same `ids` (`id` is the only one of them). `causes` names each store that was tried,
    when there were several.
    """

    def __init__(
        self,
        backend: str,
        reason: str,
        *,
        outcome: Literal["none", "unknown"] = "none",
        ids: Sequence[str] = (),
        advice: str = "",
        causes: Sequence[str] = (),
    ) -> None:
        self.reason, self.outcome, self.advice = reason, outcome, advice
        self.ids, self.causes = tuple(ids), tuple(causes)
        self.id = self.ids[0] if len(self.ids) == 1 else None
        text = reason
        if outcome == "unknown":
            how = f" with id {self.id!r}" if self.id else " with the same ids" if self.ids else ""
            text += f"; the outcome is unknown, and repeating the call{how} is safe"
        if advice:
            text += f"; {advice}"
        super().__init__(backend, text)


class LoopError(BackendError):
    """A request came back to a service that it had passed: services are the stores of each other. Nothing was done, and
    trying again never helps; it is no outage, so no fallback answers instead and no write waits for its end."""

    def __init__(self, backend: str, reason: str) -> None:
        self.reason = reason
        super().__init__(backend, f"{reason}; the services lead to each other: give one of them a store of its own")


class NotFoundError(BackendError):
    """No memory of this owner has this id (or it has expired, or was deleted), or none has had this revision; or a
    store has nothing else (`what`) of this id."""

    def __init__(self, backend: str, id: str, *, what: str = "memory", revision: int | None = None) -> None:
        self.id, self.what, self.revision = id, what, revision
        if what != "memory":
            text = f"no {what} {id!r}"
        elif revision is None:
            text = f"no memory {id!r} for this owner; `memspine list` shows what is there"
        else:
            text = f"memory {id!r} has no kept revision {revision}; `memspine history {id}` shows those there are"
        super().__init__(backend, text)


class ConflictError(BackendError):
    """The memory is not in the state that the caller expected, or its key is taken; nothing was changed."""

    def __init__(
        self, backend: str, id: str, *, expected: str, found: str, advice: str = "read it again and repeat"
    ) -> None:
        self.id, self.expected, self.found, self.advice = id, expected, found, advice
        super().__init__(backend, f"memory {id!r}: expected {expected}, found {found}; {advice}")


class CursorError(BackendError):
    """A cursor that this store did not make, or whose changes have been trimmed away."""

    def __init__(self, backend: str, cursor: str, expected: str) -> None:
        self.cursor, self.expected = cursor, expected
        super().__init__(
            backend, f"cursor {shorten(cursor)} cannot be used; expected {expected}; start again without one"
        )


class ClosedError(BackendError):
    """Used before it was opened or after it was closed."""

    def __init__(self, backend: str) -> None:
        super().__init__(backend, "is not open; use it inside `async with`")


class JournalError(MemspineError):
    """The journal of a chain cannot be read or written; nothing was acknowledged."""

    def __init__(self, path: str, reason: str, *, advice: str) -> None:
        self.path, self.reason, self.advice = path, reason, advice
        super().__init__(f"journal {path}: {reason}; {advice}")


Trouble = Literal["auth", "quota", "rate", "too_long", "transient", "config", "invalid"]
"""What kind of thing went wrong with a model: the credential is not accepted, the account is used up, too many calls, a
text that the model does not take, something that may pass, the settings or the files of the model, or an answer or a
text that is no use."""


class ModelError(MemspineError):
    """A model, near or far, did not do its work; the whole call is void. `retry_after_seconds` is what it asked for."""

    role = "model"

    def __init__(
        self,
        source: str,
        reason: str,
        *,
        expected: str,
        kind: Trouble = "invalid",
        retry_after_seconds: float | None = None,
    ) -> None:
        self.source, self.reason, self.expected, self.kind = source, reason, expected, kind
        self.retry_after_seconds = retry_after_seconds
        super().__init__(f"{self.role} {source!r}: {reason}; expected {expected}")


class EmbeddingError(ModelError):
    """An embedding source gave no usable vectors; the whole batch is void."""

    role = "embedding source"


class RerankError(ModelError):
    """A reranker did not judge all texts."""

    role = "reranker"


def describe(error: BaseException) -> str:
    """Class and text of somebody else's error, on one line, whatever its own text does."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # an error that cannot even say what it is
        text = "(its text cannot be read)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def shorten(value: object, *, length_max: int = 80) -> str:
    """The repr of a value, cut so that an error stays one line; deep and long values are not walked to their end."""
    short = reprlib.Repr()
    short.maxlevel, short.maxstring, short.maxother = 3, length_max, length_max
    try:
        return short.repr(value)
    except ValueError:  # the interpreter refuses to write integers of many thousand digits
        return f"<{type(value).__name__} too large to show>"
