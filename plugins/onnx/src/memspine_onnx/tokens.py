"""Texts as token numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import attrs

from memspine_onnx.folder import ModelFiles
from memspine_onnx.settings import TextSettings
from memspine_onnx.trouble import ModelTrouble, translated

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

_MARK: Final = "a"
_BROKEN: Final = "a tokenizer.json that the package tokenizers reads; {again}"


@attrs.frozen
class Tokens:
    """One text, or two, as the model takes it: numbers of tokens, and of the text that each belongs to."""

    ids: tuple[int, ...]
    types: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.ids)


@attrs.frozen
class _Frame:
    """The special tokens around one text, or around and between two: one `Tokens` more than there are texts.

    They are put around the numbers here. The library would do it, but it keeps what is cut off as texts of their own,
    and combines those of one text with those of the other: gigabytes for two long texts.
    """

    pieces: tuple[Tokens, ...]
    types: tuple[int, ...]

    @property
    def size(self) -> int:
        return sum(map(len, self.pieces))

    def around(self, *texts: Sequence[int]) -> Tokens:
        ids, types = list(self.pieces[0].ids), list(self.pieces[0].types)
        for text, type, piece in zip(texts, self.types, self.pieces[1:], strict=True):
            ids += text
            ids += piece.ids
            types += [type] * len(text)
            types += piece.types
        return Tokens(tuple(ids), tuple(types))

    @classmethod
    def of(cls, encoding: Encoding, count: int) -> _Frame:
        """What a tokenizer put around `count` texts."""
        owners, ids, types = encoding.sequence_ids, encoding.ids, encoding.type_ids
        starts = [owners.index(text) for text in range(count)]
        ends = [len(owners) - owners[::-1].index(text) for text in range(count)]
        spans = zip([0, *ends], [*starts, len(ids)], strict=True)
        return cls(
            tuple(Tokens(tuple(ids[start:end]), tuple(types[start:end])) for start, end in spans),
            tuple(types[start] for start in starts),
        )


class Texts:
    """A tokenizer. Every method may be called from many threads at once.

    Texts are encoded one at a time: encoding many at once starts threads in the library that outlive a fork badly, for
    work that is a hundredth of what the model does.
    """

    def __init__(self, tokenizer: Tokenizer, settings: TextSettings) -> None:
        self.settings = settings
        self._tokenizer = tokenizer
        self._single = _Frame.of(tokenizer.encode(_MARK), 1)
        self._pair = _Frame.of(tokenizer.encode(_MARK, _MARK), 2)

    @property
    def room(self) -> int:
        """How many tokens of one text fit into the window."""
        return self.settings.window - self._single.size

    @property
    def room_in_pair(self) -> int:
        """How many tokens of two texts fit into the window together."""
        return self.settings.window - self._pair.size

    def encode(self, text: str, *, prompt: str = "") -> Tokens:
        """The tokens of one text after its prompt, cut at the window."""
        return self._single.around(self._plain(prompt + text)[: self.room])

    def encode_pairs(self, query: str, texts: Sequence[str]) -> list[Tokens]:
        """The tokens of the query and of each text, together; what is too long for the window is cut off the text.

        A query that leaves less than half of the window is cut to that half first.
        """
        question = self._plain(query)[: self.room_in_pair // 2]
        room = self.room_in_pair - len(question)
        return [self._pair.around(question, self._plain(text)[:room]) for text in texts]

    def count(self, text: str) -> int:
        """How many tokens a text has without the special ones, however long it is."""
        return len(self._plain(text))

    def _plain(self, text: str) -> list[int]:
        # Blanks at the ends are taken off, as sentence-transformers does it.
        text = text.strip()
        text = text.lower() if self.settings.lowercase else text
        numbers: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return numbers


def read_texts(files: ModelFiles, settings: TextSettings) -> Texts:
    """The tokenizer of a model, its own cutting and padding switched off. Raises ModelTrouble."""
    from tokenizers import Tokenizer

    with translated(f"{files.tokenizer} cannot be used", expected=_BROKEN.format(again=files.again)):
        tokenizer = Tokenizer.from_file(str(files.tokenizer))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    with translated(f"{files.tokenizer} cannot be used", expected=_BROKEN.format(again=files.again)):
        texts = Texts(tokenizer, settings)
    if texts.room_in_pair < 2:
        reason = f"the window of {files.model} is {settings.window} tokens"
        raise ModelTrouble(reason, expected="room for more than the special tokens in its own settings")
    return texts
