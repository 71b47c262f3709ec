"""The twin without async: the same calls, from anywhere but a forked child."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading

import pytest

from memspine import MemoryManager as AsyncManager
from memspine.blocking import MemoryManager
from memspine.errors import BackendUnavailable, ClosedError


def test_it_has_every_call_of_its_twin():
    """Each public coroutine of the async manager is there without async, with the same signature."""
    for name, method in inspect.getmembers(AsyncManager, inspect.iscoroutinefunction):
        if name.startswith("_"):
            continue
        twin = getattr(MemoryManager, name)
        assert not inspect.iscoroutinefunction(twin)
        if name not in ("initialize", "shutdown"):
            assert inspect.signature(twin) == inspect.signature(method)


def test_it_works_inside_a_running_loop(settings):
    """A call from a coroutine works, because the loop is another one in a thread of the manager's own."""

    async def inside():
        with MemoryManager(settings) as memory:
            memory.create("duck")
            return memory.search("duck").hits[0].memory.content

    assert asyncio.run(inside()) == "duck"


def test_threads_share_it(settings):
    """Ten threads that write at once lose nothing."""
    with MemoryManager(settings) as memory:
        threads = [threading.Thread(target=memory.create, args=(f"memory {n}",)) for n in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert memory.list().total == 10


def test_outside_its_with_it_is_closed(settings):
    """Before and after its `with`, calls raise ClosedError; its thread is gone afterwards."""
    memory = MemoryManager(settings)
    with pytest.raises(ClosedError):
        memory.list()
    with memory:
        memory.list()
    with pytest.raises(ClosedError):
        memory.list()
    assert not any(thread.name == "memspine" for thread in threading.enumerate())


def test_a_failed_start_leaves_no_thread():
    """A configuration that cannot be used ends the manager's thread before the error is raised."""
    with pytest.raises(Exception, match=r"no-such-file\.toml"):
        MemoryManager("no-such-file.toml").initialize()
    assert not any(thread.name == "memspine" for thread in threading.enumerate())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_refused_at_once(settings):
    """In a forked child every call raises and none hangs; leaving the `with` there does no harm."""
    with MemoryManager(settings) as memory:
        memory.create("before")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                memory.list()
            except BackendUnavailable as error:
                code = 0 if "forked" in str(error) else 2
            memory.shutdown()
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert memory.list().total == 1


def test_shutdown_frees_threads_that_wait(settings):
    """A thread whose call is under way when another shuts the manager down gets ClosedError and does not hang."""
    import time

    memory = MemoryManager(settings, count_tokens=len)
    memory.initialize()
    backend = memory._run(memory._manager._open.chain.primary.opened())  # noqa: SLF001 - to make a call last
    ended = []

    async def forever(*args, **kwargs):
        await asyncio.sleep(60)

    backend.search = backend.lexical = forever

    def search():
        try:
            memory.search("duck")
        except ClosedError:
            ended.append("closed")

    waiting = threading.Thread(target=search, daemon=True)
    waiting.start()
    time.sleep(0.1)
    threads = [threading.Thread(target=memory.shutdown, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in (*threads, waiting):
        thread.join(20)
        assert not thread.is_alive()
    assert ended == ["closed"]
