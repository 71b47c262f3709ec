import re
import subprocess
import sys
import tomllib
from pathlib import Path

import attrs
import pytest

from memspine.conformance.subject import _converter
from memspine.contracts import Capability, Folders
from memspine_http.backend import open_backend
from memspine_http.config import HttpConfig
from memspine_http.plugin import memspine_memory_backends
from memspine_http.presets import ENDPOINTS, QUERY_NAMES

from .services import Hidden

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
KINDS = {
    "api_key": "Secret",
    "secret_headers": "table of Secret",
    "headers": "table of str",
    "endpoints": "table of str",
    "query_names": "table of str",
    "path_names": "table of str",
    "allow_local": "list of str",
}
PUBLIC = "https://memory.example.org/v1"


def shown(default):
    """A default as TOML would have it."""
    if default is attrs.NOTHING:
        return "required"
    if default is None or isinstance(default, attrs.Factory) or default in ("", ()):
        return "none"
    return str(default).lower() if isinstance(default, bool) else repr(default).replace("'", '"')


def kind_of(field):
    plain = field.type.__name__ if isinstance(field.type, type) else str(field.type).removesuffix(" | None")
    kind = KINDS.get(field.name) or plain
    return ", ".join(f"`{choice}`" for choice in re.findall(r"'(\w+)'", kind)) if "Literal" in kind else kind


def options_table():
    """The options as the README has to show them."""
    lines = ["| option | type | default | meaning |", "| --- | --- | --- | --- |"]
    lines += [
        f"| `{field.name}` | {kind_of(field)} | {shown(field.default)} | {field.metadata['help']} |"
        for field in attrs.fields(attrs.resolve_types(HttpConfig))
    ]
    return "\n".join(lines)


def test_the_readme_shows_the_options():
    """The table of options is what the configuration class says."""
    (table,) = re.findall(r"<!-- options: begin -->\n(.*?)\n<!-- options: end -->", README, re.DOTALL)
    assert table == options_table()


def test_the_readme_names_every_call_and_parameter():
    """What `endpoints` and `query_names` may name is listed."""
    (calls,) = re.findall(r"can be named in `endpoints`: (.*?)\. An endpoint", README)
    assert [*map("`{}`".format, ENDPOINTS)] == calls.split(", ")
    (names,) = re.findall(r"In `query_names`: (.*?)\.\n", README)
    assert sorted(names.split(", ")) == [*map("`{}`".format, sorted(QUERY_NAMES))]


def test_every_example_of_the_readme_is_a_configuration():
    """Each TOML example holds options that are accepted."""
    examples = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    assert len(examples) >= 4
    for example in examples:
        for table in tomllib.loads(example)["backends"].values():
            assert table.pop("plugin") == "http"
            assert _converter().structure(table, HttpConfig)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"url": "ftp://h"}, "endpoint is not allowed"),
        ({"url": "https://user:word@h.example.org"}, "endpoint is not allowed"),
        ({"url": "http://127.0.0.1:8080"}, "`allow_local`"),
        ({"url": "http://localhost"}, "`allow_local`"),
        ({"url": "http://10.0.0.7", "allow_local": ("10.0.0.8",)}, "`allow_local`"),
        ({"url": "http://10.0.0.7:81", "allow_local": ("10.0.0.7:80",)}, "`allow_local`"),
        ({"url": "http://169.254.169.254", "allow_local": ("169.254.169.254",)}, "endpoint is not allowed"),
        ({"allow_local": ("http://localhost",)}, "is no host"),
        ({"allow_local": ("metadata.google.internal",)}, "cannot be used"),
        ({"url": "http://8.8.8.8/v1", "secret_headers": {"x": Hidden()}}, "endpoint is not allowed"),
        ({"url": "http://8.8.8.8/v1", "api_key": Hidden()}, "endpoint is not allowed"),
        ({"headers": {"Authorization": "Bearer x"}}, "holds a credential"),
        ({"headers": {"Content-Length": "0"}}, "cannot be set here"),
        ({"headers": {"a": "x\r\nHost: other"}}, "cannot be sent"),
        ({"secret_headers": {"Host": Hidden()}}, "cannot be set here"),
        ({"timeout_seconds": 0}, "must be >="),
        ({"attempts": 0}, "must be >="),
        ({"page_items": 0}, "must be >="),
        ({"max_answer_bytes": 10}, "must be >="),
        ({"endpoints": {"fetch": "/x"}}, "is no call; expected one of"),
        ({"endpoints": {"get": "x/{id}"}}, "expected a path"),
        ({"endpoints": {"get": "/x/{id}?a=b"}}, "expected a path"),
        ({"endpoints": {"get": "FETCH /x/{id}"}}, "expected a path"),
        ({"endpoints": {"get": "/x/../{id}"}}, "without '.' and '..'"),
        ({"endpoints": {"get": "/x/{memory}"}}, "has {memory}; expected one of"),
        ({"endpoints": {"get": "/x/{id"}}, "braces in pairs"),
        ({"endpoints": {"get": ""}}, "expected a path"),
        ({"query_names": {"q": "query"}}, "is no parameter; expected one of"),
        ({"path_names": {"key": "k"}}, "is unknown; expected one of"),
    ],
    ids=str,
)
def test_options_are_checked(options, text):
    """What cannot work is refused when the configuration is read, and the error says what would."""
    with pytest.raises(ValueError, match=re.escape(text)):
        HttpConfig(**{"url": PUBLIC, **options})


@pytest.mark.parametrize(
    "options",
    [
        {"url": "http://localhost:8080", "allow_local": ("localhost",)},
        {"url": "http://localhost:8080", "allow_local": ("other.lan", "LOCALHOST:8080")},
        {"url": "http://[::1]:8080/x", "allow_local": ("[::1]",)},
        {"url": "http://[::1]:8080/x", "allow_local": ("[::1]:8080",), "api_key": Hidden()},
        {"url": "http://8.8.8.8", "api_key": Hidden(), "key_over_http": True},
        {"endpoints": {"get": "/x/{memory}/{owner}", "search": ""}, "path_names": {"id": "memory"}},
        {"endpoints": {"update": "PUT /x/{id}"}, "query_names": {"limit": "per_page", "key": ""}},
    ],
    ids=str,
)
def test_what_can_work_is_accepted(options):
    """Local services by name, with and without port, and every renaming."""
    assert HttpConfig(**{"url": PUBLIC, **options})


@pytest.mark.parametrize(
    ("options", "is_same"),
    [
        ({"url": "HTTPS://memory.EXAMPLE.org:443/v1/"}, True),
        ({"timeout_seconds": 1, "attempts": 1, "page_items": 7, "preset": "generic"}, True),
        ({"endpoints": {"list": "GET /memories"}}, True),
        ({"endpoints": {"list": "/other/memories"}}, False),
        ({"preset": "omniroute"}, False),
        ({"url": "https://memory.example.org/v2"}, False),
        ({"api_key": Hidden()}, False),
        ({"headers": {"x-tenant": "b"}}, False),
    ],
    ids=str,
)
def test_which_options_say_where_it_is(options, is_same):
    """Backends of one URL, one list and one account are one store, however they ask it."""
    (provider,) = memspine_memory_backends()
    first, second = HttpConfig(url=PUBLIC), HttpConfig(**{"url": PUBLIC, **options})
    folders = Folders(config_folder=Path("/here"), data_folder=Path("/data"))
    assert (provider.place(first, folders) == provider.place(second, folders)) is is_same


def test_registering_imports_nothing_heavy():
    """Neither the plugin's module nor its options import the client; opening does."""
    code = (
        "import sys, memspine_http.plugin as p; p.memspine_memory_backends();"
        "print({'httpx', 'tenacity'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_the_provider():
    """One backend called `http`, opened by address, with all that a service may claim and nothing else."""
    (provider,) = memspine_memory_backends()
    assert (provider.name, provider.config_type) == ("http", HttpConfig)
    assert provider.open == f"{open_backend.__module__}:{open_backend.__name__}"
    assert provider.capabilities == {Capability.PUT, Capability.CHANGES, Capability.HISTORY, Capability.PURGE}
