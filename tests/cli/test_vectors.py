"""preview, engine, reindex, and what search, add, import, maintain and doctor make of an embedding source."""

import json
import signal
import subprocess
import sys
import time

import pytest

from memspine.cli.codes import Exit

PREVIEW = ["memories", "resolution", "totalTokensUsed", "budgetMaxTokens"]
PREVIEWED = ["id", "type", "key", "content", "score", "tokens", "tier", "vecScore", "ftsScore"]
RESOLUTION = ["embeddingSource", "embeddingModel", "vectorStore", "strategyUsed", "rerankApplied", "fallbackReason"]
SPACE = [
    "id", "model", "dimensions", "quantisation", "active", "complete", "held", "total", "waiting", "leased",
    "failing", "failingReason",
]  # fmt: skip
OFF = 'the configuration says source = "none"'


@pytest.fixture
def filled(cli, toy_source):
    """Three memories, and a source that has seen none of them."""
    for number, text in enumerate(["Juno eats duck", "Heron has a flat tyre", "The vet was kind"]):
        cli.add(text, "--id", f"m{number}", "--created", f"2026-01-0{number + 1}T00:00:00Z")
    return cli


# ── preview ──


def test_preview_in_json(filled):
    """`preview --json` prints what would be recalled, at what cost, with the score of each leg, and what answered."""
    filled.ok("reindex")
    data = filled.ok("preview", "the", "food", "of", "Juno", "--json", "--max-tokens", "100").data
    assert list(data) == PREVIEW
    first = data["memories"][0]
    assert list(first) == PREVIEWED
    assert (first["id"], first["type"], first["key"], first["tier"]) == ("m0", "factual", "", "hybrid")
    assert first["vecScore"] > 0.9
    assert 0 < first["ftsScore"] < 1
    assert list(data["resolution"]) == RESOLUTION
    assert list(data["resolution"].values()) == ["toy", "toy", "sqlite", "hybrid", False, None]
    assert data["totalTokensUsed"] == sum(memory["tokens"] for memory in data["memories"])
    assert data["budgetMaxTokens"] == 100


def test_preview_without_vectors(cli):
    """Where there is nothing, a preview says null: no score of a leg, no source, no budget."""
    cli.add("Juno eats duck")
    data = cli.ok("preview", "Juno", "--json").data
    assert (data["memories"][0]["tier"], data["memories"][0]["vecScore"]) == ("keyword", None)
    assert list(data["resolution"].values()) == [None, None, None, "keyword", False, f"vector leg off: {OFF}"]
    assert data["budgetMaxTokens"] is None
    newest = cli.ok("preview", "", "--strategy", "exact", "--json").data
    assert [memory["tier"] for memory in newest["memories"]] == ["newest"]


def test_preview_for_a_pipe(filled):
    """`preview` prints rank, score, tier, tokens, scores, id and content a line, then what answered and the cost."""
    filled.ok("reindex")
    answer = filled.ok("preview", "what does my pet eat?", "--limit", "1")
    row = answer.rows[0]
    assert (row[0], row[2], row[3], row[6], row[7]) == ("1", "hybrid", "4", "m0", "Juno eats duck")
    assert float(row[4]) > 0.9
    assert answer.lines[1:] == [
        "strategy used: hybrid",
        "vectors: toy by toy, kept in sqlite",
        "reranked: no",
        "cost: 4 tokens, no token budget",
    ]
    assert "terms: " in filled.ok("preview", "what does my pet eat?", "--explain").out


def test_preview_takes_the_options_of_search(bare):
    """Whatever `search` takes, `preview` takes."""
    pages = [bare.ok(command, "--help").out.partition("\n\n")[2] for command in ("search", "preview")]
    options = [page[page.index("positional arguments") :] for page in pages]
    assert options[0] == options[1]


def test_preview_is_no_recall(filled):
    """A preview counts as a recall of nothing."""
    filled.ok("preview", "Juno")
    assert "recalled" not in filled.ok("get", "m0").out


# ── engine ──


def test_engine_without_a_source(cli):
    """`engine` says what is off and why, under the same names in JSON."""
    rows = cli.ok("engine").rows
    assert rows == [
        ["keyword", "notes", "works"],
        ["embedding", "none", f"off: {OFF}"],
        ["vectors", "none", f"off: {OFF}"],
        ["rerank", "none", "off"],
    ]
    data = cli.ok("engine", "--json").data
    assert list(data) == ["keyword", "embedding", "vectorStore", "rerank"]
    assert data["keyword"] == {"available": True, "backend": "notes", "reason": ""}
    assert list(data["embedding"]) == [
        "source", "model", "dimensions", "available", "reason", "trouble", "fallback", "cacheStats",
    ]  # fmt: skip
    assert data["embedding"]["cacheStats"] == {"hits": 0, "misses": 0, "size": 0}
    assert list(data["vectorStore"]) == ["backend", "available", "rowCount", "needsReindex", "reason", "spaces"]
    assert data["rerank"] == {"enabled": False, "provider": None, "available": None, "trouble": None}


def test_engine_loads_nothing_unless_it_probes(filled, toy_source):
    """Only with --probe is the source asked for a vector; its model and dimension are known from then on."""
    assert filled.ok("engine", "--json").data["embedding"]["available"] is None
    assert ["embedding", "toy", "not used yet; --probe asks it for a vector"] in filled.ok("engine").rows
    assert toy_source.log == []
    embedding = filled.ok("engine", "--probe", "--json").data["embedding"]
    assert (embedding["model"], embedding["dimensions"], embedding["available"]) == ("toy", 5, True)
    assert toy_source.log == ["opened", "document probe"]


def test_engine_tells_of_a_source_that_fails(filled, toy_source):
    """A probe that fails is told with its reason, and ends with 7."""
    toy_source.fails()
    answer = filled("engine", "--probe")
    assert answer.code == Exit.UNAVAILABLE
    assert any(row[:2] == ["embedding", "toy"] and "out of order" in row[2] for row in answer.rows)
    assert "out of order" in filled("engine", "--probe", "--json").data["embedding"]["trouble"]


def test_engine_counts_what_spaces_hold(filled):
    """A space is told with its model, what it holds of all there is, what waits, and whether it answers."""
    filled.ok("reindex")
    filled.add("indigestible")
    filled.add("one more", "--no-maintenance")
    filled("reindex")
    filled.add("and another", "--no-maintenance")
    store = filled.ok("engine", "--json").data["vectorStore"]
    [space] = store["spaces"]
    assert list(space) == SPACE
    assert [space[name] for name in ("model", "active", "complete", "held", "total", "waiting", "failing")] == [
        "toy", True, True, 4, 6, 1, 1,
    ]  # fmt: skip
    assert "this text is no text" in space["failingReason"]
    assert (store["backend"], store["rowCount"], store["needsReindex"]) == ("sqlite", 4, 2)
    [row] = [row for row in filled.ok("engine").rows if row[0] == "space"]
    assert row[2].startswith("4 of 6 memories, 1 waiting, 1 failing: ")
    assert row[2].endswith(", complete, answers")


# ── reindex ──


def test_reindex(filled, toy_source):
    """`reindex` embeds what has no vector yet, each once, and says how far the spaces are."""
    answer = filled.ok("reindex")
    assert answer.rows == [["toy", "3 of 3 memories, complete, answers"]]
    assert answer.err == "3 memories embedded\n"
    assert sorted(toy_source.embedded) == ["Heron has a flat tyre", "Juno eats duck", "The vet was kind"]
    data = filled.ok("reindex", "--json").data
    assert list(data) == ["embedded", "pending", "complete", "troubles", "spaces"]
    assert (data["embedded"], data["pending"], data["complete"], data["troubles"]) == (0, 0, True, [])
    assert list(data["spaces"][0]) == SPACE
    assert len(toy_source.embedded) == 3


def test_reindex_for_another_model(filled, toy_source):
    """After a change of the model its vectors answer once `reindex` has made them."""
    filled.ok("reindex")
    toy_source.configure(model="other")
    data = filled.ok("reindex", "--json").data
    assert [(space["model"], space["active"], space["held"]) for space in data["spaces"]] == [
        ("toy", False, 3), ("other", True, 3),
    ]  # fmt: skip


def test_reindex_anew(filled, toy_source):
    """--rebuild computes every vector anew beside the present ones, and lets the new ones answer."""
    filled.ok("reindex")
    data = filled.ok("reindex", "--rebuild", "--json").data
    assert data["embedded"] == 3
    assert [(space["active"], space["held"]) for space in data["spaces"]] == [(False, 3), (True, 3)]
    assert len(toy_source.embedded) == 6


def test_reindex_with_nothing(cli):
    """Without a source there is nothing to index with: 8, and why."""
    answer = cli("reindex")
    assert (answer.code, answer.out) == (Exit.CAPABILITY, "")
    assert answer.err == f"memspine: reindex needs vectors: {OFF}\n"
    assert cli("reindex", "--json").error["type"] == "capability"


def test_reindex_with_a_source_that_fails(filled, toy_source):
    """A source that does not work ends it with 7 and the reason; when it works again, the same command goes on."""
    toy_source.fails()
    answer = filled("reindex")
    assert answer.code == Exit.UNAVAILABLE
    assert "memspine: embedding source 'toy': is out of order" in answer.err
    toy_source.fails(now=False)
    eventually(lambda: filled("reindex", "--json").data["pending"] == 0)


def eventually(holds, *, seconds=20):
    """Wait for what holds after a pause that a failure made."""
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.2)


def test_reindex_with_a_source_that_fails_in_json(filled, toy_source):
    """In JSON the reason is in the answer, beside how much is left."""
    filled.ok("reindex")
    filled.add("one more")
    toy_source.fails()
    answer = filled("reindex", "--json")
    assert answer.code == Exit.UNAVAILABLE
    assert (answer.data["embedded"], answer.data["complete"], answer.data["pending"]) == (0, False, 1)
    assert "out of order" in answer.data["troubles"][0]


def test_reindex_of_what_cannot_be_embedded(filled):
    """A memory that the source refuses keeps no other from its vector; it is told with the reason, the code is 9."""
    filled.add("indigestible")
    answer = filled("reindex")
    assert answer.code == Exit.PARTIAL
    assert answer.rows[0][1].startswith("3 of 4 memories, 1 failing: ")
    assert "memspine: 1 memories cannot be embedded: " in answer.err
    data = filled("reindex", "--json").data
    assert (data["complete"], data["pending"]) == (False, 1)


def test_reindex_can_be_interrupted(toy_source, cli):
    """Ctrl-C ends it with 130; the next run makes what is missing, and computes no vector again that was kept."""
    lines = "".join(json.dumps({"content": f"text {number}", "key": f"k{number}"}) + "\n" for number in range(300))
    toy_source.configure(seconds=0.3)
    cli.ok("import", "-", "--no-index", stdin=lines)
    process = subprocess.Popen(
        [sys.executable, "-m", "memspine", "--config", cli.config, "reindex"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=cli.environ,
    )  # fmt: skip
    eventually(lambda: len(toy_source.embedded) >= 100)
    process.send_signal(signal.SIGINT)
    assert process.communicate() == ("", "")
    assert process.returncode == Exit.INTERRUPTED
    held = cli.ok("engine", "--json").data["vectorStore"]["rowCount"]
    assert held >= 64
    before = len(toy_source.embedded)
    toy_source.configure()
    data = cli.ok("reindex", "--json").data
    assert (data["pending"], data["embedded"]) == (0, 300 - held)
    assert len(toy_source.embedded) == before + 300 - held


def test_progress(filled, toy_source):
    """On a terminal `reindex` shows how far it is, in a line that is gone when it is done."""
    from .test_terminal import on_terminal

    site = str(toy_source.folder.parent / "site")
    code, printed = on_terminal(filled, "reindex", environ={"PYTHONPATH": site})
    assert code == 0
    assert "\r\x1b[Kindexing toy: 3 of 3 memories\r\x1b[K" in printed
    _, printed = on_terminal(filled, "reindex", "--rebuild", "--quiet", environ={"PYTHONPATH": site})
    assert "indexing" not in printed


# ── search, add, import, maintain ──


def test_what_finds_no_words_is_found_by_meaning(filled):
    """A question without a word of the memory recalls it by meaning, and --explain says by which model."""
    filled.ok("reindex")
    answer = filled.ok("search", "veterinarian", "--explain", "--limit", "1")
    assert (answer.rows[0][3], answer.rows[0][4], answer.rows[0][-1]) == ("m2", "-", "The vet was kind")
    assert answer.rows[0][5].startswith("vector #1 (")
    assert any(line.startswith("vector leg: 3 matched") and line.endswith("(toy by toy)") for line in answer.lines)
    assert "fused by: scaled" in answer.lines
    assert "vectors: toy by toy, kept in sqlite" in answer.lines


def test_search_tells_of_a_source_that_fails(filled, toy_source):
    """A search whose vector leg failed answers by words, and says why in one note."""
    filled.ok("reindex")
    toy_source.fails()
    answer = filled.ok("search", "Juno")
    assert answer.rows[0][3] == "m0"
    assert answer.err.startswith("memspine: note: degraded: vector leg failed: ")
    assert answer.err.count("\n") == 1
    assert filled.ok("search", "Juno", "--quiet").err == ""


def test_search_tells_of_a_source_that_never_worked(filled, toy_source):
    """Where a source is configured and nothing could be embedded yet, a search says so: it is no choice of the user."""
    toy_source.fails(how="lost")
    answer = filled.ok("search", "Juno")
    assert answer.rows[0][3] == "m0"
    assert answer.err.startswith("memspine: note: degraded: vector leg ")


def test_search_tells_of_a_space_that_is_not_complete(cli, toy_source):
    """While vectors are still being made, a search says how far they are and what completes them."""
    lines = "".join(json.dumps({"content": f"Juno {number}"}) + "\n" for number in range(100))
    cli.ok("import", "-", "--no-index", stdin=lines)
    toy_source.configure(seconds=0.2)
    told = cli.ok("search", "Juno", "--no-maintenance").err
    assert "memspine: note: degraded: the vectors of toy are not complete yet: " in told
    assert "of 100 memories; `memspine reindex` completes them" in told


def test_add_loads_no_model(filled, toy_source):
    """What was added is answered and not embedded at once: the next search does that."""
    assert toy_source.log == []
    filled.ok("search", "Juno")
    assert sorted(toy_source.embedded) == ["Heron has a flat tyre", "Juno eats duck", "The vet was kind"]


def test_import_embeds_what_went_in(cli, toy_source):
    """`import` ends when everything has its vector, and says so."""
    answer = cli.ok("import", "-", stdin='{"content": "one"}\n{"content": "two"}\n')
    assert (answer.rows, answer.err) == ([["-", "2", "0", "0", "0", "0"]], "2 memories embedded\n")
    assert toy_source.embedded == ["one", "two"]
    data = cli.ok("import", "-", "--json", stdin='{"content": "three"}\n').data
    assert (data["index"]["embedded"], data["index"]["pending"], data["index"]["complete"]) == (1, 0, True)


@pytest.mark.parametrize("options", [["--no-index"], ["--dry-run"]])
def test_import_that_embeds_nothing(cli, toy_source, options):
    """With --no-index or --dry-run `import` loads no model."""
    data = cli.ok("import", "-", "--json", *options, stdin='{"content": "one"}\n').data
    assert data["index"] is None
    assert toy_source.log == []


def test_import_that_stores_nothing(cli, toy_source):
    """A file whose memories are there already loads no model."""
    for _ in range(2):
        cli.ok("import", "-", "--no-index", stdin='{"content": "one", "key": "k"}\n')
    assert cli.ok("import", "-", "--json", stdin='{"content": "one", "key": "k"}\n').data["index"] is None
    assert toy_source.log == []


def test_import_with_a_source_that_fails(cli, toy_source):
    """A source that fails is a note: what went in is in."""
    toy_source.fails()
    answer = cli.ok("import", "-", stdin='{"content": "one"}\n')
    assert answer.rows == [["-", "1", "0", "0", "0", "0"]]
    assert answer.err.startswith("memspine: note: not indexed to the end: embedding source 'toy': is out of order")
    assert cli.ok("list", "--json").data["total"] == 1


def test_maintain_embeds(filled, toy_source):
    """`maintain` embeds what has no vector yet; what keeps it from that is told, and the code is 9."""
    data = filled.ok("maintain", "--json").data
    assert list(data) == ["removed", "embedded", "executed", "delivered", "complete", "troubles", "failure"]
    assert (data["embedded"], data["complete"], data["troubles"]) == (3, True, [])
    filled.add("one more")
    toy_source.fails()
    answer = filled("maintain")
    assert answer.code == Exit.PARTIAL
    assert answer.rows[3] == ["embed", "0"]
    assert "memspine: note: not done to the end: embedding source 'toy'" in answer.err


# ── doctor ──


def findings(cli):
    """What `doctor` finds, by what it is about."""
    return {finding["about"]: finding for finding in cli("doctor", "--json").data["findings"]}


def test_doctor_says_why_there_are_no_vectors(cli):
    """That there is no search by meaning is told with the reason, and is nothing wrong."""
    cli.add("text")
    answer = cli.ok("doctor")
    assert ["info", "vectors", f"vector leg off: {OFF}"] in answer.rows


def test_doctor_says_what_has_no_vector(filled, toy_source):
    """Memories without a vector are told with the command that makes them."""
    assert findings(filled)["space toy"]["text"] == "no memory has a vector of the configured model yet"
    assert findings(filled)["space toy"]["advice"] == "memspine reindex"
    filled.ok("reindex")
    assert "space toy" not in findings(filled)
    filled.add("one more")
    lags = findings(filled)["space toy"]
    assert (lags["level"], lags["text"]) == ("info", "1 of 4 memories have no vector yet")


def test_doctor_says_what_cannot_be_embedded(filled):
    """A memory that cannot be embedded is a warning with the reason."""
    filled.add("indigestible")
    filled("reindex")
    finding = findings(filled)["space toy"]
    assert finding["level"] == "warning"
    assert finding["text"].startswith("1 memories cannot be embedded, the last of them because of: ")
    assert "this text is no text" in finding["text"]


def test_doctor_says_which_source_fails(filled, toy_source):
    """A source that does not work is a warning, whatever else answers."""
    toy_source.fails()
    answer = filled.ok("doctor")
    assert any(row[:2] == ["warning", "embedding toy"] and "is out of order" in row[2] for row in answer.rows)


def test_doctor_finds_a_broken_vector_store(filled, config, work):
    """A vector store that does not work is an error, and the exit code is 7."""
    config.write_text(config.read_text() + '[vectors]\nplugin = "sqlite"\npath = "vectors.db"\n')
    filled.ok("reindex")
    (work / "vectors.db").write_bytes(b"this is no database" * 1000)
    answer = filled("doctor")
    assert answer.code == Exit.UNAVAILABLE
    assert any(row[:2] == ["error", "vectors sqlite"] for row in answer.rows)
    assert filled("doctor", "--json").data["ok"] is False
