"""Import a distribution as memspine does: its package, its entry points, and what it offers is opened and read by."""

import importlib
import sys
from importlib import metadata
from pkgutil import resolve_name


def main() -> None:
    """Load everything of the distribution that the argument names."""
    name = sys.argv[1]
    print(importlib.import_module(name).__file__)
    for entry in metadata.distribution(name).entry_points:
        loaded = entry.load()
        print(f"  {entry.group}: {entry.name}")
        for hook in vars(loaded).values() if entry.group == "memspine" else ():
            for offer in hook() if hasattr(hook, "memspine_impl") else ():
                for part in ("open", "recognise", "read"):  # files of a model are offered as well, and have none
                    if address := getattr(offer, part, ""):
                        resolve_name(address)
                        print(f"    {offer.name}: {address}")


if __name__ == "__main__":
    main()
