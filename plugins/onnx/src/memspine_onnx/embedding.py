"""An embedding model in memory: texts to vectors, in the thread that calls."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import attrs

from memspine_onnx.folder import Checksums, ModelFiles, checked_sums
from memspine_onnx.pooling import pooled
from memspine_onnx.session import Output, Session, load_session
from memspine_onnx.settings import EmbeddingSettings, read_embedding_settings
from memspine_onnx.tokens import Texts, Tokens, read_texts
from memspine_onnx.trouble import ModelTrouble

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_WHOLE: Final = "sentence_embedding"
"""The answer of a model that pools by itself."""
_TOKENS: Final = ("last_hidden_state", "token_embeddings")
_PROBES: Final = ("a word", "?!", "The train to the coast leaves at seven in the morning.")


@attrs.frozen(kw_only=True)
class EmbeddingModel:
    """What is loaded. `revision` names the weights, the tokenizer and how the vectors of tokens become one."""

    files: ModelFiles
    settings: EmbeddingSettings
    texts: Texts
    session: Session
    output: Output
    dimension: int
    revision: str

    def vectors(self, batch: Sequence[Tokens]) -> NDArray[np.float32]:
        """Vectors of norm 1, one row for each of some texts. Raises ModelTrouble."""
        import numpy as np

        if not all(batch):
            reason = "a text holds nothing that the model knows"
            raise ModelTrouble(reason, expected="a text with words", kind="invalid")
        rows = np.stack([self._vector(answer) for answer in self.session.answers(batch, self.output.name)])
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
        if not np.isfinite(norms).all() or not norms.all():
            reason = f"{self.files.weights} gives numbers that are not finite, or nothing but zeros"
            raise ModelTrouble(reason, expected=f"whole weights that fit the tokenizer; {self.files.again}")
        normalised: NDArray[np.float32] = (rows / norms[:, None]).astype("<f4")
        return normalised

    def _vector(self, answer: NDArray[np.float32]) -> NDArray[np.float32]:
        if answer.ndim == 1:
            return answer
        if answer.ndim == 2:
            return pooled(answer, self.settings.pooling)
        reason = f"{self.output.name} of {self.files.weights} has {answer.ndim + 1} axes"
        raise ModelTrouble(reason, expected="two (vectors of texts) or three (of tokens)")


def load_embedding(files: ModelFiles, checksums: Checksums) -> EmbeddingModel:
    """Read everything, and embed one word to see that it fits together. Raises ModelTrouble."""
    settings = read_embedding_settings(files)
    # Reading the weights for their checksum and reading them into memory both leave the interpreter to others.
    with ThreadPoolExecutor(1, "memspine-onnx-checksum") as aside:
        summing = aside.submit(checked_sums, files, checksums)
        texts = read_texts(files, settings.text)
        session = load_session(files, pad_id=settings.text.pad_id)
        sums = summing.result()
    model = EmbeddingModel(
        files=files,
        settings=settings,
        texts=texts,
        session=session,
        output=_output(files, session, settings),
        dimension=0,
        revision=hashlib.sha256("\n".join([*sums, settings.fingerprint()]).encode()).hexdigest()[:32],
    )
    dimension = _dimension(model)
    session.settle([texts.encode(probe) for probe in _PROBES], model.output.name)
    return attrs.evolve(model, dimension=dimension)


def _output(files: ModelFiles, session: Session, settings: EmbeddingSettings) -> Output:
    """The answer to use: pooled by the model itself, by the usual names, or the only one with three axes."""
    by_name = {output.name: output for output in session.outputs}
    if _WHOLE in by_name:
        return by_name[_WHOLE]
    if settings.foreign_steps:
        reason = f"{files.model} ends with {', '.join(settings.foreign_steps)}, and {files.weights} lacks that"
        raise ModelTrouble(reason, expected=f"an ONNX file that gives {_WHOLE}, or another model")
    for name in _TOKENS:
        if name in by_name:
            return by_name[name]
    deep = [output for output in session.outputs if output.rank == 3]
    flat = [output for output in session.outputs if output.rank == 2]
    if len(deep) == 1:
        return deep[0]
    if not deep and len(flat) == 1 and flat[0].name != "logits":
        return flat[0]
    reason = f"{files.weights} gives {', '.join(by_name)}"
    raise ModelTrouble(reason, expected=f"an embedding model, which gives {', '.join((_WHOLE, *_TOKENS))}")


def _dimension(model: EmbeddingModel) -> int:
    (vector,) = model.vectors([model.texts.encode(_PROBES[0])])
    found = len(vector)
    width = model.settings.width
    pools_itself = model.output.name == _WHOLE or model.output.rank == 2
    wanted = width * (1 if pools_itself else len(model.settings.pooling))
    if wanted and found != wanted and not model.settings.foreign_steps:
        reason = f"the vectors of {model.files.weights} have {found} numbers, but its settings say {wanted}"
        raise ModelTrouble(reason, expected=f"an ONNX file of this very model; {model.files.again}")
    return found
