"""Exports of a product that does not exist: a first line, a line for each memory (id, owner, text), a last line."""

from memspine.conformance.importer.samples import Sample, Wanted

WORDS = "What was said that day about beans and chard, and by whom, and why nobody listened to it at all. " * 5


def written(path, *lines):
    path.write_text("\n".join(["PLANTED 1", *lines, "END", ""]), encoding="utf-8")
    return path


def samples(importer, folder):
    several = folder / "several"
    several.mkdir()
    written(several / "a.planted", "1||One", "2|ada|Two")
    written(several / "b.planted", "3||Three")
    written(several / "c.planted", "4||Four")
    return [
        Sample(
            path=written(
                folder / "one.planted", "9||Zoë drinks tea", "1|ada|First, and long enough to be cut", "2||Second"
            ),
            memories=("Zoë drinks tea", Wanted(content="First, and long enough to be cut", owner="ada"), "Second"),
        ),
        Sample(
            path=written(folder / "merged.planted", "1||One", "1|bob|Other", "no line", "2||Two", "||", "1||One"),
            memories=(
                Wanted(content="One", ids="1"),
                Wanted(content="Other", owner="bob", ids="1"),
                "Two",
                Wanted(content="One", ids="1"),
            ),
            bad_lines=(4, 6),
        ),
        Sample(path=several, memories=("One", Wanted(content="Two", owner="ada"), "Three", "Four")),
    ]


def grown(importer, folder, memories):
    return written(folder / "grown.planted", *(f"{number}||{WORDS.strip()} {number}" for number in range(memories)))
