"""What is in the stores, against what was promised."""

from __future__ import annotations

from collections import Counter, defaultdict

from memspine.errors import BackendUnavailable, NotFoundError

from .belief import GONE


def contradiction(memory, fate, *, owner, is_current):
    """What is wrong with a memory that somebody was shown, if anything: `is_current` where it has to be the state of
    now; else it may be an earlier one, but not one from before it was deleted."""
    shown = f"{memory.owner} {memory.id} r{memory.revision} {memory.content!r}"
    if memory.owner != owner:
        return f"{shown}, which is another's"
    if "keeps" not in memory.content:  # what the test itself put there
        was_deleted = fate.is_promised and fate.is_gone
        return f"{shown}, which was deleted" if was_deleted else ""
    if memory.metadata != {"of": memory.content}:
        return f"{shown} with {memory.metadata}"
    if fate.is_gone or memory.content not in (fate.may_be if is_current else fate.was):
        return f"{shown}; it is one of {sorted(fate.may_be)}, and was {sorted(fate.was)}"
    return ""


def misread(stage, belief):
    """What the chain shows of each memory that contradicts what was promised, whoever of it is down."""
    found = []
    with stage.memory() as memory:
        for (owner, id), fate in belief.known():
            try:
                result = memory.get(id, owner=owner)
            except NotFoundError:
                found += [f"no {id}, which is one of {sorted(fate.may_be)}"] if fate.is_there else []
            except BackendUnavailable:
                pass
            else:
                is_current = result.pending or result.backend == stage.primary
                text = contradiction(result.memory, fate, owner=owner, is_current=is_current)
                found += [f"{result.backend} shows {text}"] if text else []
    return found


def findings(stage, belief, *, aside=()):
    """What is wrong in the stores and in the chain: states that no promise explains, memories that nobody made, what is
    not the same everywhere, what was deleted and is found by some way of asking, what somebody sees of another's.

    `aside` are memories that are the test's own business.
    """
    found, held = [], {}
    gone = [ref for ref, fate in belief.known() if fate.is_promised and fate.is_gone]
    for name in (stage.primary, *stage.replicas):
        with stage.alone(name) as memory:
            held[name] = contents(memory)
            found += [f"{name} {text}" for text in _unexplained(held[name], belief, aside)]
            found += [f"{name} {text}" for text in _revenants(memory, gone)]
    with stage.memory() as memory:
        found += [f"the chain {text}" for text in _revenants(memory, gone)]
    return found + _unequal(stage, held, aside)


def contents(memory):
    """All that is listed for everyone: by owner and id the revision, the content, the hash."""
    found, cursor = {}, None
    while True:
        page = memory.list(limit=500, cursor=cursor, everyone=True, management=True)
        for one in page.memories:
            assert (one.owner, one.id) not in found, f"{one.id} is listed twice"
            found[one.owner, one.id] = (one.revision, one.content, one.content_hash)
        if (cursor := page.cursor) is None:
            return found


def _unexplained(there, belief, aside):
    for ref, fate in belief.known():
        revision, content, _ = there.get(ref, (0, GONE, ""))
        if content not in fate.may_be:
            yield f"has {ref} r{revision} {content!r}, not one of {sorted(fate.may_be)}"
    known = {ref for ref, _ in belief.known()}
    for ref in sorted(there.keys() - known - {*aside}):
        if " keeps " in there[ref][1]:
            yield f"has {ref} {there[ref]}, which nobody made"


def _revenants(memory, gone):
    for owner, id in gone:
        for one in memory.get_many([id], owner=owner).values():
            yield f"gets {one}"
        for hit in memory.search(f"walnut {id}", owner=owner, limit=20).hits:
            if hit.memory.owner != owner:
                yield f"shows {owner} {hit.memory}"
            elif hit.memory.id == id:
                yield f"finds {hit.memory}"


def _unequal(stage, held, aside):
    """A primary without tombstones begins anew with the revisions of what is made again; its replicas do not."""
    right, first = held[stage.primary], 0 if stage.primary != "archive" else 1
    return [
        f"{ref}: {stage.primary} has {right.get(ref)}, {name} has {held[name].get(ref)}"
        for name in stage.replicas
        for ref in sorted({*right, *held[name]} - {*aside})
        if right.get(ref, ())[first:] != held[name].get(ref, ())[first:]
    ]


def twice(puts):
    """The states that were put and changed something more than once."""
    applied = Counter((owner, id, revision, deleted) for owner, id, revision, deleted, changed in puts if changed)
    return [state for state, count in applied.items() if count > 1]


def sent_twice(puts):
    """The states that were sent more than once."""
    return [state for state, count in Counter(put[:4] for put in puts).items() if count > 1]


def out_of_order(puts):
    """The states that were sent after a later one of the same memory."""
    last, found = defaultdict(int), []
    for owner, id, revision, _, _ in puts:
        if revision < last[owner, id]:
            found.append(((owner, id), revision, last[owner, id]))
        last[owner, id] = max(revision, last[owner, id])
    return found
