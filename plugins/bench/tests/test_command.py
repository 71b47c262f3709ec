"""`memspine bench retrieval`."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from memspine_bench.command import main

FILE = str(Path(__file__).with_name("conversations.json"))
KEYWORD = ["retrieval", FILE, "--settings", "keyword"]


def run(capsys, *arguments):
    """Exit code, standard output, standard error."""
    code = main(list(arguments))
    return code, *capsys.readouterr()


def test_text(capsys):
    """The answer as text has facts, settings, figures with their errors, speed and categories; nothing else is told."""
    code, out, err = run(capsys, *KEYWORD)
    assert (code, err) == (0, "")
    assert "data: conversations.json, 2 conversations, 10 memories, 5 questions" in out
    assert "questions without gold ids, left out: 1" in out
    assert re.search(r"SHA-256: [0-9a-f]{64}\n", out)
    assert re.search(r"versions: .*memspine \d", out)
    assert re.search(r"machine: \d+ CPUs, CPython 3", out)
    assert "retrieval.fusion = " in out
    assert re.search(r"any@10 +all@5 +all@10 +MRR +NDCG@10\nkeyword +\d+\.\d ±\d", out)
    assert re.search(r"p50 ms +p95 ms +memories indexed/s\nkeyword +\d", out)
    assert re.search(r"keyword, by category\n.*\none +3 ", out)


def test_hybrid_is_compared_in_points(capsys):
    """It is said for five measures whether hybrid is lower than the better leg, and by how much."""
    code, out, _ = run(capsys, "retrieval", FILE, "--source", "reference")
    assert code == 0
    legs = out[out.index("hybrid (reference) beside its legs:") :].splitlines()[1:6]
    assert [line.split()[0] for line in legs] == ["any@5", "any@10", "all@10", "NDCG@10", "S_all@10"]
    assert all(re.search(r"(points (lower|higher) than|as high as) the better leg", line) for line in legs)
    assert "model hashed-words, revision 1, 256 numbers" in out


def test_json(capsys):
    """The answer as JSON holds everything, also with the option before the name of the command's part."""
    arguments = ("--json", *KEYWORD, "--set", "retrieval.rrf_k=9", "--tune", "retrieval.keyword_floor=0.0,0.9")
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (0, "")
    answer = json.loads(out)
    (row,) = answer["rows"]
    assert row["constants"]["retrieval.rrf_k"] == 9
    assert row["all"]["questions"] == 5
    assert row["all"]["percent"].keys() == row["all"]["standardError"].keys()
    assert row["byCategory"]["several"]["questions"] == 2
    (tuned,) = answer["tuned"]
    assert {fold["conversation"] for fold in tuned["folds"]} == {"boat", "bread"}
    assert answer["data"]["name"] == "conversations.json"


def test_markdown(capsys):
    """The answer as Markdown begins with a table whose lines have equally many cells, and ends with the facts."""
    code, out, _ = run(capsys, *KEYWORD, "--format", "markdown", "--tune", "retrieval.keyword_floor=0,1")
    assert code == 0
    table = out.split("\n\n")[0].splitlines()
    assert table[0].startswith("|  | any@1 | any@5 |")
    assert {line.count("|") for line in table} == {14}
    assert "tuned, held out" in out
    assert "- data: conversations.json" in out


def test_a_quick_look_is_said(capsys):
    """Who looks at a part of the file finds that in the answer."""
    code, out, _ = run(capsys, *KEYWORD, "--conversations", "1", "--questions", "2")
    assert code == 0
    assert "a quick look: the first 1 of 2 conversations" in out
    assert "a quick look: at most the first 2 questions of each conversation" in out
    assert "1 conversation, 6 memories, 2 questions" in out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "WHAT"),
        (("retrieval",), "FILE"),
        ((*KEYWORD, "--settings", "hybird"), "did you mean 'hybrid'"),
        ((*KEYWORD, "--questions", "0"), "expected 1 or more"),
        ((*KEYWORD, "--set", "retrieval.rrf_k"), "expected KEY=VALUE"),
        ((*KEYWORD, "--set", "not a key=1"), "'not a key' is no key"),
        ((*KEYWORD, "--set", "retrieval.rrf_k=[1"), "no value of TOML"),
        ((*KEYWORD, "--tune", "retrieval.rrf_k=1,2", "--conversations", "1"), "needs two"),
    ],
)
def test_mistakes_in_the_arguments(capsys, arguments, text):
    """A mistake in the arguments is one line on standard error, and exit code 2."""
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("memspine: ")
    assert err.count("\n") == 1
    assert text in err


def test_words_need_no_quotes(capsys):
    """A value that is no TOML but one word is a text, alone and among others."""
    arguments = ("--json", *KEYWORD, "--set", "retrieval.fusion=rrf", "--tune", "retrieval.fusion=rrf,weighted")
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    answer = json.loads(out)
    assert answer["rows"][0]["constants"]["retrieval.fusion"] == "rrf"
    assert answer["tuned"][0]["bestValues"] == {"retrieval.fusion": "rrf"}


def test_a_bad_file(capsys, tmp_path):
    """Everything that is wrong with a file is told, a line each, or as one object with --json."""
    file = tmp_path / "bad.json"
    conversation = {"id": "a", "memories": [{"id": 1, "text": ""}, {"text": "b"}], "questions": []}
    file.write_text(json.dumps({"conversations": [conversation]}), encoding="utf-8")
    code, out, err = run(capsys, "retrieval", str(file))
    assert (code, out) == (5, "")
    assert len(err.splitlines()) == 2
    code, out, err = run(capsys, "retrieval", str(file), "--json")
    error = json.loads(err)["error"]
    assert (code, out, error["type"], len(error["details"]["problems"])) == (5, "", "invalid", 2)


def test_no_file(capsys, tmp_path):
    """A file that is not there is told by name."""
    code, _, err = run(capsys, "retrieval", str(tmp_path / "nothing.json"))
    assert code == 5
    assert "nothing.json: No such file" in err


def test_names_are_no_commands_to_the_terminal(capsys, tmp_path):
    """Control characters of a file do not reach the terminal."""
    text = Path(FILE).read_text(encoding="utf-8").replace('"one"', '"\\u001b[2Jone"')
    (tmp_path / "a.json").write_text(text, encoding="utf-8")
    code, out, _ = run(capsys, "retrieval", str(tmp_path / "a.json"), "--settings", "keyword")
    assert code == 0
    assert "\x1b" not in out
    assert "[2Jone" in out


def test_memspine_has_the_command():
    """`memspine` runs the command, lists it in its help, and both import nothing heavy for it."""
    code = "import sys; from memspine.cli import main; sys.exit(main(sys.argv[1:]))"
    run = [sys.executable, "-X", "importtime", "-c", code]
    done = subprocess.run([*run, "bench", "retrieval", "--help"], capture_output=True, text=True, check=False)
    if "unknown command" in done.stderr:
        pytest.skip("the distribution is not installed, only its source is there")
    assert done.returncode == 0, done.stderr
    assert "keyword-plain" in done.stdout
    assert not {"numpy", "apsw", "asyncio"} & set(re.findall(r"\| +([\w.]+)$", done.stderr, re.MULTILINE))
    done = subprocess.run([*run, "--help"], capture_output=True, text=True, check=True, env={**os.environ})
    assert re.search(r"^  bench +measure on conversations", done.stdout, re.MULTILINE)
    assert "memspine_bench" not in done.stderr
