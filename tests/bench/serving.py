"""A process that serves memories for a while and prints how much memory that took, in MB. Run by test_resident.py."""

import asyncio
import json
import sys

from memspine import MemoryManager

SEARCHES = GETS = 200
CREATES = 50


async def serve(settings, questions, owners):
    """Ask, read and write for the owners by turns. Returns how many memories were found."""
    found = 0
    async with MemoryManager(settings) as memory:
        ids = []
        for n in range(SEARCHES):
            owner = owners[n % len(owners)]
            result = await memory.search(questions[n % len(questions)], owner=owner)
            ids += [(owner, hit.memory.id) for hit in result.hits]
            found += len(result.hits)
        for n in range(GETS):
            owner, id = ids[n * len(ids) // GETS]
            await memory.get(id, owner=owner)
        for n in range(CREATES):
            await memory.create(f"Something new, number {n}.", owner=owners[n % len(owners)])
    return found


def main():
    """Read the task from standard input, serve, print a JSON object."""
    from timing import peak_megabytes  # beside this file, which runs as a script

    task = json.load(sys.stdin)
    started = peak_megabytes()
    found = asyncio.run(serve(**task))
    print(json.dumps({"found": found, "imported": started, "peak": peak_megabytes()}))


if __name__ == "__main__":
    main()
