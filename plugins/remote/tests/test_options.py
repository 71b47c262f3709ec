import re
from pathlib import Path

import attrs
import pytest

from memspine.conformance.subject import _converter
from memspine_remote.config import RemoteEmbeddingConfig, RemoteRerankerConfig
from memspine_remote.plugin import memspine_embedding_sources, memspine_rerankers
from memspine_remote.source import open_source

from .tools import Hidden

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
KINDS = {
    "api_key": "Secret",
    "secret_headers": "table of Secret",
    "headers": "table of str",
}


def shown(default):
    """A default as TOML would have it."""
    if default is attrs.NOTHING:
        return "required"
    if default is None or isinstance(default, attrs.Factory) or default == "":
        return "none"
    return str(default).lower() if isinstance(default, bool) else repr(default).replace("'", '"')


def kind_of(field):
    kind = KINDS.get(field.name) or str(field.type).removesuffix(" | None")
    if kind.startswith("Literal"):
        kind = ", ".join(
            f"`{choice}`" for choice in re.findall(r"'(\w+)'|\"(\w+)\"", kind) for choice in choice if choice
        )
    return kind


def options_table(config):
    """The options as the README has to show them."""
    lines = ["| option | type | default | meaning |", "| --- | --- | --- | --- |"]
    lines += [
        f"| `{field.name}` | {kind_of(field)} | {shown(field.default)} | {field.metadata['help']} |"
        for field in attrs.fields(config)
    ]
    return "\n".join(lines)


@pytest.mark.parametrize(("name", "config"), [("embedding", RemoteEmbeddingConfig), ("rerank", RemoteRerankerConfig)])
def test_the_readme_shows_the_options(name, config):
    """The tables of options are what the configuration classes say."""
    (table,) = re.findall(rf"<!-- {name} options: begin -->\n(.*?)\n<!-- {name} options: end -->", README, re.DOTALL)
    assert table == options_table(config)


def test_every_example_of_the_readme_is_a_configuration():
    """Each TOML example holds options that are accepted."""
    import tomllib

    examples = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    assert len(examples) >= 6
    configs = {"embedding": RemoteEmbeddingConfig, "rerank": RemoteRerankerConfig}
    for example in examples:
        for section, tables in tomllib.loads(example).items():
            for table in tables.values():
                assert table.pop("plugin") == "remote"
                assert _converter().structure(table, configs[section])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"model": " "}, "'model' must not be empty"),
        ({"base_url": "ftp://h"}, "endpoint is not allowed"),
        ({"base_url": "http://169.254.169.254/v1"}, "endpoint is not allowed"),
        ({"base_url": "http://8.8.8.8/v1", "secret_headers": {"x": Hidden()}}, "endpoint is not allowed"),
        ({"headers": {"Authorization": "Bearer x"}}, "holds a credential"),
        ({"headers": {"X-Api-Key": "x"}}, "holds a credential"),
        ({"headers": {"Content-Length": "0"}}, "cannot be set here"),
        ({"headers": {"a b": "x"}}, "cannot be set here"),
        ({"headers": {"": "x"}}, "cannot be set here"),
        ({"headers": {"a": "x\r\nHost: other"}}, "cannot be sent"),
        ({"secret_headers": {"Host": Hidden()}}, "cannot be set here"),
        ({"timeout_seconds": 0}, "must be >="),
        ({"timeout_seconds": float("nan")}, "must be"),
        ({"attempts": 0}, "must be >="),
        ({"concurrency": 0}, "must be >="),
        ({"dimension": 0}, "must be >="),
        ({"batch_texts": -1}, "must be >="),
    ],
    ids=str,
)
def test_options_are_checked(options, text):
    """What cannot work is refused when the configuration is read."""
    with pytest.raises(ValueError, match=text):
        RemoteEmbeddingConfig(**{"model": "m", **options})


def test_registering_imports_nothing_heavy():
    """Neither the plugin's module nor its options import the client; opening does."""
    import subprocess
    import sys

    code = (
        "import sys, memspine_remote.plugin as p; p.memspine_rerankers();"
        "print({'httpx', 'tenacity'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_providers():
    """One embedding source and one reranker, both called `remote`, opened by address."""
    (source,), (reranker,) = memspine_embedding_sources(), memspine_rerankers()
    assert (source.name, reranker.name) == ("remote", "remote")
    assert source.open == f"{open_source.__module__}:{open_source.__name__}"
    assert (source.config_type, reranker.config_type) == (RemoteEmbeddingConfig, RemoteRerankerConfig)
