"""Importers with one defect each."""

import itertools
import os
import unicodedata
from datetime import datetime

import attrs

from memspine.contracts import BadLine, SourceMemory
from memspine.model import NewMemory

FIRST, LAST = "PLANTED 1", "END"


class Clean:
    """No defect."""

    breaks = ()
    summary = "what is planted"
    changes = "nothing"

    def recognise(self, source):
        if not source.is_folder:
            return source.head.startswith(FIRST.encode())
        return any(path.read_bytes()[:9] == FIRST.encode() for path in self.paths(source))

    def paths(self, source):
        return sorted(source.path.glob("*.planted"))

    def read(self, source):
        if not source.is_folder:
            yield from self.file(source, source.stream)
            return
        for path in self.paths(source):
            with path.open("rb") as stream:
                yield from self.file(source, stream)

    def file(self, source, stream):
        first = self.text(stream.readline(1000))
        if first != FIRST:
            yield BadLine(1, f"the file begins with {first[:40]!r}; expected {FIRST!r}")
            return
        number, line = 1, ""
        for number, data in enumerate(stream, 2):
            line = self.text(data)
            if line == LAST:
                return
            yield from self.line(source, number, line)
        yield from self.end(number, line)

    def end(self, number, line):
        yield BadLine(number, "the file is cut off")

    def text(self, data):
        return data.decode(errors="replace").removesuffix("\n").replace("\0", "?")

    def line(self, source, number, line):
        id, _, rest = line.partition("|")
        owner, bar, content = rest.partition("|")
        if not (id.strip() and bar and content.strip()):
            yield self.bad(number, line)
        else:
            yield self.memory(source, number, id, owner, content)

    def bad(self, number, line):
        return BadLine(number, "the line is no memory; expected id, owner and text")

    def memory(self, source, number, id, owner, content):
        content = unicodedata.normalize("NFC", content)
        return SourceMemory(line=number, memory=NewMemory(content=content), identity=(id,), owner=owner)


class RecognisesNothing(Clean):
    breaks = ("IM-1",)

    def recognise(self, source):
        return False


class RecognisesFilesAlone(Clean):
    breaks = ("IM-1",)

    def recognise(self, source):
        return not source.is_folder and super().recognise(source)


class RecognisesText(Clean):
    breaks = ("IM-2",)

    def recognise(self, source):
        return super().recognise(source) or source.head.isascii()


class RecognisesEveryFolder(Clean):
    breaks = ("IM-2",)

    def recognise(self, source):
        return source.is_folder or super().recognise(source)


class LooksIntoTheStream(Clean):
    breaks = ("IM-3",)

    def recognise(self, source):
        return super().recognise(source) if source.is_folder else source.stream.read(9) == FIRST.encode()


class RaisesWhileRecognising(Clean):
    breaks = ("IM-4",)

    def recognise(self, source):
        return super().recognise(source) and (source.is_folder or bool(source.head.decode().split("\n")[1]))


class LosesRepeats(Clean):
    breaks = ("IM-10", "IM-20")

    def read(self, source):
        seen = set()
        for item in super().read(source):
            if not isinstance(item, SourceMemory) or item.memory.content not in seen:
                yield item
            if isinstance(item, SourceMemory):
                seen.add(item.memory.content)


class LosesLongSources(Clean):
    breaks = ("IM-10",)

    def read(self, source):
        return itertools.islice(super().read(source), 500)


class AddsAPrefix(Clean):
    breaks = ("IM-10",)

    def memory(self, source, number, id, owner, content):
        return super().memory(source, number, id, owner, f"Note: {content}")


class SortsByText(Clean):
    breaks = ("IM-11",)

    def read(self, source):
        return iter(sorted(super().read(source), key=lambda item: getattr(item, "identity", ())))


class NamesByThePlace(Clean):
    breaks = ("IM-12",)

    def memory(self, source, number, id, owner, content):
        item = super().memory(source, number, id, owner, content)
        return attrs.evolve(item, identity=(str(source.path), id))


class NamesAnew(Clean):
    breaks = ("IM-12",)
    counter = itertools.count()

    def memory(self, source, number, id, owner, content):
        item = super().memory(source, number, id, owner, content)
        return attrs.evolve(item, identity=(id, str(next(self.counter))))


class NamesByTheLine(Clean):
    breaks = ("IM-13",)

    def memory(self, source, number, id, owner, content):
        return attrs.evolve(super().memory(source, number, id, owner, content), identity=(str(number),))


class NamesByTheText(Clean):
    breaks = ("IM-13",)

    def memory(self, source, number, id, owner, content):
        return attrs.evolve(super().memory(source, number, id, owner, content), identity=(content,))


class NamesAllAlike(Clean):
    breaks = ("IM-13", "IM-14")

    def memory(self, source, number, id, owner, content):
        return attrs.evolve(super().memory(source, number, id, owner, content), identity=("memory",))


class NamesByTheSize(Clean):
    breaks = ("IM-14",)

    def memory(self, source, number, id, owner, content):
        item = super().memory(source, number, id, owner, content)
        return attrs.evolve(item, identity=(str(source.path.stat().st_size), id))


class CountsMemories(Clean):
    breaks = ("IM-14",)

    def memory(self, source, number, id, owner, content):
        item = super().memory(source, number, id, owner, content)
        lines = 0 if source.is_folder else source.path.read_bytes().count(b"\n")
        return attrs.evolve(item, memory=attrs.evolve(item.memory, metadata={"of": lines}))


class ForgetsOwners(Clean):
    breaks = ("IM-15",)

    def memory(self, source, number, id, owner, content):
        return super().memory(source, number, id, "", content)


class OwnedByTheFirst(Clean):
    breaks = ("IM-15",)
    owners = ()

    def read(self, source):
        self.owners = {}
        return super().read(source)

    def memory(self, source, number, id, owner, content):
        return super().memory(source, number, id, self.owners.setdefault(id, owner), content)


class NaiveTimes(Clean):
    breaks = ("IM-16",)

    def memory(self, source, number, id, owner, content):
        item = super().memory(source, number, id, owner, content)
        time = datetime(2026, 1, 2)  # noqa: DTZ001
        return attrs.evolve(item, memory=attrs.evolve(item.memory, created_at=time))


class Decomposes(Clean):
    breaks = ("IM-16", "IM-10")

    def memory(self, source, number, id, owner, content):
        item = super().memory(source, number, id, owner, content)
        content = unicodedata.normalize("NFD", content)
        return attrs.evolve(item, memory=attrs.evolve(item.memory, content=content))


class NamesNothing(Clean):
    breaks = ("IM-16",)

    def memory(self, source, number, id, owner, content):
        return attrs.evolve(super().memory(source, number, id, owner, content), identity=())


class NumbersForNames(Clean):
    breaks = ("IM-16",)

    def memory(self, source, number, id, owner, content):
        return attrs.evolve(super().memory(source, number, id, owner, content), identity=(id, len(id)))


class DeafToStandardInput(Clean):
    breaks = ("IM-17",)

    def read(self, source):
        return iter(()) if source.path is None else super().read(source)


class SilentAboutBadLines(Clean):
    breaks = ("IM-20",)

    def line(self, source, number, line):
        return (item for item in super().line(source, number, line) if isinstance(item, SourceMemory))


class StopsAtABadLine(Clean):
    breaks = ("IM-20", "IM-10")

    def read(self, source):
        for item in super().read(source):
            yield item
            if isinstance(item, BadLine):
                return


class CountsFromZero(Clean):
    breaks = ("IM-20",)

    def bad(self, number, line):
        return BadLine(number - 1, "the line is no memory")


class QuotesWholeLines(Clean):
    breaks = ("IM-21",)

    def bad(self, number, line):
        return BadLine(number, f"no memory:\n{line}")


class LongReasons(Clean):
    breaks = ("IM-21",)

    def bad(self, number, line):
        return BadLine(number, "the line is no memory; expected id, owner and text " * 20)


class SilentAboutTheEnd(Clean):
    breaks = ("IM-22",)

    def line(self, source, number, line):
        return super().line(source, number, line) if line.count("|") == 2 else iter(())

    def end(self, number, line):
        return iter(())


class AllOrNothing(Clean):
    breaks = ("IM-22",)

    def file(self, source, stream):
        found = list(super().file(source, stream))
        return iter(found[-1:] if found and isinstance(found[-1], BadLine) else found)


class OneFileSpoilsAll(Clean):
    breaks = ("IM-22",)

    def read(self, source):
        for item in super().read(source):
            yield item
            if source.is_folder and isinstance(item, BadLine):
                return


class TakesAnyFile(Clean):
    breaks = ("IM-23",)

    def file(self, source, stream):
        found = list(super().file(source, stream))
        text = self.text(source.head)
        yield from found
        if source.head and not source.head.startswith(FIRST.encode()):
            yield self.memory(source, 1, "1", "", text)


class SilentAboutOthers(Clean):
    breaks = ("IM-23",)

    def file(self, source, stream):
        found = super().file(source, stream)
        return (item for item in found if not (isinstance(item, BadLine) and item.line == 1))


class RaisesWhileReading(Clean):
    breaks = ("IM-24",)

    def text(self, data):
        return data.decode().removesuffix("\n")


class EndsWhereTheDeviceFails(Clean):
    breaks = ("IM-24",)

    def file(self, source, stream):
        try:
            yield from super().file(source, stream)
        except OSError:
            return


class LeavesALog(Clean):
    breaks = ("IM-30",)

    def read(self, source):
        yield from super().read(source)
        if source.path is not None:
            source.path.with_name("import.log").write_text("done")


class MarksAsRead(Clean):
    breaks = ("IM-30",)

    def recognise(self, source):
        if source.path is not None:
            os.utime(source.path, (1, 1))
            for path in source.path.glob("*"):
                os.utime(path, (1, 1))
        return super().recognise(source)


class ReadsItWhole(Clean):
    breaks = ("IM-31",)

    def file(self, source, stream):
        if source.path is None or source.is_folder:
            yield from super().file(source, stream)
        else:
            lines = stream.read().splitlines(keepends=True)
            for number, line in enumerate(lines[1:], 2):
                yield from () if self.text(line) == LAST else self.line(source, number, self.text(line))


class GivesAllAtOnce(Clean):
    breaks = ("IM-31",)

    def read(self, source):
        return iter(list(super().read(source)))


class RemembersEverything(Clean):
    breaks = ("IM-31",)

    def read(self, source):
        kept = []
        for item in super().read(source):
            kept.append(item)
            yield item


class SaysNothingOfChanges(Clean):
    breaks = ("IM-32",)
    changes = " "


class LongSummary(Clean):
    breaks = ("IM-32",)
    summary = "what\nis planted"
