"""list, search, stats, inject."""

import json

import pytest

from memspine.cli.codes import Exit

LIST = ["data", "total", "cursor", "backend", "degraded"]
HIT = ["score", "rank", "tokens", "legs", "matched"]
TRACE = [
    "strategy", "scope", "backend", "degraded", "legs", "fusedBy", "terms", "cuts", "cutCounts", "tokens", "maxTokens",
    "milliseconds", "resolution",
]  # fmt: skip
OFF = 'vector leg off: the configuration says source = "none"'


@pytest.fixture
def filled(cli):
    """Five memories of two sessions, a day apart."""
    for number, (text, session) in enumerate(
        [
            ("Juno eats duck", "a"),
            ("Juno sleeps", "a"),
            ("Heron has a flat tyre", "b"),
            ("duck and potato", "b"),
            ("x", "b"),
        ]
    ):
        cli.add(
            text, "--session", session, "--id", f"m{number}", "--created", f"2026-01-0{number + 1}T00:00:00Z",
            "--type", "episodic" if session == "a" else "factual", "--metadata", json.dumps({"category": session}),
        )  # fmt: skip
    return cli


def ids(answer):
    return [memory["id"] for memory in answer.data["data"]]


def test_list_in_json(filled):
    """`list --json` prints data, total, cursor, backend and degradations; the newest comes first."""
    answer = filled.ok("list", "--json")
    assert list(answer.data) == LIST
    assert ids(answer) == ["m4", "m3", "m2", "m1", "m0"]
    assert (answer.data["total"], answer.data["cursor"], answer.data["backend"]) == (5, None, "notes")
    assert answer.err == ""


def test_list_for_a_pipe(filled):
    """Without a terminal `list` prints one line a memory: id, time, type, session, key, content."""
    answer = filled.ok("list", "--limit", "1", "--oldest-first")
    assert answer.out == "m0\t2026-01-01T00:00:00Z\tepisodic\ta\t-\tJuno eats duck\n"


def test_pages(filled):
    """--limit and --cursor walk through all, once each, in both directions."""
    for order in ([], ["--oldest-first"]):
        seen, cursor = [], []
        while True:
            page = filled.ok("list", "--limit", "2", *order, *cursor, "--json")
            seen += ids(page)
            if page.data["cursor"] is None:
                break
            cursor = ["--cursor", page.data["cursor"]]
        assert sorted(seen) == ["m0", "m1", "m2", "m3", "m4"]
    answer = filled.ok("list", "--limit", "2")
    assert answer.err.startswith("2 of 5; the next: --cursor ")
    assert filled.ok("list", "--limit", "2", "--quiet").err == ""


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (["--type", "episodic"], ["m1", "m0"]),
        (["--type", "episodic", "--type", "factual"], ["m4", "m3", "m2", "m1", "m0"]),
        (["--category", "b", "--text", "DUCK"], ["m3"]),
        (["--session", "a"], ["m1", "m0"]),
        (["--since", "2026-01-04T00:00:00Z"], ["m4", "m3"]),
        (["--until", "2026-01-02T01:00:00+01:00"], ["m0"]),
        (["--since", "1h"], []),
        (["--key", "k"], []),
    ],
)
def test_list_filters(filled, filter, expected):
    """Each filter of `list` holds, and the total counts what is filtered."""
    answer = filled.ok("list", *filter, "--json")
    assert ids(answer) == expected
    assert answer.data["total"] == len(expected)


def test_all_owners(filled):
    """--all-owners shows everyone's memories, and whose they are."""
    filled.add("hers", "--owner", "ada")
    assert filled.ok("list", "--json").data["total"] == 5
    assert filled.ok("list", "--all-owners", "--json").data["total"] == 6
    assert {row[0] for row in filled.ok("list", "--all-owners").rows} == {"me", "ada"}


def test_search_in_json(filled):
    """`search --json` prints results and trace; a result is a memory with how it was found."""
    data = filled.ok("search", "what", "does", "Juno", "eat", "--json").data
    assert list(data) == ["results", "trace"]
    assert data["results"][0]["id"] == "m0"
    assert list(data["results"][0])[-5:] == HIT
    assert data["results"][0]["matched"] == ["Juno", "eat"]
    assert list(data["trace"]) == TRACE
    assert data["trace"]["degraded"] == [OFF]
    assert data["trace"]["resolution"]["strategyUsed"] == "keyword"


def test_search_for_a_person(filled):
    """`search` prints rank, score, day, id and content a line, and that there are no vectors is no news."""
    answer = filled.ok("search", "what does Juno eat?")
    assert [row[3] for row in answer.rows] == ["m0", "m1"]
    assert answer.rows[0][0] == "1"
    assert answer.rows[0][2] == "2026-01-01"
    assert answer.rows[0][-1] == "Juno eats duck"
    assert answer.err == ""
    missed = filled.ok("search", "Juno", "--strategy", "semantic").err
    assert f"memspine: note: degraded: {OFF}\n" in missed
    assert filled.ok("search", "Juno", "--quiet").err == ""


def test_search_explains(filled):
    """--explain shows matched words and legs of each memory, then terms, legs, what was cut and why, what answered."""
    answer = filled.ok("search", "what does Juno eat?", "--explain", "--max-tokens", "4")
    assert answer.rows[0][4] == "Juno, eat"
    assert answer.rows[0][5].startswith("keyword #1 (0.")
    assert "terms: juno, eat" in answer.lines
    assert answer.lines.count(OFF) == 1
    assert "strategy used: keyword" in answer.lines
    assert "vectors: none" in answer.lines
    assert any(line.startswith("keyword leg: 2 matched, 2 looked at") for line in answer.lines)
    assert "left out: 1 by budget" in answer.lines
    assert any(line.startswith("  m1 by budget: ") for line in answer.lines)
    assert any(line.endswith("of 4 tokens") for line in answer.lines)


def test_search_options(filled):
    """Limit, strategy, type, session and budget of `search` hold; what stands beside a match comes after it."""

    def found(*options):
        return [hit["id"] for hit in filled.ok("search", "duck", *options, "--json").data["results"]]

    assert set(found()[:2]) == {"m0", "m3"}
    assert len(found("--limit", "1")) == 1
    assert found("--limit", "0") == []
    assert found("--max-tokens", "0") == []
    assert found("--type", "episodic") == ["m0", "m1"]
    assert found("--session", "b")[0] == "m3"
    assert found("--since", "2026-01-02T00:00:00Z")[0] == "m3"
    assert found("--strategy", "exact") == ["m3", "m0"]
    assert found("--strategy", "recent") == ["m3", "m0"]
    assert found("--owner", "ada") == []


def test_nothing_relevant(filled):
    """A question without an answer is answered by nothing, with exit code 0."""
    answer = filled.ok("search", "zeppelin")
    assert answer.out == ""
    assert "nothing relevant found" in answer.err


def test_search_counts_as_a_recall(filled):
    """A recall from the command line is counted, and `get` tells it."""
    filled.ok("search", "tyre")
    filled.ok("search", "tyre")
    assert "recalled: 2 times, last 2" in filled.ok("get", "m2").out


def test_stats(filled):
    """`stats` counts in all, by type and session, with --all-owners by owner, and tells about the stores."""
    filled.add("hers", "--owner", "ada")
    data = filled.ok("stats", "--json").data
    assert list(data) == ["total", "byType", "bySession", "degraded", "backends"]
    assert data["total"] == 5
    assert data["byType"] == {"episodic": 2, "factual": 3}
    assert data["bySession"] == {"a": 2, "b": 3}
    assert list(data["backends"]["notes"]) == ["ok", "detail", "facts", "findings"]
    assert filled.ok("stats", "--all-owners", "--json").data["byOwner"] == {"me": 5, "ada": 1}
    assert filled.ok("stats", "--session", "a", "--json").data["total"] == 2
    rows = filled.ok("stats").rows
    assert ["total", "-", "5"] in rows
    assert ["type", "episodic", "2"] in rows
    assert ["backend", "notes", "ok"] in rows


REQUEST = {"model": "m", "temperature": 0.5, "messages": [{"role": "user", "content": "what does Juno eat?"}]}


def test_inject(filled):
    """`inject` prints the request with the memories that fit its question placed, all else as it was."""
    request = filled.ok("inject", stdin=json.dumps(REQUEST)).data
    assert request["messages"][0]["role"] == "system"
    assert "Juno eats duck" in request["messages"][0]["content"]
    assert request["messages"][1] == REQUEST["messages"][0]
    assert request["temperature"] == 0.5
    again = filled.ok("inject", stdin=json.dumps(request)).data
    assert again == request


def test_inject_in_json(filled):
    """`inject --json` prints the request beside block, tokens, results, trace and reason."""
    data = filled.ok("inject", "--json", "--placement", "user", "--limit", "1", stdin=json.dumps(REQUEST)).data
    assert list(data) == ["request", "block", "tokens", "results", "trace", "reason"]
    assert data["request"]["messages"][0]["content"].startswith(data["block"])
    assert [hit["id"] for hit in data["results"]] == ["m0"]


def test_inject_of_nothing(filled):
    """A request that no memory fits comes out as it came in, and standard error says why."""
    request = {"messages": [{"role": "user", "content": "zeppelin"}]}
    answer = filled.ok("inject", stdin=json.dumps(request))
    assert answer.data == request
    assert answer.err == "memspine: note: no memory fits the question\n"


@pytest.mark.parametrize("text", ["", "[]", "{", "\xff", '"x"', "[" * 100_000])
def test_inject_refuses_what_is_no_request(cli, text):
    """Anything but a JSON object on standard input is refused with 5."""
    answer = cli("inject", stdin=text.encode("latin-1"))
    assert answer.code == Exit.INVALID
    assert "standard input" in answer.err
    assert answer.err.count("\n") == 1


def test_inject_of_an_unknown_shape(cli):
    """A request shape that no plugin knows is a plugin that is missing: 3."""
    answer = cli("inject", "--shape", "openai.chatt", stdin="{}")
    assert answer.code == Exit.CONFIG
    assert "did you mean 'openai.chat'?" in answer.err


def test_fallback_answers_are_degraded(cli, config, install):
    """When a fallback answers for the primary, the answer says so, for a person and in JSON."""
    install("broken", BROKEN)
    config.write_text(
        '[memory]\nprimary = "first"\nfallbacks = ["notes"]\nread_fallback = true\n'
        '[backends.first]\nplugin = "broken"\n[backends.notes]\nplugin = "sqlite"\npath = "notes.db"\n'
        '[embedding]\nsource = "none"\n'
    )
    answer = cli.ok("list")
    assert answer.err.startswith("memspine: note: degraded: first: ")
    assert "RuntimeError: no store here" in answer.err
    data = cli.ok("list", "--json").data
    assert data["backend"] == "notes"
    assert len(data["degraded"]) == 1
    assert len(cli.ok("search", "x", "--json").data["trace"]["degraded"]) == 2
    told = cli.ok("search", "x").err
    assert "memspine: note: degraded: first: " in told
    assert "vector leg" not in told


BROKEN = """
import contextlib
import attrs
from memspine.contracts import Provider
from memspine.hookspecs import hookimpl

@attrs.frozen
class Config:
    pass

@contextlib.asynccontextmanager
async def open_store(config, context):
    raise RuntimeError("no store here")
    yield

@hookimpl
def memspine_memory_backends():
    return [Provider(name="broken", config_type=Config, open=open_store)]
"""
