"""Defects in values, create, update and delete."""

import asyncio
import json
from contextlib import contextmanager
from datetime import UTC, datetime

import attrs
from planted_base import Clean

from memspine.conformance.reference.shelf import handed_out
from memspine.errors import ConflictError, NotFoundError
from memspine.model import Memory, Scope, Written

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Changed(Clean):
    """Keeps something other than what it was given."""

    def change(self, memory):
        raise NotImplementedError

    def keep(self, memory, *, now):
        return super().keep(self.change(memory), now=now)


class TrimsContent(Changed):
    breaks = ("MB-1",)

    def change(self, memory):
        return attrs.evolve(memory, content=memory.content.strip() or memory.content)


class UnifiesLineEnds(Changed):
    breaks = ("MB-1",)

    def change(self, memory):
        return attrs.evolve(memory, content=memory.content.replace("\r\n", "\n"))


class FoldsIds(Clean):
    breaks = ("MB-1",)

    def _create(self, new, *, scope, id, now):
        return super()._create(new, scope=scope, id=id.lower(), now=now)


class IntegersAsDoubles(Changed):
    breaks = ("MB-2",)

    def change(self, memory):
        return attrs.evolve(memory, metadata=json.loads(json.dumps(memory.metadata), parse_int=lambda n: int(float(n))))


class EmptyTextAsNull(Changed):
    breaks = ("MB-2",)

    def change(self, memory):
        return attrs.evolve(memory, metadata={name: None if v == "" else v for name, v in memory.metadata.items()})


class WholeFloatsAsIntegers(Changed):
    breaks = ("MB-2",)

    def change(self, memory):
        values = {n: int(v) if isinstance(v, float) and v.is_integer() else v for n, v in memory.metadata.items()}
        return attrs.evolve(memory, metadata=values)


class LosesMilliseconds(Changed):
    breaks = ("MB-3",)

    def change(self, memory):
        return attrs.evolve(memory, created_at=memory.created_at.replace(microsecond=0))


class BeginsIn1970(Changed):
    breaks = ("MB-3",)

    def change(self, memory):
        return attrs.evolve(memory, created_at=max(memory.created_at, EPOCH))


class KeepsAlias(Clean):
    breaks = ("MB-4",)

    async def get_many(self, ids, *, scope, now):
        found = await super().get_many(ids, scope=scope, now=now)
        return {id: self.find(id, scope=scope, now=now) for id in found}


class ChangesItsInput(Clean):
    breaks = ("MB-4",)

    def merged(self, old, new):
        result = super().merged(old, new)
        for name in [name for name, value in new.items() if value is None]:
            del new[name]
        return result


class BeginsAtZero(Changed):
    breaks = ("MB-10",)

    def change(self, memory):
        return attrs.evolve(memory, revision=memory.revision - 1)


class IgnoresCreation(Changed):
    breaks = ("MB-10",)

    def change(self, memory):
        return attrs.evolve(memory, created_at=memory.updated_at) if memory.revision == 1 else memory


class DropsAWrite(Clean):
    breaks = ("MB-10", "MB-82")

    async def create(self, memory, *, scope, id, now):
        before = self.state.copy()
        written = await super().create(memory, scope=scope, id=id, now=now)
        if "1" in id:
            self.state = before
        return written


class ForgetsTelemetry(Clean):
    breaks = ("MB-11",)

    def _create(self, new, *, scope, id, now):
        written = super()._create(new, scope=scope, id=id, now=now)
        memory = attrs.evolve(written.memory, access_count=0, last_accessed_at=None)
        self.state.shelf(memory.owner).memories[memory.id] = memory
        return Written(memory, written.created)


class KeepsOldExpiry(Clean):
    breaks = ("MB-11",)

    def keep(self, memory, *, now):
        old = self.state.shelf(memory.owner).memories.get(memory.id)
        if old is not None and memory.expires_at is None:
            memory = attrs.evolve(memory, expires_at=old.expires_at)
        return super().keep(memory, now=now)


class ReplacesMetadata(Clean):
    breaks = ("MB-12",)

    def merged(self, old, new):
        return {name: value for name, value in new.items() if value is not None}


class KeepsNull(Clean):
    breaks = ("MB-12",)

    def merged(self, old, new):
        return {**old, **new}


class MergesDeeply(Clean):
    breaks = ("MB-12",)

    def merged(self, old, new):
        both = {n: old[n] | new[n] for n in new if isinstance(new[n], dict) and isinstance(old.get(n), dict)}
        return super().merged(old, new) | both


class GrowsMetadata(Clean):
    breaks = ("MB-12",)

    def merged(self, old, new):
        return {name: value for name, value in {**old, **new}.items() if value is not None or name not in new}


class EmptyKeyIsAKey(Clean):
    breaks = ("MB-13",)

    def _create(self, new, *, scope, id, now):
        if not new.key:
            holders = [m for m in self.state.shelf(scope.owner).memories.values() if not m.key]
            id = holders[0].id if holders else id
        return super()._create(new, scope=scope, id=id, now=now)


class KnownIdIsIgnored(Clean):
    breaks = ("MB-14",)

    def _create(self, new, *, scope, id, now):
        old = self.state.shelf(scope.owner).memories.get(id)
        if old is not None and not old.is_expired(now) and self.state.shelf(scope.owner).holder(new.key) is None:
            return Written(handed_out(old), created=False)
        return super()._create(new, scope=scope, id=id, now=now)


class IdWins(Clean):
    breaks = ("MB-15",)

    def _create(self, new, *, scope, id, now):
        if id in self.state.shelf(scope.owner).memories:
            new = attrs.evolve(new, key="")
        return super()._create(new, scope=scope, id=id, now=now)


class RevivesTheExpired(Clean):
    breaks = ("MB-16",)

    def _create(self, new, *, scope, id, now):
        shelf = self.state.shelf(scope.require_owner("create"))
        old = shelf.holder(new.key) or shelf.memories.get(id)
        if old is not None:
            shelf.memories[old.id] = attrs.evolve(old, expires_at=None)
        return super()._create(new, scope=scope, id=id, now=now)


class ForgetsTombstones(Clean):
    breaks = ("MB-17", "MB-112")

    def bury(self, memory, *, now, revision=None):
        tombstone = super().bury(memory, now=now, revision=revision)
        self.state.shelf(memory.owner).tombstones.clear()
        return tombstone


class Races(Clean):
    breaks = ("MB-18",)

    async def create(self, memory, *, scope, id, now):
        holder = self.state.shelf(scope.require_owner("create")).holder(memory.key)
        await asyncio.sleep(0)
        if holder is None:
            owner, self.key = scope.owner, memory.key
            fields = {"content": memory.content, "key": memory.key, "created_at": now, "updated_at": now}
            return Written(self.keep(Memory(id=id, owner=owner, **fields), now=now), created=True)
        return await super().create(memory, scope=scope, id=id, now=now)


class HalfBatches(Clean):
    breaks = ("MB-19",)

    @contextmanager
    def all_or_nothing(self):
        yield


class BatchInReverse(Clean):
    breaks = ("MB-19",)

    async def create_many(self, memories, *, scope, ids, now):
        written = await super().create_many(memories[::-1], scope=scope, ids=ids[::-1], now=now)
        return written[::-1]


class UpdateMerges(Clean):
    breaks = ("MB-30",)

    async def update(self, id, changes, *, scope, now, expected_revision=None):
        old = self.find(id, scope=scope, now=now)
        if old is not None and "metadata" in changes.named():
            changes = attrs.evolve(changes, metadata={**old.metadata, **changes.metadata})
        return await super().update(id, changes, scope=scope, now=now, expected_revision=expected_revision)


class NoneIsUnset(Clean):
    breaks = ("MB-30",)

    async def update(self, id, changes, *, scope, now, expected_revision=None):
        named = {name: value for name, value in changes.named().items() if value is not None}
        changes = type(changes)(**named)
        return await super().update(id, changes, scope=scope, now=now, expected_revision=expected_revision)


class UpdatesTheExpired(Clean):
    breaks = ("MB-31",)

    async def update(self, id, changes, *, scope, now, expected_revision=None):
        old = self.state.shelf(scope.require_owner("update")).memories.get(id)
        if old is not None and old.is_expired(now):
            return self.keep(attrs.evolve(old, content="x", revision=old.revision + 1), now=now)
        return await super().update(id, changes, scope=scope, now=now, expected_revision=expected_revision)


class ConflictBeforeAbsence(Clean):
    breaks = ("MB-31",)

    async def update(self, id, changes, *, scope, now, expected_revision=None):
        if expected_revision is not None and self.find(id, scope=scope, now=now) is None:
            raise ConflictError(self.name, id, expected=f"revision {expected_revision}", found="none")
        return await super().update(id, changes, scope=scope, now=now, expected_revision=expected_revision)


class SwallowsConflicts(Clean):
    breaks = ("MB-32",)

    async def update(self, id, changes, *, scope, now, expected_revision=None):
        return await super().update(id, changes, scope=scope, now=now)


class DeletesAnyRevision(Clean):
    breaks = ("MB-32",)

    async def delete(self, id, *, scope, now, expected_revision=None):
        return await super().delete(id, scope=scope, now=now)


class StealsKeys(Clean):
    breaks = ("MB-33",)

    async def update(self, id, changes, *, scope, now, expected_revision=None):
        holder = self.state.shelf(scope.require_owner("update")).holder(changes.named().get("key", ""))
        if holder is not None and holder.id != id and self.find(id, scope=scope, now=now) is not None:
            self.state.shelf(scope.owner).memories[holder.id] = attrs.evolve(holder, key="")
        return await super().update(id, changes, scope=scope, now=now, expected_revision=expected_revision)


class ExpiredKeysAreTaken(Clean):
    breaks = ("MB-33",)

    async def update(self, id, changes, *, scope, now, expected_revision=None):
        holder = self.state.shelf(scope.require_owner("update")).holder(changes.named().get("key", ""))
        if holder is not None and holder.id != id:
            raise ConflictError(self.name, id, expected="a free key", found="a taken one")
        return await super().update(id, changes, scope=scope, now=now, expected_revision=expected_revision)


class TombstoneOfTheSameRevision(Clean):
    breaks = ("MB-34",)

    async def delete(self, id, *, scope, now, expected_revision=None):
        tombstone = await super().delete(id, scope=scope, now=now, expected_revision=expected_revision)
        return attrs.evolve(tombstone, revision=tombstone.revision - 1)


class CountsTheDeleted(Clean):
    breaks = ("MB-34",)

    async def count(self, filter, *, scope, now, by=None):
        counts = await super().count(filter, scope=scope, now=now, by=by)
        return attrs.evolve(counts, total=counts.total + len(self.state.shelf(scope.owner).tombstones))


class DryRunsDelete(Clean):
    breaks = ("MB-35",)

    async def delete_many(self, filter, *, scope, now, dry_run):
        return await super().delete_many(filter, scope=scope, now=now, dry_run=False)


class DeletesWithoutFilter(Clean):
    breaks = ("MB-35",)

    async def delete_many(self, filter, *, scope, now, dry_run):
        return await super().delete_many(attrs.evolve(filter, types=()), scope=scope, now=now, dry_run=dry_run)


class DeletesInOrderOfIds(Clean):
    breaks = ("MB-35",)

    async def delete_many(self, filter, *, scope, now, dry_run):
        return tuple(sorted(await super().delete_many(filter, scope=scope, now=now, dry_run=dry_run)))


class WritesBeforeItChecks(Clean):
    breaks = ("MB-36",)

    async def delete(self, id, *, scope, now, expected_revision=None):
        memory = self.find(id, scope=scope, now=now)
        if memory is not None and expected_revision not in (None, memory.revision):
            self.bury(memory, now=now)
            raise ConflictError(self.name, id, expected="another", found="this")
        return await super().delete(id, scope=scope, now=now, expected_revision=expected_revision)


class LosesUpdates(Clean):
    breaks = ("MB-82",)

    async def update(self, id, changes, *, scope, now, expected_revision=None):
        old = self._expected(id, scope=scope, now=now, revision=expected_revision)
        await asyncio.sleep(0)
        new = attrs.evolve(old, **changes.named(), updated_at=now, revision=old.revision + 1)
        return self.keep(new, now=now)


class HalfCancelled(Clean):
    breaks = ("MB-84",)

    async def create_many(self, memories, *, scope, ids, now):
        scope.require_owner("create_many")
        written = []
        for memory, id in zip(memories, ids, strict=True):
            written.append(self._create(memory, scope=scope, id=id, now=now))
            await asyncio.sleep(0)
        return tuple(written)


class DeletesForeign(Clean):
    breaks = ("MB-60",)

    async def delete(self, id, *, scope, now, expected_revision=None):
        for owner, shelf in self.state.shelves.items():
            if id in shelf.memories and owner != scope.owner:
                self.bury(shelf.memories[id], now=now)
        return await super().delete(id, scope=scope, now=now, expected_revision=expected_revision)


class ForeignIdsAreTaken(Clean):
    breaks = ("MB-60",)

    def _create(self, new, *, scope, id, now):
        if any(id in shelf.memories for owner, shelf in self.state.shelves.items() if owner != scope.owner):
            raise ConflictError(self.name, id, expected="a free id", found="a taken one")
        return super()._create(new, scope=scope, id=id, now=now)


class SharedWrites(Clean):
    breaks = ("MB-62",)

    async def create(self, memory, *, scope, id, now):
        if scope.kind == "shared":
            scope = Scope.of_owner(scope.owner)
        return await super().create(memory, scope=scope, id=id, now=now)


class SharedAccesses(Clean):
    breaks = ("MB-62",)

    async def record_access(self, counts, *, scope, now):
        if scope.kind == "shared":
            scope = Scope.of_owner(scope.owner)
        await super().record_access(counts, scope=scope, now=now)


class CreatesOutsideItsSession(Clean):
    breaks = ("MB-63",)

    def _create(self, new, *, scope, id, now):
        return super()._create(new, scope=Scope.of_owner(scope.require_owner("create")), id=id, now=now)


class DeletesInAnySession(Clean):
    breaks = ("MB-63",)

    async def delete(self, id, *, scope, now, expected_revision=None):
        whole = Scope.of_owner(scope.require_owner("delete"))
        return await super().delete(id, scope=whole, now=now, expected_revision=expected_revision)


class AbsenceIsSilent(Clean):
    breaks = ("MB-31", "MB-34")

    async def delete(self, id, *, scope, now, expected_revision=None):
        try:
            return await super().delete(id, scope=scope, now=now, expected_revision=expected_revision)
        except NotFoundError:
            return None
