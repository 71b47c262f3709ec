"""See memspine work: a conversation of some 200 turns goes in, questions are asked, and each answer says why it came.

Where an embedding source is installed, one of the answers has no word in common with its question. It all happens in a
folder of its own, temporary unless you name one; your memories and configuration are not touched.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import argparse

    from memspine.cli.output import Output
    from memspine.cli.story import Story
    from memspine.results import Hit

_WIDTH: Final = 100


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("--folder", metavar="DIR", help="keep everything in this folder, to go on with it")
    parser.add_argument("--plugin", default="sqlite", metavar="NAME", help="the store to try (default sqlite)")
    parser.add_argument("--source", metavar="NAME", help="the embedding source to try (default: one that needs no key)")


def run(options: argparse.Namespace, out: Output) -> int:
    """Do it, and tell."""
    import contextlib
    import tempfile

    from memspine.cli.files import named_path

    with contextlib.ExitStack() as stack:
        if options.folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="memspine-quickstart-")))
        else:
            folder = named_path(options.folder)
        _play(folder, options, out)
    return 0


def _play(folder: Path, options: argparse.Namespace, out: Output) -> None:
    import asyncio

    from memspine.cli import story
    from memspine.plugins import Plugins

    path = story.prepare(folder, plugin=options.plugin, source=options.source)
    played = asyncio.run(story.tell(path, Plugins(), out))
    commands = next_commands(None if options.folder is None else path)
    if out.json:
        out.data(_as_data(played, commands, kept=None if options.folder is None else str(path)))
    else:
        _tell(played, commands, out, kept=options.folder is not None)


def next_commands(kept: Path | None) -> tuple[tuple[str, str], ...]:
    """Where to go from here: commands, and what they do."""
    import shlex

    if kept is not None:
        config = f"memspine --config {shlex.quote(str(kept))}"
        return (
            (f'{config} search --explain "Who repaired Heron?"', "ask more of this conversation"),
            (f"{config} list --session s01", "read a session of it"),
            ("memspine doctor", "check your own installation"),
        )
    return (
        ('memspine add "Juno eats duck and potato now."', "remember something of your own"),
        ('memspine search --explain "What does the dog eat?"', "recall it, with the reasons"),
        ("memspine doctor", "see where it is kept, and check it"),
    )


def _as_data(story: Story, commands: tuple[tuple[str, str], ...], *, kept: str | None) -> dict[str, Any]:
    from memspine.wire import result_to_wire

    return {
        "imported": {
            "memories": story.memories,
            "sessions": story.sessions,
            "seconds": round(story.seconds, 4),
            "backend": story.config.primary.plugin,
            "embedded": 0 if story.indexed is None else story.indexed.report.embedded,
        },
        "questions": [{"question": question, **result_to_wire(result)} for question, result in story.answers],
        "before": story.request,
        "after": story.injected.request,
        "off": list(story.off),
        "next": [command for command, _ in commands],
        "config": kept,
    }


def _tell(story: Story, commands: tuple[tuple[str, str], ...], out: Output, *, kept: bool) -> None:
    from memspine.cli.explain import trace_lines

    out.heading("Remember")
    speed = story.memories / max(story.seconds, 1e-6)
    where = f" in {story.config.source.folder}" if kept else ", a temporary one"
    out.line(
        f"  {story.memories} turns of {story.sessions} sessions in {story.seconds * 1000:.0f} ms"
        f" ({speed:.0f} a second), into a store of the plugin {story.config.primary.plugin}{where}"
    )
    if story.indexed is not None:
        embedding = story.indexed.status.embedding
        count = story.indexed.report.embedded
        out.line(
            f"  {count} of them embedded by {embedding.source} ({embedding.model}), to be found by meaning as well"
        )
    out.line()
    out.heading("Recall, and why")
    for question, result in story.answers:
        out.line(f"  {question}")
        for hit in result.hits:
            _tell_hit(hit, out)
        out.line()
    question, result = story.answers[0]
    out.heading("How the answer to the first question was found")
    for line in trace_lines(result.trace):
        out.line(f"  {line}")
    out.line()
    _tell_request("A chat request before", story.request, out)
    _tell_request(f"The same after injection ({story.injected.tokens} tokens)", story.injected.request, out)
    out.heading("What is off, and why")
    for reason in story.off or ("nothing",):
        out.line(f"  {reason}")
    out.line()
    out.heading("Next")
    for command, purpose in commands:
        out.line(f"  {command:<54} {purpose}")


def _tell_hit(hit: Hit, out: Output) -> None:
    import textwrap

    from memspine.cli.explain import legs_text

    speaker = hit.memory.metadata.get("speaker", "?")
    said = f"{speaker} on {hit.memory.created_at:%Y-%m-%d}: {hit.memory.content}"
    out.block(textwrap.fill(said, _WIDTH, initial_indent=f"    {hit.rank}. ", subsequent_indent="       "))
    words = f"because of {', '.join(hit.matched) or 'no word'}"
    if hit.tier == "vector" and not hit.matched:
        words = "found by meaning: no word in common"
    why = f"{words}; score {hit.score:.3f}, {legs_text(hit)}, session {hit.memory.session}"
    out.block(textwrap.fill(why, _WIDTH, initial_indent="       ", subsequent_indent="       "))


def _tell_request(heading: str, request: object, out: Output) -> None:
    from memspine.cli.output import to_json

    out.heading(heading)
    for line in to_json(request, indent=2).splitlines():
        out.line(f"  {line}")
    out.line()
