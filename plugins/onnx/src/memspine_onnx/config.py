"""The options of the embedding source and of the reranker."""

from __future__ import annotations

from typing import Any, Final

import attrs

DEFAULT_MODEL: Final = "all-MiniLM-L6-v2"
DEFAULT_RERANKER: Final = "ms-marco-MiniLM-L6-v2"
THREADS_MAX: Final = 64
PROMPT_LENGTH_MAX: Final = 2000


def _check_path(_: object, attribute: attrs.Attribute[Any], value: str) -> None:
    """Raise ValueError for what no file or folder can be called."""
    if "\0" in value:
        raise ValueError(f"'{attribute.name}' must not hold a NUL character: {value!r}")


def _check_model(_: object, attribute: attrs.Attribute[Any], value: str) -> None:
    """Raise ValueError for a name that names nothing."""
    if not value.strip():
        raise ValueError(f"'{attribute.name}' must name a model or a folder: {value!r}")


def _option(default: object, help: str, *validators: Any) -> Any:
    return attrs.field(default=default, validator=list(validators) or None, metadata={"help": help})


def _model(default: str) -> Any:
    help = (
        "A fetched model by its name, or a folder: `~` is the home folder, a relative path starts at the "
        "configuration's folder."
    )
    return _option(default, help, _check_model, _check_path)


def _file() -> Any:
    return _option("", "The ONNX file in the folder; empty for the one that `quantised` asks for.", _check_path)


def _quantised() -> Any:
    help = "Whether to take the int8 weights of a folder that has both; unset: the full ones, else the only ones."
    return _option(None, help)


def _threads() -> Any:
    within = [attrs.validators.ge(1), attrs.validators.le(THREADS_MAX)]
    return _option(2, "How many batches of one call are computed at once, each by one thread.", *within)


def _prompt(role: str) -> Any:
    help = f"What to put before a {role}; unset: what the model's own files say."
    return _option(None, help, attrs.validators.optional(attrs.validators.max_len(PROMPT_LENGTH_MAX)))


@attrs.frozen(kw_only=True)
class OnnxConfig:
    """The options of a local embedding model."""

    model: str = _model(DEFAULT_MODEL)
    file: str = _file()
    quantised: bool | None = _quantised()
    threads: int = _threads()
    query_prompt: str | None = _prompt("query")
    document_prompt: str | None = _prompt("document")


@attrs.frozen(kw_only=True)
class OnnxRerankerConfig:
    """The options of a local cross-encoder."""

    model: str = _model(DEFAULT_RERANKER)
    file: str = _file()
    quantised: bool | None = _quantised()
    threads: int = _threads()
    label: str = _option("", "The label whose logit counts, of a model with several; empty for the one it implies.")
