"""The public API as text, one name a line, to be compared with public_api.txt beside this file.

A change of it is a decision. After deciding: python tests/arch/public_api.py --write
"""

import dataclasses
import enum
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

SNAPSHOT = Path(__file__).with_name("public_api.txt")
UPDATE = "python tests/arch/public_api.py --write"
MODULES = (
    "memspine",
    "memspine.blocking",
    "memspine.contracts",
    "memspine.model",
    "memspine.errors",
    "memspine.text",
    "memspine.ranking",
    "memspine.times",
    "memspine.outbound",
    "memspine.hookspecs",
)


def public_names(module: ModuleType) -> list[str]:
    """`__all__`, or else what the module itself defines without an underscore."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(listed)
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    )


def signature(function: object) -> str:
    """The signature, free of addresses and of what differs between Python versions."""
    try:
        text = str(inspect.signature(function))
    except (TypeError, ValueError):
        return "(...)"
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    return re.sub(r"\b(pathlib)\._local\.|\b(collections\.abc|typing)\.", lambda m: f"{m[1]}." if m[1] else "", text)


def members(cls: type) -> Iterator[str]:
    """The public methods, properties and class attributes that the class adds itself."""
    for name, value in sorted(vars(cls).items()):
        if name.startswith("_") and name not in {"__aenter__", "__aexit__", "__enter__", "__exit__", "__call__"}:
            continue
        if isinstance(value, (classmethod, staticmethod)):
            kind = type(value).__name__
            yield f"  {kind} {name}{signature(value.__func__)}"
        elif inspect.isfunction(value):
            prefix = "async " if inspect.iscoroutinefunction(value) else ""
            yield f"  {prefix}{name}{signature(value)}"
        elif isinstance(value, property):
            yield f"  property {name}"


def describe(name: str, value: object) -> Iterator[str]:
    """One line for the name, and one for each member of a class."""
    if isinstance(value, type) and issubclass(value, enum.Enum):
        yield f"enum {name}: {', '.join(f'{member.name}={member.value!r}' for member in value)}"
    elif isinstance(value, type):
        bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
        is_value = hasattr(value, "__attrs_attrs__") or dataclasses.is_dataclass(value)
        constructed = is_value or "__init__" in vars(value)
        shown = "" if getattr(value, "_is_protocol", False) or not constructed else signature(value)
        yield f"class {name}[{bases}]{shown}" if bases else f"class {name}{shown}"
        yield from members(value)
    elif inspect.isfunction(value):
        prefix = "async def" if inspect.iscoroutinefunction(value) else "def"
        yield f"{prefix} {name}{signature(value)}"
    else:
        yield f"value {name}"


def public_api() -> str:
    """The whole text."""
    lines = [f"# The public API. Written by: {UPDATE}"]
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        lines += ["", module_name]
        for name in public_names(module):
            lines += [f"  {line}" for line in describe(name, getattr(module, name))]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        SNAPSHOT.write_text(public_api(), encoding="utf-8")
    else:
        sys.stdout.write(public_api())
