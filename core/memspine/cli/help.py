"""The pages of help that no single command owns."""

from __future__ import annotations

from memspine.cli.codes import exit_code_table
from memspine.cli.extensions import installed_commands
from memspine.cli.table import COMMANDS, GROUPS

_HEAD = """\
usage: memspine [--config FILE] [--json] [--no-maintenance] [--quiet] COMMAND …

Long-term memory for LLM applications, on any store."""

_OPTIONS = """\
Options of every command, before or after its name:
  --config FILE      the configuration file (else $MEMSPINE_CONFIG, ./memspine.toml, the user's)
  --json             answers in JSON on standard output, errors in JSON on standard error
  --no-maintenance   no maintenance after the answer; recalls are still counted
  --quiet, -q        only the answer and errors

  --version          the version; --help, or help COMMAND, explains a command"""


def main_page() -> str:
    """What `memspine --help` prints. Commands of other distributions are listed, not imported."""
    parts = [_HEAD]
    for group, heading in GROUPS.items():
        lines = [_line(name, command.help) for name, command in COMMANDS.items() if command.group == group]
        parts.append("\n".join((f"{heading}:", *lines)))
    if extensions := [e for e in installed_commands() if e.name not in COMMANDS]:
        parts.append("\n".join(("From other distributions:", *(_line(e.name, e.summary) for e in extensions))))
    return "\n\n".join((*parts, _OPTIONS, exit_code_page()))


def exit_code_page() -> str:
    """What `memspine help exit-codes` prints."""
    return f"Exit codes:\n{exit_code_table()}"


def _line(name: str, text: str) -> str:
    return f"  {name:<12} {text}"
