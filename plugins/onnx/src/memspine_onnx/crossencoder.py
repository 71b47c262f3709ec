"""A cross-encoder in memory: pairs of texts to scores, in the thread that calls."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from memspine_onnx.folder import Checksums, ModelFiles, check_sizes, checked_sums
from memspine_onnx.session import Output, Session, load_session
from memspine_onnx.settings import read_text_settings
from memspine_onnx.tokens import Texts, Tokens, read_texts
from memspine_onnx.trouble import ModelTrouble

_ENTAILMENT: Final = "entailment"
_QUESTION: Final = "When does the train leave?"
_PROBES: Final = ("a word", "?!", "The train to the coast leaves at seven in the morning.")


@attrs.frozen(kw_only=True)
class CrossEncoder:
    """What is loaded. `column` is the label that counts, of `labels`; `squeezed` whether a score is made 0 to 1."""

    files: ModelFiles
    texts: Texts
    session: Session
    output: str
    labels: int
    column: int
    squeezed: bool

    def scores(self, batch: Sequence[Tokens]) -> list[float]:
        """One score for each of some pairs. Raises ModelTrouble.

        Of a model with one label it is the logit, or its logistic where the model's own settings ask for that. Of a
        model with several it is the logit of one less the logarithm of the sum of all others' exponentials: what its
        softmax would say, without the rounding to 0 and 1.
        """
        answers = self.session.answers(batch, self.output)
        logits = [[float(value) for value in answer.reshape(-1)] for answer in answers]
        if any(len(row) != self.labels for row in logits):
            reason = f"{self.files.weights} gives {len(logits[0])} numbers a pair, but its settings say {self.labels}"
            raise ModelTrouble(reason, expected=f"an ONNX file of this very model; {self.files.again}")
        if not all(math.isfinite(value) for row in logits for value in row):
            reason = f"{self.files.weights} gives numbers that are not finite"
            raise ModelTrouble(reason, expected=f"whole weights that fit the tokenizer; {self.files.again}")
        return [self._score(row) for row in logits]

    def _score(self, row: Sequence[float]) -> float:
        if self.labels == 1:
            return _logistic(row[0]) if self.squeezed else row[0]
        others = [value for place, value in enumerate(row) if place != self.column]
        most = max(others)
        return row[self.column] - most - math.log(math.fsum(math.exp(value - most) for value in others))


def load_cross_encoder(files: ModelFiles, *, label: str) -> CrossEncoder:
    """Read everything, and judge one pair to see that it fits together. Raises ModelTrouble."""
    config = files.document("config.json")
    settings = read_text_settings(files)
    if check_sizes(files):
        checked_sums(files, Checksums())
    texts = read_texts(files, settings)
    session = load_session(files, pad_id=settings.pad_id)
    output = _output(files, session)
    labels = _labels(config)
    probes = texts.encode_pairs(_QUESTION, _PROBES)
    probe = session.answers(probes[:1], output)[0]
    column, count = _column(labels, label, files), max(len(labels), 1) if labels else probe.size
    model = CrossEncoder(
        files=files,
        texts=texts,
        session=session,
        output=output,
        labels=count,
        column=column if labels or count == 1 else _unnamed(count, files),
        squeezed=_squeezed(config),
    )
    model.scores(probes[:1])
    session.settle(probes, output)
    return model


def _output(files: ModelFiles, session: Session) -> str:
    by_name: dict[str, Output] = {output.name: output for output in session.outputs}
    if "logits" in by_name:
        return "logits"
    flat = [output.name for output in session.outputs if output.rank in {0, 1, 2}]
    if len(flat) == 1 and len(by_name) == 1:
        return flat[0]
    reason = f"{files.weights} gives {', '.join(by_name)}"
    raise ModelTrouble(reason, expected="a cross-encoder, which gives `logits`")


def _labels(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the labels by their number; none when the settings do not say."""
    names = config.get("id2label")
    if not isinstance(names, dict) or set(names) != {str(number) for number in range(len(names))}:
        return ()
    return tuple(str(names[str(number)]) for number in range(len(names)))


def _column(labels: Sequence[str], label: str, files: ModelFiles) -> int:
    """The number of the label that counts: the chosen one, the only one, the second of two, or entailment."""
    if label:
        if label in labels:
            return labels.index(label)
        reason = f"{files.model} has no label {label!r}"
        raise ModelTrouble(reason, expected=f"`label` to be one of {', '.join(labels) or 'none'}")
    if len(labels) <= 2:
        return max(0, len(labels) - 1)
    lowered = [name.lower() for name in labels]
    if _ENTAILMENT in lowered:
        return lowered.index(_ENTAILMENT)
    reason = f"{files.model} has the labels {', '.join(labels)}"
    raise ModelTrouble(reason, expected="`label` to name the one that counts")


def _unnamed(count: int, files: ModelFiles) -> int:
    """The number of the label that counts where none has a name."""
    if count == 2:
        return 1
    reason = f"{files.model} has {count} labels without names"
    raise ModelTrouble(reason, expected="`id2label` in its config.json")


def _squeezed(config: Mapping[str, Any]) -> bool:
    """Whether a score is the logistic of the logit: so it is in sentence-transformers unless a model says otherwise."""
    newer = config.get("sentence_transformers")
    named = newer.get("activation_fn") if isinstance(newer, dict) else None
    named = named or config.get("sbert_ce_default_activation_function") or ""
    return not str(named).endswith("Identity")


def _logistic(value: float) -> float:
    if value >= 0:
        return 1 / (1 + math.exp(-value))
    return math.exp(value) / (1 + math.exp(value))
