"""The vector index of a chain: spaces, their queues, their sources."""

from memspine.indexing.index import Answering, IndexSettings, Progress, VectorIndex, require_identity
from memspine.indexing.upkeep import Round

__all__ = ["Answering", "IndexSettings", "Progress", "Round", "VectorIndex", "require_identity"]
