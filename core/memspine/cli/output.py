"""Where answers, notes and errors go, and in which form."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from memspine.cli.codes import AnswerError
from memspine.cli.text import ascii_json, block, json_line, one_line

if TYPE_CHECKING:
    from rich.console import Console

    from memspine.cli.extensions import Extension


class Output:
    """Answers on standard output, all else on standard error. Nothing stored reaches a terminal as a command to it."""

    def __init__(self, *, json: bool = False, quiet: bool = False) -> None:
        self.json = json
        self.quiet = quiet
        # Kept, because `sys.stdout` is another stream while a command runs: see `app`.
        self._stdout: TextIO | None = sys.stdout
        self.extension: Extension | None = None
        """The command of another distribution that runs."""
        self.is_loading = False
        """Whether it is being imported just now."""

    @property
    def is_terminal(self) -> bool:
        """Whether a person reads the answer as it is written."""
        return self._stdout is not None and self._stdout.isatty()

    @property
    def shows_progress(self) -> bool:
        """Whether a line on standard error may be rewritten while work goes on."""
        return not self.json and not self.quiet and sys.stderr is not None and sys.stderr.isatty()

    def line(self, text: str = "") -> None:
        """One line of an answer."""
        self._answer(f"{one_line(text)}\n")

    def cells(self, *cells: str) -> None:
        """One line of an answer, its parts between tabs."""
        self._answer("\t".join(map(one_line, cells)) + "\n")

    def block(self, text: str) -> None:
        """Lines of an answer, as they are broken."""
        self._answer(f"{block(text)}\n")

    def raw(self, line: str) -> None:
        """One line of JSON that is there already."""
        with _answering():
            _write_json(self._stdout, line)

    def data(self, value: object) -> None:
        """An answer as JSON: one line, or readable on a terminal."""
        self.raw(to_json(value, indent=2 if self.is_terminal else None))

    def note(self, text: str) -> None:
        """Something that a person should know beside the answer. With --json a person is there only at a terminal."""
        if self.quiet or (self.json and not (sys.stderr is not None and sys.stderr.isatty())):
            return
        _write(sys.stderr, f"memspine: note: {one_line(text)}\n")

    def remark(self, text: str) -> None:
        """What a person wants to know who is not asked for a machine's sake: how many more there are, and the like."""
        if not self.quiet and not self.json:
            self.flush()
            _write(sys.stderr, f"{one_line(text)}\n")

    def progress(self, text: str, *, done: bool = False) -> None:
        """A line on a terminal that the next one replaces; nothing elsewhere."""
        if self.shows_progress:
            _write(sys.stderr, f"\r\x1b[K{one_line(text)}" + ("\n" if done and text else ""))
            sys.stderr.flush()

    def error(
        self, text: str, *, type: str, details: Mapping[str, Any] | None = None, lines: Sequence[str] = ()
    ) -> None:
        """One error: a line (or several, when there are several things wrong), or one JSON object."""
        if self.json:
            document = {"error": {"message": text, "type": type, "details": dict(details or {})}}
            _write_json(sys.stderr, to_json(document))
        else:
            for each in lines or (text,):
                _write(sys.stderr, f"memspine: {one_line(each)}\n")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Rows under headings on a terminal; elsewhere lines of cells between tabs, no headings."""
        console = self._console()
        if console is None:
            for row in rows:
                self.cells(*row)
        else:
            from memspine.cli.drawing import draw

            draw(columns, [tuple(map(one_line, row)) for row in rows], console)

    def heading(self, text: str) -> None:
        """A line above others."""
        console = self._console()
        if console is None:
            self.line(text)
        else:
            from rich.text import Text

            console.print(Text(one_line(text), style="bold"))

    def flush(self) -> None:
        """Hand over what was written. Raises BrokenPipeError when nobody reads, AnswerError when it cannot be."""
        if self._stdout is not None:
            with _answering():
                self._stdout.flush()

    def give_up(self) -> None:
        """Let what is still buffered go nowhere, so that Python does not complain about it when it ends."""
        if self._stdout is not None:
            with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:  # noqa: PTH123
                os.dup2(nowhere.fileno(), self._stdout.fileno())

    def _answer(self, text: str) -> None:
        with _answering():
            _write(self._stdout, text)

    def _console(self) -> Console | None:
        """Rich, where a person looks and it is installed (the extra `cli`)."""
        if not self.is_terminal:
            return None
        try:
            from rich.console import Console
        except ImportError:
            return None
        plain: dict[str, Any] = {"color_system": None} if os.environ.get("NO_COLOR") else {}
        return Console(file=self._stdout, highlight=False, markup=False, emoji=False, **plain)


def to_json(value: object, *, indent: int | None = None) -> str:
    """JSON text, other scripts as they are."""
    import json

    return json.dumps(value, ensure_ascii=False, indent=indent)


def is_debugging() -> bool:
    """Whether MEMSPINE_DEBUG asks for tracebacks."""
    return os.environ.get("MEMSPINE_DEBUG", "") not in {"", "0"}


def _write(stream: TextIO | None, text: str) -> None:
    """Write in the stream's encoding, what it lacks as escapes."""
    if stream is None:  # closed before we started
        return
    encoding = _encoding(stream)
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _write_json(stream: TextIO | None, text: str) -> None:
    """Write a line of JSON, what the stream's encoding lacks as escapes of JSON."""
    text = json_line(text)
    if stream is not None:
        try:
            text.encode(_encoding(stream))
        except UnicodeEncodeError:
            text = ascii_json(text)
    _write(stream, f"{text}\n")


def _encoding(stream: TextIO) -> str:
    return getattr(stream, "encoding", None) or "utf-8"


@contextlib.contextmanager
def _answering() -> Iterator[None]:
    """Raises AnswerError for what standard output refuses, but for a reader that went away."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise AnswerError(f"the answer cannot be written: {error.strerror or error}") from error
