"""The backend without a defect: the reference, with its state in a file, so that it outlives its process."""

import functools
import os
import pickle

from memspine.conformance.reference.backend import ReferenceBackend
from memspine.contracts import Capability, MemoryBackendDefaults

WRITES = (
    "create create_many update delete delete_many record_access expire put trim_changes trim_history purge"
).split()


def saving(method):
    """The same call, with the state in the file before it is answered."""

    @functools.wraps(method)
    async def call(self, *arguments, **options):
        result = await method(self, *arguments, **options)
        self.save()
        return result

    return call


class Clean(ReferenceBackend):
    """No defect. Subclasses say in `breaks` which clauses have to notice them."""

    breaks = ()
    capabilities = frozenset(Capability)

    def __init__(self, context):
        super().__init__(context.name)
        self.file = context.data_folder / "state.pickle"
        if self.file.exists():
            self.state = pickle.loads(self.file.read_bytes())  # noqa: S301 - our own file

    def save(self):
        fresh = self.file.with_name("fresh")
        fresh.write_bytes(pickle.dumps(self.state))
        os.replace(fresh, self.file)  # noqa: PTH105 - what the next line of a crash must not find halfway

    async def backup(self, target):
        self.require_open()
        with target.open("xb") as file:
            file.write(pickle.dumps(self.state))


for _name in WRITES:
    setattr(Clean, _name, saving(getattr(ReferenceBackend, _name)))


class BaseOnly(Clean):
    """No defect, and no capability: what every backend has to keep is enough."""

    capabilities = frozenset()


for _name in "put changes tombstones trim_changes lexical speakers history trim_history purge backup".split():
    setattr(BaseOnly, _name, getattr(MemoryBackendDefaults, _name))
