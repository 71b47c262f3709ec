"""The files of models: which ones plugins can use, which of them are there, and how they are fetched.

Nothing here runs unasked: only `memspine models` imports it. What is fetched gets its name when its size and its
SHA-256 are those that the plugin states, so whatever has its name is whole.
"""

from __future__ import annotations

from memspine.modelfiles.catalogue import Offered, find, folder_of, offered
from memspine.modelfiles.errors import ModelFilesError
from memspine.modelfiles.fetching import Fetched, Progress, fetch_model
from memspine.modelfiles.origins import Origin, origin_of

__all__ = [
    "Fetched",
    "ModelFilesError",
    "Offered",
    "Origin",
    "Progress",
    "fetch_model",
    "find",
    "folder_of",
    "offered",
    "origin_of",
]
