"""Where the files of a model come from: the addresses that its plugin states, or a mirror or folder that a person
names."""

from __future__ import annotations

import contextlib
import http.client
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final, Protocol

import attrs

from memspine import __version__
from memspine.contracts import ModelFile
from memspine.errors import describe
from memspine.modelfiles.errors import InterruptedFetch, ModelFilesError

TIMEOUT_SECONDS: Final = 30.0
"""How long a server may say nothing."""

_PASSING: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers of a server that may be others a little later."""


@attrs.frozen
class Stream:
    """The content of a file from the byte `start` on: where that is 0, from its beginning, whatever was asked for."""

    content: IO[bytes]
    start: int

    def read(self, size: int) -> bytes:
        """Up to `size` more bytes; none at the end. Raises InterruptedFetch."""
        try:
            return self.content.read(size)
        except (OSError, http.client.HTTPException) as error:
            raise InterruptedFetch(describe(error)) from error


class Origin(Protocol):
    """Somewhere that files are."""

    def opened(self, file: ModelFile, *, start: int) -> contextlib.AbstractContextManager[Stream]:
        """The file's content from a byte on. Raises InterruptedFetch, ModelFilesError."""
        ...


def origin_of(model_name: str, place: str | None) -> Origin:
    """The origin that a person names: the address or the folder that holds the model's files; None for the addresses
    of the plugin. Raises ModelFilesError for an address that cannot be used."""
    if place is None:
        return Stated(model_name)
    if urllib.parse.urlsplit(place).scheme.lower() not in {"http", "https"}:
        return Folder(model_name, Path(place))
    parts = urllib.parse.urlsplit(place)
    if "@" in parts.netloc or parts.query or parts.fragment or not parts.hostname:
        reason = "the address of the mirror cannot be used"
        expected = "one with a host, without user, password, query and fragment"
        raise ModelFilesError(model_name, reason, expected=expected, kind="config")
    return Mirror(model_name, place.rstrip("/"))


@attrs.frozen
class Stated:
    """The addresses that the plugin states, over https alone."""

    model_name: str

    def opened(self, file: ModelFile, *, start: int) -> contextlib.AbstractContextManager[Stream]:
        """Over the network."""
        if urllib.parse.urlsplit(file.url).scheme.lower() != "https":
            reason = f"{file.path} is to come from {_shown(file.url)}"
            raise ModelFilesError(self.model_name, reason, expected="an address of https", kind="config")
        return _download(file.url, start=start, model_name=self.model_name)


@attrs.frozen
class Mirror:
    """An address below which the files are, under their paths."""

    model_name: str
    prefix: str

    def opened(self, file: ModelFile, *, start: int) -> contextlib.AbstractContextManager[Stream]:
        """Over the network."""
        url = f"{self.prefix}/{urllib.parse.quote(file.path)}"
        return _download(url, start=start, model_name=self.model_name)


@attrs.frozen
class Folder:
    """A folder in which the files are, under their paths."""

    model_name: str
    folder: Path

    @contextlib.contextmanager
    def opened(self, file: ModelFile, *, start: int) -> Iterator[Stream]:
        """From the disk."""
        path = self.folder.joinpath(*file.path.split("/"))
        try:
            content = path.open("rb")
        except OSError as error:
            reason = f"{path} cannot be read: {error.strerror or error}"
            raise ModelFilesError(self.model_name, reason, expected=f"{file.path} in the folder") from error
        with content:
            size = path.stat().st_size
            if size != file.size_bytes:
                reason = f"{path} has {size} bytes, {file.path} {file.size_bytes}"
                raise ModelFilesError(self.model_name, reason, expected=f"{file.path} itself in the folder")
            content.seek(start)
            yield Stream(content, start)


@contextlib.contextmanager
def _download(url: str, *, start: int, model_name: str) -> Iterator[Stream]:
    """A file over http, through the proxy that the environment names. Raises InterruptedFetch, ModelFilesError."""
    headers = {"User-Agent": f"memspine/{__version__}", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - the callers allow http and https alone
    try:
        answer = _opener(request.type).open(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416 and start:  # what is there already is no beginning of what the server has
                raise RangeRefused from None
            raise _refused(error, url, model_name) from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None)
        raise InterruptedFetch(f"{_shown(url)}: {reason if reason is not None else describe(error)}") from error
    with answer:
        if answer.headers.get("Content-Encoding", "identity") not in {"", "identity"}:
            reason = f"{_shown(url)} answers with another encoding than was asked for"
            raise ModelFilesError(model_name, reason, expected="the file as it is")
        yield Stream(answer, _start(answer, start))


class RangeRefused(InterruptedFetch):
    """The server has no such part of the file."""


def _opener(scheme: str) -> urllib.request.OpenerDirector:
    """What opens addresses: after https nothing else, so that no server can lead to where others read along."""
    opener = urllib.request.OpenerDirector()
    handlers = [
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPSHandler(),
        *([] if scheme == "https" else [urllib.request.HTTPHandler()]),
    ]
    for handler in handlers:
        opener.add_handler(handler)
    return opener


def _start(answer: Any, wanted: int) -> int:
    """The byte that an answer begins with: servers that know no parts begin at the beginning."""
    said = f"bytes {wanted}-"
    return wanted if answer.status == 206 and str(answer.headers.get("Content-Range", "")).startswith(said) else 0


def _refused(error: urllib.error.HTTPError, url: str, model_name: str) -> Exception:
    said = f"{_shown(url)}: the server answered {error.code} {error.reason}"
    if error.code in _PASSING:
        return InterruptedFetch(said)
    return ModelFilesError(model_name, said, expected="the file; --from names another place that has it")


def _shown(url: str) -> str:
    """An address in a message: what follows a question mark may be a credential."""
    return url.partition("?")[0]
