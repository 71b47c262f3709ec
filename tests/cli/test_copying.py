"""copy and verify, between any two backends of a configuration."""

import subprocess
import sys
import time

import pytest

from memspine.cli.codes import Exit


@pytest.fixture
def two(cli, config):
    """A second backend beside the primary, which holds two memories of two owners."""
    settings = config.read_text().replace("[memory]", '[memory]\nprimary = "notes"')
    config.write_text(f'{settings}\n[backends.other]\nplugin = "sqlite"\npath = "other.db"\n')
    cli.add("Juno eats duck", "--key", "juno")
    cli.add("Heron is a bicycle", "--owner", "you")
    return cli


def test_copy_and_verify(two):
    """A copy takes everything over, another one finds nothing to do, and verify proves it from both sides."""
    assert two("verify", "notes", "other").code == Exit.PARTIAL
    report = two.ok("copy", "--from", "notes", "--to", "other", "--json").data
    assert report["copied"] == 2
    assert report["losses"] == ["vectors and keyword index: made anew for the target, not copied"]
    assert two.ok("copy", "--from", "notes", "--to", "other").rows[:2] == [["copied", "0"], ["unchanged", "2"]]
    assert two.ok("verify", "notes", "other", "--json").data == {"same": 2, "different": 0, "differences": []}


def test_verify_lists_what_differs(two):
    """Each difference is told with the memory's id and owner, and the exit code is 9."""
    two.ok("copy", "--from", "notes", "--to", "other", "--owner", "me")
    answer = two("verify", "notes", "other")
    assert answer.code == Exit.PARTIAL
    assert answer.rows == [["same", "1"], ["different", "1"]]
    assert "of you: only in the first" in answer.err


def test_since(two):
    """With --since only what changed since then is copied."""
    assert two.ok("copy", "--from", "notes", "--to", "other", "--since", "0d", "--json").data["copied"] == 0
    assert two.ok("copy", "--from", "notes", "--to", "other", "--since", "1d", "--json").data["copied"] == 2


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [("notes", "nowhere", "is no backend of the configuration"), ("notes", "notes", "is named as both places")],
)
def test_places_that_cannot_be_copied_between(two, source, target, said):
    """An unknown place, and one place as both, are told before anything is opened."""
    answer = two("copy", "--from", source, "--to", target)
    assert answer.code == Exit.CONFIG
    assert said in answer.err


def test_a_copy_that_was_killed_is_done_again(two, work):
    """After kill -9 in the middle, the same command copies the rest, and both places are the same."""
    lines = "".join(f'{{"content": "memory {n}"}}\n' for n in range(6000))
    two.ok("import", "-", "--format", "jsonl", "--no-index", stdin=lines)
    command = [sys.executable, "-m", "memspine", "--config", two.config, "copy", "--from", "notes", "--to", "other"]
    copying = subprocess.Popen(command, env=two.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    other, ends = work / "other.db", time.monotonic() + 60
    while not other.exists() and copying.poll() is None and time.monotonic() < ends:
        time.sleep(0.01)
    time.sleep(0.3)
    copying.kill()
    copying.wait()
    report = two.ok("copy", "--from", "notes", "--to", "other", "--json").data
    assert report["copied"] + report["unchanged"] == 6002
    assert two.ok("verify", "notes", "other", "--json").data["same"] == 6002
