"""Backends with one defect each."""

from planted_base import BaseOnly, Clean
from planted_capabilities import *  # noqa: F403 - one namespace for all defects
from planted_reads import *  # noqa: F403 - the same
from planted_surroundings import *  # noqa: F403 - the same
from planted_writes import *  # noqa: F403 - the same

__all__ = ["BaseOnly", "Clean"]
