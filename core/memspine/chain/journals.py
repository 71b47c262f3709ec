"""Which file is the journal of a configuration's chain."""

from __future__ import annotations

import hashlib
from pathlib import Path

from memspine.config import Config
from memspine.journal import Journal
from memspine.model import canonical_json


def chain_journal(config: Config) -> Journal:
    """The journal of a configuration's chain, not opened yet.

    Where no path is configured, its name has that of the primary and a mark of where the configuration stands, or of
    what it says of the primary where it stands nowhere: two chains never share one.
    """
    primary, source = config.primary, config.source
    if config.journal.path:
        path = source.folder / Path(config.journal.path).expanduser()
    else:
        place = str(source.path.resolve()) if source.path is not None else canonical_json(primary.document)
        mark = hashlib.sha256(place.encode()).hexdigest()[:12]
        path = config.data_folder / "journals" / f"{primary.name}-{mark}.db"
    return Journal(path, primary=primary.name, plugin=primary.plugin)
