"""References to secrets: what they reveal, and what they never show."""

import traceback

import attrs
import pytest

from memspine.config import SecretRef, check_secrets, load_config, redacted
from memspine.errors import ConfigError


def test_variable():
    """A reference to a variable reveals its value, read when it is asked for."""
    environ = {}
    secret = SecretRef(env="KEY", environ=environ, key="backends.a.api_key", source="c.toml")
    with pytest.raises(ConfigError) as error:
        secret.reveal()
    assert str(error.value) == "c.toml: backends.a.api_key: the secret's variable 'KEY' is not set or empty"
    environ["KEY"] = "s3cret\n"
    assert secret.reveal() == "s3cret\n"


@pytest.mark.parametrize(
    ("content", "value"), [(b"s3cret", "s3cret"), (b"s3cret\n", "s3cret"), (b"s3cret\r\n", "s3cret"), (b"a\n\n", "a\n")]
)
def test_file(content, value, tmp_path):
    """A reference to a file reveals its text without the newline at its end; it is relative to the configuration."""
    (tmp_path / "key").write_bytes(content)
    assert SecretRef(file="key", folder=tmp_path).reveal() == value
    assert SecretRef(file=str(tmp_path / "key")).reveal() == value


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "the secret's file 'key' cannot be read: No such file or directory"),
        (b"\n", "the secret's file 'key' is empty"),
        (b"s3cret \xe9", "the secret's file 'key' is not UTF-8"),
        (b"s3cret" * 20_000, "the secret's file 'key' is larger than 65536 bytes"),
    ],
)
def test_unusable_file(content, text, tmp_path):
    """A file without a usable secret is a ConfigError that shows nothing of the content."""
    if content is not None:
        (tmp_path / "key").write_bytes(content)
    with pytest.raises(ConfigError) as error:
        SecretRef(file="key", folder=tmp_path, key="k").reveal()
    assert str(error.value) == f"configuration: k: {text}"
    assert "s3cret" not in "".join(traceback.format_exception(error.value))


def test_nothing_is_shown(tmp_path, plugins):
    """Neither the repr of a reference nor that of the whole configuration holds the secret."""
    document = '[backends.a]\nplugin = "full"\napi_key = { env = "KEY" }\n'
    (tmp_path / "c.toml").write_text(document, encoding="utf-8")
    config = load_config(tmp_path / "c.toml", plugins=plugins, environ={"KEY": "s3cret"})
    secret = config.primary.options.api_key
    assert secret.reveal() == "s3cret"
    assert repr(secret) == 'SecretRef({ env = "KEY" })'
    assert "s3cret" not in f"{config!r}{secret!s}"


def test_check_secrets(tmp_path, plugins):
    """Every reference that leads nowhere is a problem with its line, inside of arrays and nested tables too."""
    document = (
        '[backends.a]\nplugin = "full"\napi_key = { env = "A" }\nkeys = [\n{ env = "B" },\n{ file = "c" },\n]\n'
        '[backends.b]\nplugin = "needs"\nfolder = "f"\ntoken = { env = "D" }\n[memory]\nprimary = "a"\n'
    )
    (tmp_path / "c.toml").write_text(document, encoding="utf-8")
    config = load_config("c.toml", plugins=plugins, environ={"A": "there"}, working_folder=tmp_path)
    assert list(map(str, check_secrets(config))) == [
        "c.toml:5: backends.a.keys[0]: the secret's variable 'B' is not set or empty",
        "c.toml:6: backends.a.keys[1]: the secret's file 'c' cannot be read: No such file or directory",
        "c.toml:11: backends.b.token: the secret's variable 'D' is not set or empty",
    ]


def test_redacted():
    """No credential that options refer to stays in a text, however deep in them the reference lies."""

    @attrs.frozen
    class Options:
        headers: object
        key: object = None

    environ = {"A": "s3cret", "B": "t0ken"}
    first, second = (SecretRef(env=name, environ=environ) for name in environ)
    for options in (Options(first, second), Options({"X": first, "Y": (second,)}), Options(Options(first), second)):
        assert redacted("said s3cret and t0ken", options) == "said *** and ***"
    assert redacted("said s3cret", Options(SecretRef(env="MISSING", environ=environ))) == "said s3cret"
