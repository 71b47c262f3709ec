"""The command `memspine bench`."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, TextIO

from memspine_bench.errors import DataError, MeasureError, RequestError

if TYPE_CHECKING:
    from memspine_bench.data import DataFile
    from memspine_bench.report import Report

_USAGE, _INVALID, _UNAVAILABLE = 2, 5, 7  # as `memspine help exit-codes` has them
_FORMATS: Final = ("text", "markdown", "json")
_PROBLEMS_SHOWN_MAX: Final = 100

_DESCRIPTION = """\
Measure on a file of conversations with questions how well memories are found.

Each conversation becomes the memories of one owner in a fresh store in a temporary place, and every question is
searched for. No language model takes part, and nothing is read from or written to your own memories."""

_DATA = """\
The file: {"conversations": [{"id", "memories": [{"id", "session", "speaker", "time", "text"}],
"questions": [{"id", "text", "category", "gold": [ids of memories]}]}]}"""


class _Parser(argparse.ArgumentParser):
    """A parser that raises RequestError instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        """Raise RequestError."""
        raise RequestError(f"{message}; see `{self.prog} --help`")


def main(argv: list[str]) -> int:
    """Run the command; returns its exit code."""
    is_json = "--json" in argv or "--format=json" in argv
    try:
        options = _parser().parse_args(argv)
        answers: TextIO = sys.stdout
        # What a plugin prints, at import or later, is not part of the answer.
        with contextlib.redirect_stdout(sys.stderr):
            answer = _retrieval(options)
        _write(answers, f"{answer}\n")
    except RequestError as error:
        return _tell([str(error)], code=_USAGE, type="usage", as_json=is_json)
    except DataError as error:
        return _tell(error.problems, code=_INVALID, type="invalid", as_json=is_json)
    except MeasureError as error:
        return _tell([str(error)], code=_UNAVAILABLE, type="unavailable", as_json=is_json)
    return 0


def _parser() -> argparse.ArgumentParser:
    from memspine_bench.settings import ALL_SETTINGS, SETTINGS

    parser = _Parser(prog="memspine bench", description=_DESCRIPTION.split("\n", 1)[0], allow_abbrev=False)
    _add_global(parser)
    actions = parser.add_subparsers(dest="action", metavar="WHAT", required=True, parser_class=_Parser)
    names = "\n".join(f"  {setting.name:<14} {setting.help}" for setting in SETTINGS.values())
    retrieval = actions.add_parser(
        "retrieval",
        help="how many questions find the memories that answer them",
        description=f"{_DESCRIPTION}\n\n{_DATA}",
        epilog=f"settings:\n{names}\n  {ALL_SETTINGS:<14} each of them",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    retrieval.add_argument("file", metavar="FILE", help="the conversations, as JSON")
    add = retrieval.add_argument
    add("--settings", metavar="NAMES", action="append", default=[], help="rows, with commas between them (hybrid)")
    add("--source", metavar="NAME", action="append", default=[], help="an embedding source; may be repeated")
    add("--set", metavar="KEY=VALUE", action="append", default=[], help="a key of the configuration; may be repeated")
    add("--tune", metavar="KEY=VALUE,…", action="append", default=[], help="values to choose from; may be repeated")
    add("--conversations", metavar="N", type=_count, help="only the first N, for a quick look")
    add("--questions", metavar="N", type=_count, help="only the first N of each conversation, for a quick look")
    add("--format", choices=_FORMATS, default="text", help="text, markdown for a README, or json")
    _add_global(retrieval)
    return parser


def _add_global(parser: argparse.ArgumentParser) -> None:
    """The options of every command of memspine, which may stand before the name of the command as well."""
    missing = argparse.SUPPRESS
    parser.add_argument("--config", metavar="FILE", default=missing, help="whose stores and sources are measured")
    parser.add_argument("--json", action="store_true", default=missing, help="the same as --format json")
    parser.add_argument("--quiet", "-q", action="store_true", default=missing, help="no progress")
    parser.add_argument("--no-maintenance", action="store_true", default=missing, help=argparse.SUPPRESS)


def _retrieval(options: argparse.Namespace) -> str:
    from memspine_bench.data import DataFile, first, read_data
    from memspine_bench.evaluation import evaluate
    from memspine_bench.settings import override, tuned

    overrides = [override(text) for text in options.set]
    tuning = dict(tuned(text) for text in options.tune)
    names = [name.strip() for given in options.settings for name in given.split(",") if name.strip()]
    try:
        data = read_data(options.file)
    except OSError as error:
        raise DataError([f"{options.file}: {error.strerror or error}"]) from error
    conversations = first(data.conversations, count=options.conversations, questions=options.questions)
    chosen = DataFile(name=data.name, sha256=data.sha256, conversations=tuple(conversations))
    progress, done = _progress(options)
    try:
        report = evaluate(
            chosen,
            settings=names or ("hybrid",),
            sources=options.source,
            config=getattr(options, "config", None),
            overrides=overrides,
            tune=tuning,
            limits=_limits(options, data),
            progress=progress,
        )
    finally:
        done()
    return _drawn(report, "json" if getattr(options, "json", False) else options.format)


def _drawn(report: Report, form: str) -> str:
    from memspine_bench import drawing

    if form == "json":
        return json.dumps(drawing.data(report), ensure_ascii=False, indent=2, default=str)
    return drawing.markdown(report) if form == "markdown" else drawing.text(report)


def _limits(options: argparse.Namespace, data: DataFile) -> list[str]:
    limits = []
    if options.conversations is not None and options.conversations < len(data.conversations):
        limits.append(f"the first {options.conversations} of {len(data.conversations)} conversations")
    if options.questions is not None:
        limits.append(f"at most the first {options.questions} questions of each conversation")
    return limits


def _progress(options: argparse.Namespace) -> tuple[Callable[[str], None], Callable[[], None]]:
    """What shows a line on a terminal that the next one replaces, and what takes the last one away."""
    is_shown = sys.stderr is not None and sys.stderr.isatty() and not getattr(options, "quiet", False)

    def show(text: str) -> None:
        if is_shown:
            plain = "".join(character if character.isprintable() else "?" for character in text)
            _write(sys.stderr, f"\r\x1b[K{plain}")
            sys.stderr.flush()

    return show, lambda: show("")


def _count(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of things to look at; expected 1 or more")
    return number


def _tell(problems: Sequence[str], *, code: int, type: str, as_json: bool) -> int:
    """Tell everything that is wrong, as commands of memspine do."""
    if as_json:
        error: dict[str, Any] = {"message": "\n".join(problems), "type": type, "details": {"problems": list(problems)}}
        _write(sys.stderr, json.dumps({"error": error}) + "\n")
        return code
    for problem in problems[:_PROBLEMS_SHOWN_MAX]:
        _write(sys.stderr, f"memspine: {' '.join(problem.split())}\n")
    if (more := len(problems) - _PROBLEMS_SHOWN_MAX) > 0:
        _write(sys.stderr, f"memspine: and {more} more; --json lists all\n")
    return code


def _write(stream: TextIO, text: str) -> None:
    """Write in the encoding of the stream, what it lacks as escapes."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
