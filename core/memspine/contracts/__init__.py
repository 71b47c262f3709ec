"""What a plugin implements. The clauses in MUST words are in `core/contract/`; `memspine.conformance` proves them.

All calls are coroutines, keyword-only beyond the first argument, and take the time from the caller (`now`), so that
a store has no clock of its own. Scores are "higher is nearer". Ties are broken by id.
"""

from memspine.contracts.backend import MemoryBackend, MemoryBackendDefaults
from memspine.contracts.capability import Capability
from memspine.contracts.embedding import EmbeddingIdentity, EmbeddingSource, Role, Vectors
from memspine.contracts.importer import BadLine, Importer, ImportSource, Note, SourceItem, SourceMemory
from memspine.contracts.injector import Injector
from memspine.contracts.models import Model, ModelFile
from memspine.contracts.provider import CONTRACT, Context, Folders, Provider, Secret
from memspine.contracts.reranker import Reranker
from memspine.contracts.vectors import (
    Backlog,
    Quantisation,
    Space,
    TermRecord,
    VectorHit,
    VectorMatches,
    VectorRecord,
    VectorStore,
    VectorStoreDefaults,
    Work,
)

__all__ = [
    "CONTRACT",
    "Backlog",
    "BadLine",
    "Capability",
    "Context",
    "EmbeddingIdentity",
    "EmbeddingSource",
    "Folders",
    "ImportSource",
    "Importer",
    "Injector",
    "MemoryBackend",
    "MemoryBackendDefaults",
    "Model",
    "ModelFile",
    "Note",
    "Provider",
    "Quantisation",
    "Reranker",
    "Role",
    "Secret",
    "SourceItem",
    "SourceMemory",
    "Space",
    "TermRecord",
    "VectorHit",
    "VectorMatches",
    "VectorRecord",
    "VectorStore",
    "VectorStoreDefaults",
    "Vectors",
    "Work",
]
