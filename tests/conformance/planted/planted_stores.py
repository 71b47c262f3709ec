"""Vector stores with one defect each."""

from planted_leases import *  # noqa: F403 - one namespace for all defects
from planted_nearness import *  # noqa: F403 - the same
from planted_queues import *  # noqa: F403 - the same
from planted_spaces import *  # noqa: F403 - the same
from planted_store_base import BaseOnly, Clean
from planted_storing import *  # noqa: F403 - the same
from planted_terms import *  # noqa: F403 - the same
from planted_words import *  # noqa: F403 - the same

__all__ = ["BaseOnly", "Clean"]
