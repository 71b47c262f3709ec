"""What plugins share that ask services: reaching checked addresses, credentials, and reading answers."""

from __future__ import annotations

import asyncio
import gzip

import pytest

from memspine.errors import ConfigError
from memspine.model import Problem
from memspine.outbound import (
    AnswerError,
    CheckedAddresses,
    CredentialError,
    EndpointError,
    OutboundPolicy,
    Revealed,
    check_url,
    parse_json,
    reveal,
    unpacked,
)

KEY = "sk-0123456789abcdefghijklmnop"
HOST = "models.example"


class Hidden:
    """A credential as the configuration gives it, or one that is missing."""

    def __init__(self, value: str | None = KEY) -> None:
        self.value = value

    def reveal(self) -> str:
        if self.value is None:
            raise ConfigError([Problem(source="c.toml", line=None, key="k", text="the variable MODEL_KEY is not set")])
        return self.value


@pytest.fixture
def reaching(monkeypatch):
    """Asks for a host that has two addresses, of which some are deaf; gives what was tried, and how often looked up."""
    tried, looked_up = [], []

    async def getaddrinfo(self, host, port, **_):
        looked_up.append(host)
        return [(2, 1, 6, "", (address, port)) for address in ("192.0.2.1", "192.0.2.2")]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr("memspine.outbound.reaching._KEPT_SECONDS", 60.0)

    def go(deaf_by_turn, *, host=HOST, policy=None):
        async def run():
            addresses = CheckedAddresses(check_url(f"https://{HOST}"), policy)
            answers = []
            for deaf in deaf_by_turn:

                async def ask(address, count, deaf=deaf):
                    tried.append((address[-1], count))
                    if address[-1] in deaf:
                        raise ConnectionError(address)
                    return address

                try:
                    answers.append(await addresses.reach(host, ask, unreachable=(ConnectionError,)))
                except ConnectionError as error:
                    answers.append(repr(error))
            return answers

        return asyncio.run(run()), tried, looked_up

    return go


def test_the_address_that_answered_is_first_the_next_time(reaching):
    """One that nobody listens on is tried once, not for every request, and the name is looked up once."""
    answers, tried, looked_up = reaching(["1", "1", ""])
    assert answers == ["192.0.2.2"] * 3
    assert tried == [("1", 2), ("2", 2), ("2", 2), ("2", 2)]
    assert looked_up == [HOST]


def test_when_no_address_can_be_reached_the_name_is_looked_up_again(reaching):
    """The last address's error is raised, and the next request begins anew."""
    answers, tried, looked_up = reaching(["12", ""])
    assert answers == ["ConnectionError('192.0.2.2')", "192.0.2.1"]
    assert tried == [("1", 2), ("2", 2), ("1", 2)]
    assert looked_up == [HOST, HOST]


def test_addresses_are_looked_up_again_after_a_while(reaching, monkeypatch):
    """A name may lead elsewhere later."""
    monkeypatch.setattr("memspine.outbound.reaching._KEPT_SECONDS", -1.0)
    assert reaching(["", ""])[2] == [HOST, HOST]


def test_no_other_host_and_no_refused_address_is_reached(reaching):
    """Neither a request that was led elsewhere nor a name with a refused address gets as far as asking."""
    with pytest.raises(EndpointError):
        reaching([""], host="other.example")
    with pytest.raises(EndpointError):
        reaching([""], policy=OutboundPolicy(public_only=True))
    assert reaching([])[1] == []


@pytest.mark.parametrize("value", ["", "  ", "a\nb", "schlüssel", "a\0b", "\x7f"])
def test_a_credential_that_cannot_be_sent_is_not_shown(value):
    """It is refused before the client sees it, whose complaint would quote it."""
    with pytest.raises(CredentialError) as error:
        reveal(None, {"api-key": Hidden(value or " ")})
    assert repr(value) not in str(error.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"key {KEY}!", "key ***!"),
        (f"{KEY}{KEY}", "***"),
        (f"key {KEY[:8]}", "key ***"),
        (f"key {KEY[:7]}", f"key {KEY[:7]}"),
        (f"{KEY[:10]}...{KEY[-9:]}", "***...***"),
        ("", ""),
        ("nothing\nof\tit", "nothing of it"),
    ],
)
def test_pieces_are_cut_out(text, shown):
    """Eight characters in a row of a credential are a piece of it, fewer are not."""
    assert Revealed({}, (KEY,)).redacted(text) == shown


def test_a_short_credential_is_cut_out_as_a_whole():
    """Keys of local servers may be a word."""
    assert Revealed({}, ("ab",)).redacted("ab, cab, a") == "***, c***, a"


def test_a_missing_credential_says_which_option_names_it():
    """The error has the configuration's own words and the option."""
    with pytest.raises(CredentialError, match="MODEL_KEY is not set") as error:
        reveal(Hidden(None), {})
    assert error.value.option == "api_key"


def read(*chunks, encoding="gzip", bytes_max=1000):
    """The pieces of a body."""

    async def body():
        for chunk in chunks:
            yield chunk

    async def run():
        return [piece async for piece in unpacked(body(), encoding, bytes_max=bytes_max)]

    return asyncio.run(run())


def test_what_is_packed_comes_in_bounded_pieces():
    """A chunk that becomes a thousand times as much is never held whole."""
    packed = gzip.compress(b"x" * 1_000_000)
    pieces = read(packed[:100], packed[100:], encoding=" GZip")
    assert b"".join(pieces) == b"x" * 1_000_000
    assert max(map(len, pieces)) == 1000


@pytest.mark.parametrize("encoding", ["", "identity"])
def test_what_is_not_packed_comes_as_it_is(encoding):
    """Without an encoding nothing is done to the body."""
    assert read(b"ab", b"c", encoding=encoding) == [b"ab", b"c"]


@pytest.mark.parametrize(("encoding", "chunk"), [("br", b"ab"), ("gzip, gzip", b"ab"), ("gzip", b"ab")])
def test_other_encodings_are_refused(encoding, chunk):
    """So is a body that is packed otherwise than it says."""
    with pytest.raises(AnswerError, match="answer"):
        read(chunk, encoding=encoding)


@pytest.mark.parametrize("text", ["<html>", "", "[NaN]", "[1e999]x", "[" * 100_000, '{"a": -Infinity}', "\xff"])
def test_what_is_no_json_is_refused_without_being_quoted(text):
    """Whatever else a service sends, the error says only that it was no JSON."""
    with pytest.raises(AnswerError) as error:
        parse_json(text.encode("latin-1"))
    assert str(error.value) == "an answer that is no JSON"
