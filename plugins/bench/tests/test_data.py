"""Files of conversations: what is read, what is refused."""

import copy
import io
import json
from pathlib import Path

import pytest

from memspine.model import CONTENT_LENGTH_MAX
from memspine.transfer.conversations import read_conversations
from memspine_bench import DataError, parse_conversations, read_data
from memspine_bench.data import first

FILE = Path(__file__).with_name("conversations.json")


@pytest.fixture
def document():
    return json.loads(FILE.read_text(encoding="utf-8"))


def problems_of(document):
    with pytest.raises(DataError) as caught:
        parse_conversations(document)
    return caught.value.problems


def test_reads_conversations():
    """Ids may be numbers, times may lack, and questions without gold are left out and counted."""
    data = read_data(FILE)
    boat, bread = data.conversations
    assert data.name == "conversations.json"
    assert len(data.sha256) == 64
    assert [message.id for message in boat.messages] == ["z9", "a1", "k5", "b2", "c3", "7"]
    assert [question.gold for question in boat.questions] == [{"z9"}, {"k5", "7"}, {"b2"}]
    assert (boat.without_gold, bread.without_gold, boat.cut) == (1, 0, 0)
    assert boat.sessions["7"] == "summer"


def test_messages_become_what_an_import_makes_of_them(document):
    """A message is the memory that `memspine import` makes of it in a file with this one conversation and no ids."""
    for conversation in document["conversations"]:
        (read,) = parse_conversations({"conversations": [conversation]})
        alone = copy.deepcopy(conversation)
        for message in alone["memories"]:
            del message["id"]
        file = io.BytesIO(json.dumps({"conversations": [alone]}).encode())
        imported = [item.memory for item in read_conversations(file) if hasattr(item, "memory")]
        assert [message.memory for message in read.messages] == imported
        assert all(
            message["id"] not in str(one)
            for message, one in zip(alone["memories"], imported, strict=True)
            if "id" in message
        )


def test_long_texts_are_cut(document):
    """A text that is longer than a memory may be is cut, and counted."""
    document["conversations"][0]["memories"][1]["text"] = "x" * (CONTENT_LENGTH_MAX + 1)
    conversation = parse_conversations(document)[0]
    assert conversation.cut == 1
    assert len(conversation.messages[1].memory.content) == CONTENT_LENGTH_MAX


def test_every_problem_is_named(document):
    """All that is wrong is told at once, with conversation, item and id."""
    boat, bread = document["conversations"]
    boat["memories"][0]["text"] = " "
    boat["memories"][1]["time"] = "yesterday"
    boat["memories"][2]["speaker"] = ["Ada"]
    boat["questions"][0]["gold"] = ["z9", "nowhere"]
    boat["questions"][1]["gold"] = "k5"
    bread["memories"][1]["id"] = "z9"
    bread["questions"][1]["id"] = "q1"
    bread["memories"].append("a text")
    found = problems_of(document)
    expected = [
        ("conversation 1 (id 'boat'), memories item 1 (id 'z9'), text:", "' '"),
        ("conversation 1 (id 'boat'), memories item 2 (id 'a1'), time:", "'yesterday'"),
        ("conversation 1 (id 'boat'), memories item 3 (id 'k5'), speaker:", "['Ada']"),
        ("conversation 1 (id 'boat'), questions item 2 (id 'q2'), gold:", "'k5'"),
        ("conversation 1 (id 'boat'), question 'q1':", "no memory has the gold id 'nowhere'"),
        ("conversation 2 (id 'bread'), memories item 5:", "'a text'"),
        ("conversation 2 (id 'bread'): memory id 'z9'", "2 times"),
        ("conversation 2 (id 'bread'): question id 'q1'", "2 times"),
    ]
    assert len(found) == len(expected)
    for problem, (start, part) in zip(found, expected, strict=True):
        assert problem.startswith(start)
        assert part in problem


def test_conversations_have_ids_of_their_own(document):
    """Two conversations of one id are refused."""
    document["conversations"][1]["id"] = "boat"
    assert problems_of(document) == ("conversation id 'boat' is there 2 times",)


@pytest.mark.parametrize("document", [[], {}, {"conversations": []}, {"conversations": {}}, None, "text"])
def test_no_conversations(document):
    """What has no conversations is refused in one line."""
    assert len(problems_of(document)) == 1


@pytest.mark.parametrize(
    "conversation",
    [None, {}, {"id": "a", "memories": []}, {"id": "a", "memories": {}, "questions": []}, {"memories": [{}]}],
)
def test_broken_conversations_are_refused(conversation):
    """A conversation that is none is a problem, not a failure."""
    assert problems_of({"conversations": [conversation]})


def test_nothing_to_measure(document):
    """A file in which no question has gold is refused."""
    for conversation in document["conversations"]:
        for question in conversation["questions"]:
            question["gold"] = []
    assert problems_of(document) == ("no question has gold ids, so there is nothing to measure",)


def test_not_json(tmp_path):
    """A file that is no JSON is refused with the place of the mistake."""
    (tmp_path / "a.json").write_text('{"conversations": [\n}', encoding="utf-8")
    with pytest.raises(DataError, match="line 2"):
        read_data(tmp_path / "a.json")


def test_a_quick_look():
    """The first conversations keep their first questions, and all of their messages."""
    (boat,) = first(read_data(FILE).conversations, count=1, questions=2)
    assert (len(boat.messages), len(boat.questions)) == (6, 2)


def test_one_problem_hides_no_other():
    """Ids that are there twice and gold that is not there are told of items too that cannot be used otherwise."""
    memories = [{"id": "m1", "text": "a"}, {"id": "m1", "text": " "}]
    questions = [{"id": "q", "text": "why?", "gold": ["m9"]}, {"id": "q", "text": "", "gold": []}]
    found = "\n".join(problems_of({"conversations": [{"memories": memories, "questions": questions}]}))
    for told in ("memory id 'm1' is there 2 times", "question id 'q' is there 2 times", "gold id 'm9'"):
        assert told in found
    assert found.count("text that is not empty") == 2
