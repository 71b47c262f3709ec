"""An embedding source for the tests of the command line, as the code of a plugin.

Words of one meaning are one number of a vector. What the source does is written into a file, and files beside it make
it fail: all of it, or every text that holds a word.
"""

CODE = """
import contextlib
import math
import time
from array import array
from pathlib import Path

import attrs

from memspine.contracts import EmbeddingIdentity, Provider, Vectors
from memspine.errors import EmbeddingError
from memspine.hookspecs import hookimpl

MEANINGS = [
    {"vet", "veterinarian", "dr"}, {"juno", "dog", "pet"}, {"eats", "eat", "food", "duck"}, {"tyre", "bicycle"}
]
WORKS = "a source that works"


@attrs.frozen
class Config:
    folder: str
    model: str = "toy"
    seconds: float = 0.0


class Source:
    def __init__(self, name, config):
        self.name, self.config = name, config
        self.folder = Path(config.folder)
        self.log("opened")

    def log(self, line):
        with (self.folder / "log").open("a") as file:
            file.write(line + "\\n")

    async def identity(self):
        if (self.folder / "lost").exists():
            raise EmbeddingError(self.name, "has no model", expected=WORKS, kind="config")
        return EmbeddingIdentity(plugin="toy", model=self.config.model, revision="1", dimension=len(MEANINGS) + 1)

    async def count_tokens(self, texts):
        return tuple(len(text.split()) for text in texts)

    async def embed(self, texts, *, role):
        if (self.folder / "broken").exists():
            raise EmbeddingError(self.name, "is out of order", expected=WORKS, kind="config")
        for text in texts:
            if role == "document" and "indigestible" in text:
                raise EmbeddingError(self.name, "this text is no text", expected="another", kind="invalid")
        time.sleep(self.config.seconds)
        for text in texts:
            self.log(f"{role} {text}")
        return Vectors(len(MEANINGS) + 1, b"".join(self.vector(text) for text in texts))

    def vector(self, text):
        words = [word.strip(".,?!'") for word in text.lower().split()]
        numbers = [float(sum(word in meaning for word in words)) for meaning in MEANINGS]
        numbers.append(0.1)
        norm = math.sqrt(sum(number * number for number in numbers))
        return array("f", [number / norm for number in numbers]).tobytes()


@contextlib.asynccontextmanager
async def open_source(config, context):
    yield Source(context.name, config)


@hookimpl
def memspine_embedding_sources():
    return [Provider(name="toy", config_type=Config, open=open_source)]
"""
