"""What the files of a model say about how it is to be used."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs

from memspine_onnx.folder import ModelFiles
from memspine_onnx.trouble import ModelTrouble

Pooling = Literal["cls", "max", "mean", "mean_sqrt_len", "weightedmean", "lasttoken"]
"""How the vectors of the tokens become one; several are written one after the other, in this order."""

_POOLING_KEYS: Final[Mapping[str, Pooling]] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
# The steps of a sentence-transformers model that are done here, or need not be done.
_STEPS: Final = frozenset({"Transformer", "Pooling", "Normalize"})
# Their position ids begin after the one of the padding, and so reach as many tokens less.
_OFFSET_POSITIONS: Final = frozenset({"camembert", "mpnet", "roberta", "xlm-roberta", "xlm-roberta-xl"})
_WINDOW_DEFAULT: Final = 512
_WINDOW_MAX: Final = 1_000_000
"""Some tokenizers say 10^30 for "no limit"."""


@attrs.frozen(kw_only=True)
class TextSettings:
    """How texts become tokens: `window` counts all tokens that the model takes at once, the special ones too."""

    window: int
    lowercase: bool
    pad_id: int


@attrs.frozen(kw_only=True)
class EmbeddingSettings:
    """How an embedding model is used. `width` is that of one token's vector, 0 where no file says it.

    `foreign_steps` are steps after pooling that are not done here; a model that needs one cannot be used unless its
    ONNX file does all of them.
    """

    text: TextSettings
    pooling: tuple[Pooling, ...]
    width: int
    query_prompt: str
    document_prompt: str
    include_prompt: bool
    foreign_steps: tuple[str, ...]

    def fingerprint(self) -> str:
        """What of the settings changes the numbers, the prompts apart: those are the identity's prompt scheme."""
        return repr((self.text.window, self.text.lowercase, self.pooling))


def prompt_scheme(query: str, document: str) -> str:
    """The name of a pair of prompts: the same pair, the same name."""
    if not query and not document:
        return "none"
    return "prompts-" + hashlib.sha256(f"{len(query)}:{query}{document}".encode()).hexdigest()[:16]


def read_text_settings(files: ModelFiles) -> TextSettings:
    """The settings of the tokenizer. Raises ModelTrouble."""
    config, tokenizer = files.document("config.json"), files.document("tokenizer_config.json")
    sentence = files.document("sentence_bert_config.json")
    reach = _number(config, "max_position_embeddings") or _WINDOW_MAX
    if config.get("model_type") in _OFFSET_POSITIONS:
        reach -= 2
    wanted = _number(sentence, "max_seq_length") or _number(tokenizer, "model_max_length") or reach
    window = min(wanted, reach)
    return TextSettings(
        window=window if window < _WINDOW_MAX else _WINDOW_DEFAULT,
        lowercase=sentence.get("do_lower_case") is True,
        pad_id=_number(config, "pad_token_id"),
    )


def read_embedding_settings(files: ModelFiles) -> EmbeddingSettings:
    """All of it, as sentence-transformers writes it. Raises ModelTrouble."""
    steps = read_steps(files)
    folder = steps.get("Pooling", "1_Pooling")
    pooling = files.document(f"{folder}/config.json")
    prompts = _prompts(files.document("config_sentence_transformers.json"))
    return EmbeddingSettings(
        text=read_text_settings(files),
        pooling=_pooling(pooling, f"{files.folder / folder}/config.json"),
        width=_number(pooling, "word_embedding_dimension")
        or _number(pooling, "embedding_dimension")
        or _number(files.document("config.json"), "hidden_size"),
        query_prompt=prompts[0],
        document_prompt=prompts[1],
        include_prompt=pooling.get("include_prompt", True) is not False,
        foreign_steps=tuple(step for step in steps if step not in _STEPS),
    )


def read_steps(files: ModelFiles) -> dict[str, str]:
    """The steps of the model by the last part of their type, in order, with their folders."""
    file = files.folder / "modules.json"
    if not file.is_file():
        return {}
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
        return {str(entry["type"]).rpartition(".")[2]: str(entry["path"]) for entry in entries}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ModelTrouble(f"{file} cannot be read: {error}", expected=f"a list of modules; {files.again}") from error


def _pooling(config: Mapping[str, Any], file: str) -> tuple[Pooling, ...]:
    named = config.get("pooling_mode")
    names = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    modes = tuple(mode for key, mode in _POOLING_KEYS.items() if mode in names or config.get(key) is True)
    if unknown := [name for name in names if name not in _POOLING_KEYS.values()]:
        raise ModelTrouble(f"{file} asks for the pooling {unknown[0]!r}", expected=", ".join(_POOLING_KEYS.values()))
    if config and not modes:
        raise ModelTrouble(f"{file} asks for no pooling", expected=f"one of {', '.join(_POOLING_KEYS)} to be true")
    return modes or ("mean",)


def _prompts(config: Mapping[str, Any]) -> tuple[str, str]:
    """The prompts for a query and for a document: those of their names, else the default one, else none."""
    prompts = config.get("prompts")
    known = {str(name): str(text or "") for name, text in prompts.items()} if isinstance(prompts, dict) else {}
    default = known.get(str(config.get("default_prompt_name")), "")
    # Newer files list names that nobody filled in; an empty text is a prompt of no words, not a missing one.
    query = next((known[name] for name in ("query",) if name in known), default)
    document = next((known[name] for name in ("document", "passage", "corpus") if name in known), default)
    return query, document


def _number(document: Mapping[str, Any], key: str) -> int:
    """A positive number, else 0: files hold null, 10^30 and "inf" where they mean nothing."""
    value = document.get(key)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf"):
        return min(int(value), _WINDOW_MAX)
    return 0
