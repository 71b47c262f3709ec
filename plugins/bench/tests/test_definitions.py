"""The figures are those of the definitions beside the repository."""

import importlib.util
import json
from pathlib import Path

import pytest

from memspine.blocking import MemoryManager
from memspine_bench import evaluate, parse_conversations
from memspine_bench.metrics import MEASURES

SHARED = Path(__file__).resolve().parents[4] / "shared"


class System:
    """One conversation as the definitions want it: indexed and asked by the ids of its file."""

    def __init__(self, memory, conversation):
        self.memory = memory
        self.messages = conversation.messages

    def index(self, _):
        """Store every message."""
        ids = [f"m{number:08}" for number in range(1, len(self.messages) + 1)]
        self.file_ids = dict(zip(ids, (message.id for message in self.messages), strict=True))
        self.memory.create_many([message.memory for message in self.messages], ids=ids)

    def search(self, text, k):
        """The ids of the best."""
        return [self.file_ids[hit.memory.id] for hit in self.memory.search(text, limit=k).hits]


@pytest.mark.parametrize("kind", ["short", "long"])
def test_equal_to_the_definitions(tmp_path, without_shared, kind):
    """One conversation has the same figures, in all and by category, to the last digit that is shown."""
    script, file = SHARED / "tools" / "eval_retrieval.py", SHARED / "data" / f"conversations-{kind}.json"
    if not script.exists() or not file.exists():
        without_shared("the conversations are not in ../shared")
    spec = importlib.util.spec_from_file_location("definitions", script)
    definitions = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(definitions)
    document = json.loads(file.read_text(encoding="utf-8"))
    chosen = document["conversations"][1]
    chosen["questions"] = chosen["questions"][:40]
    (conversation,) = parse_conversations({"conversations": [chosen]})
    settings = {"backends": {"s": {"plugin": "sqlite", "path": str(tmp_path / "a.db")}}, "vectors": {"enabled": False}}
    with MemoryManager(settings, background=False) as memory:
        expected = definitions.evaluate([chosen], lambda: System(memory, conversation))
    (row,) = evaluate([conversation], settings=["keyword"]).rows
    assert {name: round(row.scores.percent(name), 1) for name in MEASURES} == expected["all"]
    for name, scores in row.categories.items():
        found = {measure: round(scores.percent(measure), 1) for measure in MEASURES}
        assert found | {"n": scores.questions} == expected["by_category"][name]
