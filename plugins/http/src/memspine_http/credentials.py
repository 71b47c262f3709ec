"""The credentials of a request: revealed for the time of one request, and cut out of whatever comes back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import attrs

from memspine.contracts import Secret
from memspine.errors import ConfigError
from memspine_http.failures import RequestError

# So many characters in a row of a credential are taken for a piece of it.
_PIECE_LENGTH: Final = 8
_MASK: Final = "***"
_MARK: Final = "\0"


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


def reveal(api_key: Secret | None, secret_headers: Mapping[str, Secret]) -> Revealed:
    """The credentials as they are now. Raises RequestError when one is missing or cannot be sent."""
    values = {name: _value(secret, f"secret_headers.{name}") for name, secret in secret_headers.items()}
    if api_key is None:
        return Revealed(values, tuple(values.values()))
    key = _value(api_key, "api_key")
    return Revealed({"Authorization": f"Bearer {key}", **values}, (key, *values.values()))


def _value(secret: Secret, option: str) -> str:
    try:
        value = secret.reveal().strip()
    except ConfigError as error:
        raise RequestError(str(error), advice=f"set the credential that `{option}` refers to") from None
    # The client's own complaint about such a header would show it.
    if not value or not (value.isascii() and value.isprintable()):
        raise RequestError(
            f"the credential of `{option}` cannot be sent; expected printable ASCII characters, at least one"
        )
    return value


def _without(text: str, secret: str) -> str:
    length = _PIECE_LENGTH
    text = text.replace(secret, _MARK)
    starts = [place for place in range(len(text) - length + 1) if text[place : place + length] in secret]
    hidden = {place + step for place in starts for step in range(length)}
    marked = "".join(_MARK if place in hidden else character for place, character in enumerate(text))
    return re.sub(f"{_MARK}+", _MASK, marked)
