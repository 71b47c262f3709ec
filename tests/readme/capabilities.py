"""The README's table of what each store claims, made of the declarations of this repository's plugins.

After changing a declaration: python tests/readme/capabilities.py --write
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from memspine.contracts import Capability
from memspine.plugins import Plugin, Plugins

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
UPDATE = "python tests/readme/capabilities.py --write"
KINDS = ("memory backend", "vector store")
TABLE = re.compile(r"(<!-- capabilities: begin -->\n).*?(\n<!-- capabilities: end -->)", re.DOTALL)


def own_plugins(plugins: Plugins) -> Iterator[Plugin]:
    """Those of this repository, whatever else is installed. Raises the error of one that does not load."""
    names = {"memspine", *(f"memspine-{file.parent.name}" for file in ROOT.glob("plugins/*/pyproject.toml"))}
    for plugin in plugins.load_all():
        if isinstance(plugin, Plugin):
            if plugin.entry.distribution in names:
                yield plugin
        elif plugin.plugin in {path.name for path in ROOT.glob("plugins/*")}:
            raise plugin


def capabilities_table(plugins: Plugins) -> str:
    """The table as the README has to show it."""
    columns = list(Capability)
    lines = [f"| store | {' | '.join(f'`{capability}`' for capability in columns)} |"]
    lines.append(f"| --- |{' :---: |' * len(columns)}")
    own = sorted(own_plugins(plugins), key=lambda plugin: plugin.entry.name)
    for kind in KINDS:
        for plugin in own:
            for provider in plugin.providers[kind]:
                page = f"plugins/{plugin.entry.name}/README.md"
                name = f"[`{provider.name}`]({page})" if (ROOT / page).exists() else f"`{provider.name}`"
                claims = ("yes" if capability in provider.capabilities else "" for capability in columns)
                lines.append(f"| {kind} {name} | {' | '.join(claims)} |")
    return "\n".join(lines)


def with_table(readme: str, table: str) -> str:
    """The README with this table in its place. Raises ValueError where it has no place for it, or two."""
    changed, count = TABLE.subn(lambda found: f"{found[1]}{table}{found[2]}", readme)
    if count != 1:
        raise ValueError(f"the README has {count} places for the table of capabilities; expected one")
    return changed


if __name__ == "__main__":
    shown = capabilities_table(Plugins())
    if sys.argv[1:] == ["--write"]:
        README.write_text(with_table(README.read_text(encoding="utf-8"), shown), encoding="utf-8")
    else:
        print(shown)
