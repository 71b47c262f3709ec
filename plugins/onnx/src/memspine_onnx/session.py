"""A model in memory, and how a batch goes through it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from memspine_onnx.folder import ModelFiles
from memspine_onnx.tokens import Tokens
from memspine_onnx.trouble import ModelTrouble, translated

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from onnxruntime import InferenceSession, SessionOptions

BATCH_TOKENS: Final = 256
"""How many tokens, padding included, go through the model at once: more need more memory and are no faster."""
BATCH_TEXTS: Final = 32
_ROUNDING: Final = 1e-3
"""How far the numbers of one text may be apart, alone and in a batch, in parts of the largest."""
_INPUTS: Final = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
_NUMBERS: Final = {"tensor(int64)": "int64", "tensor(int32)": "int32"}


@attrs.frozen(kw_only=True)
class Output:
    """What of a model's answers is used, and how many axes it has (0: not known before it runs)."""

    name: str
    rank: int


class Session:
    """One ONNX file, loaded. `answers` may be called from many threads at once; each runs in the thread that calls."""

    def __init__(self, session: InferenceSession, *, pad_id: int) -> None:
        self._session = session
        self._pad_id = pad_id
        self._inputs = {given.name: _NUMBERS.get(given.type, "") for given in session.get_inputs()}
        self._one_at_a_time = False
        self.outputs = tuple(Output(name=answer.name, rank=len(answer.shape or ())) for answer in session.get_outputs())

    def check_inputs(self, file: str) -> None:
        """Raise ModelTrouble for a model that takes anything but tokens."""
        unknown = [name for name, kind in self._inputs.items() if name not in _INPUTS or not kind]
        if unknown or "input_ids" not in self._inputs:
            reason = f"{file} takes {', '.join(self._inputs)}"
            raise ModelTrouble(reason, expected=f"a model of integers called {', '.join(_INPUTS)}")

    def settle(self, probes: Sequence[Tokens], output: str) -> None:
        """Find out whether texts may share a batch, and run them one by one from now on if not.

        Weights of 8 bits are usually multiplied with activations that are rounded to one scale a batch: there a text's
        answer depends on its neighbours, by more than what a search can bear. One at a time it does not, and costs
        hardly more.
        """
        import numpy as np

        alone = [self.answers([probe], output)[0] for probe in probes]
        together = self.answers(probes, output)
        self._one_at_a_time = not all(
            np.allclose(one, other, rtol=0, atol=_ROUNDING * max(1.0, float(np.abs(one).max(initial=0))))
            for one, other in zip(alone, together, strict=True)
        )

    def answers(self, batch: Sequence[Tokens], output: str) -> list[NDArray[np.float32]]:
        """The answer for each of some texts, without the axis of the texts and without padding: (tokens, width) of a
        model that answers for tokens, else (width,)."""
        parts = [[tokens] for tokens in batch] if self._one_at_a_time else [batch]
        return [row for part in parts for row in self._run(part, output)]

    def _run(self, batch: Sequence[Tokens], output: str) -> list[NDArray[np.float32]]:
        import numpy as np

        with translated("the model failed", expected="a text and a model that fit together", kind="invalid"):
            (answer,) = self._session.run([output], self._feed(batch))
        rows = np.asarray(answer, dtype=np.float32)
        if len(rows) != len(batch):
            reason = f"{output} has the shape {rows.shape} for {len(batch)} texts"
            raise ModelTrouble(reason, expected="an answer for each text")
        return [row[: len(tokens)] if row.ndim == 2 else row for row, tokens in zip(rows, batch, strict=True)]

    def _feed(self, batch: Sequence[Tokens]) -> dict[str, NDArray[np.int64]]:
        import numpy as np

        shape = (len(batch), max(map(len, batch)))
        made = {"input_ids": np.full(shape, self._pad_id, np.int64)}
        made |= {name: np.zeros(shape, np.int64) for name in ("attention_mask", "token_type_ids")}
        made["position_ids"] = np.broadcast_to(np.arange(shape[1], dtype=np.int64), shape)
        for row, tokens in enumerate(batch):
            made["input_ids"][row, : len(tokens)] = tokens.ids
            made["attention_mask"][row, : len(tokens)] = 1
            made["token_type_ids"][row, : len(tokens)] = tokens.types
        return {name: made[name].astype(kind, copy=False) for name, kind in self._inputs.items()}


def load_session(files: ModelFiles, *, pad_id: int) -> Session:
    """Load the weights. Raises ModelTrouble for a file that is no model, or not a whole one."""
    import onnxruntime

    onnxruntime.disable_telemetry_events()  # some builds report to their maker
    broken = f"a whole ONNX file; {files.again}"
    with translated(f"{files.weights} cannot be loaded", expected=broken):
        loaded = onnxruntime.InferenceSession(
            str(files.weights), sess_options=_options(), providers=["CPUExecutionProvider"]
        )
    session = Session(loaded, pad_id=pad_id)
    session.check_inputs(str(files.weights))
    return session


def _options() -> SessionOptions:
    """One thread a call, and no pool: batches run at once in the threads of the engine, which wait without working.

    The library's own threads spin while they wait, which takes the processor from everybody else.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3  # errors, which are raised as well; what it warns of no user can change
    return options


def batches(items: Sequence[Tokens]) -> Iterator[list[int]]:
    """The places of all items in batches of about one length, so that little is padded, the longest first."""
    order = sorted(range(len(items)), key=lambda place: -len(items[place]))
    batch: list[int] = []
    for place in order:
        width = len(items[batch[0]]) if batch else 0
        if batch and (len(batch) >= BATCH_TEXTS or width * (len(batch) + 1) > BATCH_TOKENS):
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch
