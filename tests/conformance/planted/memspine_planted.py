"""A plugin whose providers have one defect each, or none: what shows that the kit finds defects.

It is installed for a single run by a folder that holds its entry point.
"""

import importlib
import re
from contextlib import asynccontextmanager

import attrs

from memspine.contracts import Capability, Importer, Provider
from memspine.hookspecs import hookimpl


@attrs.frozen(kw_only=True)
class Config:
    defect: str = "Clean"
    folder: str = ""


@asynccontextmanager
async def open_planted(config, context, *, module):
    assert not config.folder or config.folder.startswith(str(context.data_folder))
    found = getattr(importlib.import_module(module), config.defect)
    opened = found(context)
    try:
        yield opened
    finally:
        opened.close()


def opener(module):
    def open(config, context):
        early = getattr(importlib.import_module(module), config.defect)
        if hasattr(early, "on_construction"):
            early.on_construction(context)
        return open_planted(config, context, module=module)

    return open


@hookimpl
def memspine_memory_backends():
    claimed = frozenset(Capability)
    return [Provider(name="planted", config_type=Config, open=opener("planted_backends"), capabilities=claimed)]


@hookimpl
def memspine_embedding_sources():
    return [Provider(name="planted", config_type=Config, open=opener("planted_sources"))]


@hookimpl
def memspine_vector_stores():
    claimed = frozenset({Capability.LEXICAL})
    return [Provider(name="planted", config_type=Config, open=opener("planted_stores"), capabilities=claimed)]


@hookimpl
def memspine_rerankers():
    return [Provider(name="planted", config_type=Config, open=opener("planted_rerankers"))]


@hookimpl
def memspine_injectors():
    return [Provider(name="planted", config_type=Config, open=opener("planted_injectors"))]


def importer_name(defect):
    return "planted" if defect == "Clean" else "planted" + re.sub("[A-Z]", lambda found: f"-{found[0].lower()}", defect)


@hookimpl
def memspine_importers():
    found = vars(importlib.import_module("planted_importers"))
    defects = [value for value in found.values() if isinstance(value, type) and hasattr(value, "breaks")]
    return [
        Importer(
            name=importer_name(defect.__name__),
            summary=defect.summary,
            changes=defect.changes,
            recognise=defect().recognise,
            read=defect().read,
        )
        for defect in defects
    ]
