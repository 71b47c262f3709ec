"""The headers of a request, and the credentials among them: revealed for the time of one request, and cut out of
whatever comes back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import attrs

from memspine.errors import ConfigError, MemspineError

if TYPE_CHECKING:
    from memspine.contracts import Secret

# So many characters in a row of a credential are taken for a piece of it.
_PIECE_LENGTH: Final = 8
_MASK: Final = "***"
_MARK: Final = "\0"
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# What the client writes itself: a second one could make a server read another request than was meant.
_OWN_HEADERS: Final = frozenset(
    "accept accept-encoding connection content-length content-type host memspine-via te trailer transfer-encoding "
    "upgrade".split()
)
_SECRET_HEADERS: Final = frozenset("api-key authorization cookie proxy-authorization x-api-key x-goog-api-key".split())


class CredentialError(MemspineError):
    """A credential that is missing or cannot be sent. Neither its text nor its fields hold it."""

    def __init__(self, option: str, reason: str, *, expected: str) -> None:
        self.option, self.reason, self.expected = option, reason, expected
        super().__init__(f"{reason}; expected {expected}")


@attrs.frozen(repr=False)
class Revealed:
    """The headers that carry credentials, and the credentials themselves. Its repr shows neither."""

    headers: Mapping[str, str]
    secrets: tuple[str, ...]

    def redacted(self, text: str) -> str:
        """The text on one line, without the credentials and without pieces of them."""
        shown = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        for secret in self.secrets:
            shown = _without(shown, secret)
        return shown


def check_headers(headers: Mapping[str, object]) -> None:
    """Raise ValueError for headers that cannot be sent, and for credentials that are written down in them."""
    for name, content in headers.items():
        if not _TOKEN.fullmatch(name) or name.lower() in _OWN_HEADERS:
            raise ValueError(f"header {name!r} cannot be set here; expected the name of a header of the service's own")
        if isinstance(content, str) and name.lower() in _SECRET_HEADERS:
            raise ValueError(f"header {name!r} holds a credential; refer to it in `secret_headers` instead")
        if isinstance(content, str) and not (content.isascii() and content.isprintable()):
            raise ValueError(f"the value of header {name!r} cannot be sent; expected printable ASCII characters")


def reveal(api_key: Secret | None, secret_headers: Mapping[str, Secret]) -> Revealed:
    """The credentials as they are now, the key as a bearer token. Raises CredentialError."""
    values = {name: _value(secret, f"secret_headers.{name}") for name, secret in secret_headers.items()}
    if api_key is None:
        return Revealed(values, tuple(values.values()))
    key = _value(api_key, "api_key")
    return Revealed({"Authorization": f"Bearer {key}", **values}, (key, *values.values()))


def _value(secret: Secret, option: str) -> str:
    try:
        value = secret.reveal().strip()
    except ConfigError as error:
        expected = f"the credential that `{option}` refers to"
        raise CredentialError(option, str(error), expected=expected) from None
    # The client's own complaint about such a header would show it.
    if not value or not (value.isascii() and value.isprintable()):
        reason = f"the credential of `{option}` cannot be sent"
        raise CredentialError(option, reason, expected="printable ASCII characters, at least one")
    return value


def _without(text: str, secret: str) -> str:
    length = _PIECE_LENGTH
    text = text.replace(secret, _MARK)
    starts = [place for place in range(len(text) - length + 1) if text[place : place + length] in secret]
    hidden = {place + step for place in starts for step in range(length)}
    marked = "".join(_MARK if place in hidden else character for place, character in enumerate(text))
    return re.sub(f"{_MARK}+", _MASK, marked)
