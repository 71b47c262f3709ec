"""How long a start takes, and how much memory."""

import json
import statistics
import sys
from pathlib import Path

import pytest

from .corpus import questions
from .goals import MINILM, MODELS
from .models import SHIPPED, minilm
from .stores import settings, toml
from .timing import process_milliseconds, succeed

ROUNDS = 11
PEAKS = 3
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def configurations(tmp_path_factory, request, minilm_model):
    """A file for each way to look for 10 000 memories: by words alone, and with each model that is there."""
    folder, _ = minilm_model
    ways = {"search": None, "static": SHIPPED} | ({"minilm": minilm(folder)} if folder else {})
    stores = {
        way: request.getfixturevalue("ten_thousand" if way == "search" else f"ten_thousand_{way}") for way in ways
    }
    place = tmp_path_factory.mktemp("configurations")
    for way, embedding in ways.items():
        text = toml(settings(stores[way], embedding=embedding))
        (place / f"{way}.toml").write_text(text, encoding="utf-8")
    return {way: place / f"{way}.toml" for way in ways}


def test_start(bench, configurations, minilm_model, tmp_path):
    """Importing the manager, `memspine --help` and `memspine search`, each beside a Python that does nothing."""
    command = Path(sys.executable).with_name("memspine")
    commands = {
        "python": [sys.executable, "-c", "pass"],
        "import": [sys.executable, "-c", "from memspine import MemoryManager"],
        "help": [command, "--help"],
    } | {f"command-{way}": [command, *search(file)] for way, file in configurations.items()}
    for way, file in configurations.items():
        answer = json.loads(succeed([command, *search(file), "--json"], folder=tmp_path))
        legs = {leg["leg"] for leg in answer["trace"]["legs"] if leg["status"] == "ran"}
        assert answer["results"], "the search found nothing"
        assert legs == ({"keyword"} if way == "search" else {"keyword", "vector"}), (way, answer["trace"])
    medians = process_milliseconds(commands, rounds=ROUNDS, folder=tmp_path)
    bare, words = medians.pop("python"), medians["command-search"]
    for name, median in medians.items():
        measured = median - bare if name == "import" else median
        beside = f"bare Python {bare:.1f} ms"
        if name.removeprefix("command-") in MODELS:
            beside += f" · words alone {words:.0f} ms"
        bench.record(name, measured=measured, baseline=beside, ratio=median / bare)
    if "minilm" not in configurations:
        bench.missing("command-minilm", reason=minilm_model[1])


def test_memory(bench, configurations, minilm_model, tmp_path):
    """The most memory that `memspine search` has resident, beside the same by words alone, and the bare model. The
    first question of a process reads the vectors out of the file, so no matrix of them is part of it."""
    scripts = {way: ["commanding.py", *search(file)] for way, file in configurations.items()}
    if "minilm" in configurations:
        scripts["bare"] = ["bareminilm.py", minilm_model[0], questions()[0]]
    peaks, resident = {name: [] for name in scripts}, {name: [] for name in scripts}
    for _ in range(PEAKS):
        for name, (script, *arguments) in scripts.items():
            printed = succeed([sys.executable, HERE / script, *arguments], folder=tmp_path)
            *others, peak = printed.splitlines()
            peaks[name].append(float(peak))
            if name in configurations:
                resident[name].append(float(others[-1]))
    medians = {name: statistics.median(found) for name, found in peaks.items()}
    for model in MODELS:
        if model not in medians:
            bench.missing(f"peak-{model}", reason=minilm_model[1])
            continue
        beside = (
            f"after the answer {statistics.median(resident[model]):.1f} MB · words alone {medians['search']:.1f} MB"
        )
        if model == MINILM:
            beside += f" · bare model {medians['bare']:.1f} MB"
        ratio = medians[model] / medians["search"]
        bench.record(f"peak-{model}", measured=medians[model], baseline=beside, ratio=ratio)


def search(configuration):
    return ["--config", configuration, "search", questions()[0]]
