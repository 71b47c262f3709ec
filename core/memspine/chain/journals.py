"""Which file is the journal of a configuration's chain, and which others may have been."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from memspine.config import Config
from memspine.journal import Journal, Whose
from memspine.journal.whose import MARK_LENGTH

if TYPE_CHECKING:
    from memspine.status import StrayJournal


def chain_journal(config: Config) -> Journal:
    """The journal of a configuration's chain, not opened yet.

    Where no path is configured, its name has that of the primary and a mark of the primary's store, so that it is found
    again wherever the configuration stands, and two stores never share one.
    """
    primary = config.primary
    identity = primary.identity(config.folders)
    if config.journal.path:
        path = config.source.folder / Path(config.journal.path).expanduser()
    else:
        path = _folder(config) / f"{primary.name}-{identity.mark[:MARK_LENGTH]}.db"
    whose = Whose(primary=primary.name, plugin=primary.plugin, store=identity.mark, place=identity.place)
    return Journal(path, whose=whose)


def stray_journals(config: Config) -> tuple[StrayJournal, ...]:
    """Journals in the data folder that may be an earlier one of this chain, and are not done. It reads files."""
    from memspine.journal.strays import strays

    journal = chain_journal(config)
    return strays(_folder(config), journal.whose, path=journal.path)


def _folder(config: Config) -> Path:
    return config.data_folder / "journals"
