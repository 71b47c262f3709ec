"""The vector store without a defect: the reference, with what it holds in a file, so that it outlives its process."""

import functools
import os
import pickle

from memspine.conformance.reference.vectors import ReferenceVectorStore
from memspine.contracts import VectorStoreDefaults

WRITES = (
    "open_space complete_space activate drop_space upsert settle delete purge expire enqueue claim postpone release "
    "index_terms"
).split()


def saving(method):
    """The same call, with everything in the file before it is answered."""

    @functools.wraps(method)
    async def call(self, *arguments, **options):
        result = await method(self, *arguments, **options)
        self.save()
        return result

    return call


class Clean(ReferenceVectorStore):
    """No defect. Subclasses say in `breaks` which clauses have to notice them."""

    breaks = ()

    def __init__(self, context):
        super().__init__(context.name)
        self.file = context.data_folder / "vectors.pickle"
        if self.file.exists():
            self.shelves = pickle.loads(self.file.read_bytes())  # noqa: S301 - our own file

    def save(self):
        fresh = self.file.with_name("fresh")
        fresh.write_bytes(pickle.dumps(self.shelves))
        os.replace(fresh, self.file)  # noqa: PTH105 - what the next line of a crash must not find halfway


for _name in WRITES:
    setattr(Clean, _name, saving(getattr(ReferenceVectorStore, _name)))


class BaseOnly(Clean):
    """No defect, and no capability: what every store has to keep is enough."""

    capabilities = frozenset()


for _name in "index_terms lexical speakers".split():
    setattr(BaseOnly, _name, getattr(VectorStoreDefaults, _name))
