"""What an endpoint's URL may look like, and which addresses its host may have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from memspine.errors import MemspineError

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

Address: TypeAlias = "IPv4Address | IPv6Address"

REFUSED: Final = (
    "the endpoint is not allowed; expected an http or https URL with a host, without user, password, query and "
    "fragment, whose host is no metadata service and fits the options for public addresses and for credentials"
)
"""What every refusal says. It neither repeats the URL, which may hold a credential, nor tells what a name resolved to,
which would let a stranger's configuration explore the network."""

_METADATA_NETWORKS: Final = (
    "169.254.0.0/16",  # nearly all of them, and the container credentials of AWS
    "100.100.100.200/32",  # Alibaba
    "168.63.129.16/32",  # Azure's host, a public address
    "192.0.0.192/32",  # Oracle's earlier one
    "192.80.8.124/32",  # Equinix, a public address
    "fd00:ec2::/32",  # AWS
    "fd20:ce::254/128",  # Google
    "fe80::a9fe:a9fe/128",  # OpenStack
)
_METADATA_NAMES: Final = (
    "instance-data",
    "instance-data.ec2.internal",
    "metadata",
    "metadata.azure.internal",
    "metadata.goog",
    "metadata.google.internal",
    "metadata.packet.net",
    "metadata.platformequinix.com",
    "metadata.tencentyun.com",
)
_LOCAL_NAMES: Final = ("localhost", "local", "internal", "home.arpa", "localdomain")
# The last 32 bits of an address in one of these are an IPv4 address: compatible, mapped, translated, both NAT64.
_EMBEDDING_NETWORKS: Final = ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")
_HOST: Final = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
# Where the older and the newer rules for international names lead to different hosts.
_AMBIGUOUS: Final = frozenset("ßς\u200c\u200d")
_NAME_LENGTH_MAX: Final = 253
_NUMBER: Final = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")


class EndpointError(MemspineError, ValueError):
    """An endpoint that must not be connected to. Its text is always `REFUSED`."""

    def __init__(self) -> None:
        super().__init__(REFUSED)


@attrs.frozen(kw_only=True)
class OutboundPolicy:
    """What is allowed beyond the rules that always hold.

    With `public_only`, private and loopback addresses are refused. With `carries_secret`, http leads to private and
    loopback addresses alone: on the way to others, everybody could read the credential.
    """

    public_only: bool = False
    carries_secret: bool = False


@attrs.frozen(kw_only=True)
class Endpoint:
    """A checked URL in one spelling. `url` has no slash at its end; `scheme` is http or https; `host` is ASCII, an IPv6
    address without brackets; `address` is the host when that is an address and not a name."""

    url: str
    scheme: str
    host: str
    port: int
    address: Address | None = None

    @property
    def authority(self) -> str:
        """Host and port as a Host header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _default_port(self.scheme) else f"{host}:{self.port}"


def check_url(url: str, policy: OutboundPolicy | None = None) -> Endpoint:
    """The endpoint that this URL names. Looks up nothing. Raises EndpointError."""
    from urllib.parse import urlsplit

    policy = policy or OutboundPolicy()
    # urlsplit drops tabs and line ends, and others read a backslash as a slash: what is checked has to be what is used.
    if any(character <= " " or character in '\\<>"^`{|}\x7f' for character in url):
        raise EndpointError
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise EndpointError from None
    scheme = parts.scheme
    if scheme not in {"http", "https"} or "@" in parts.netloc or "?" in url or "#" in url or port == 0:
        raise EndpointError
    host, address = _checked_host(parts.hostname or "", policy)
    if address is not None:
        _check_address(address, policy, scheme=scheme)
    if ("[" in parts.netloc and ":" not in host) or not parts.path.isascii():
        raise EndpointError
    endpoint = Endpoint(url="", scheme=scheme, host=host, port=port or _default_port(scheme), address=address)
    return attrs.evolve(endpoint, url=f"{scheme}://{endpoint.authority}{parts.path.rstrip('/')}")


async def resolve(endpoint: Endpoint, policy: OutboundPolicy | None = None) -> tuple[str, ...]:
    """The addresses to connect to, in the order of preference.

    All answers are checked, and one that is not allowed refuses them all. Raises EndpointError, and OSError when the
    name cannot be looked up.
    """
    if endpoint.address is not None:
        return check_addresses([str(endpoint.address)], policy, scheme=endpoint.scheme)
    import asyncio
    import socket

    loop = asyncio.get_running_loop()
    try:
        answers = await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except UnicodeError:  # a label that the resolver's own encoding does not take
        raise EndpointError from None
    found = [str(answer[4][0]) for answer in answers]
    return check_addresses(found, policy, scheme=endpoint.scheme)


def check_addresses(
    addresses: Iterable[str], policy: OutboundPolicy | None = None, *, scheme: str = "https"
) -> tuple[str, ...]:
    """The same addresses, each once, in one spelling. Raises EndpointError if any is not allowed, or there is none."""
    import ipaddress

    policy = policy or OutboundPolicy()
    checked: dict[str, None] = {}
    for text in addresses:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            raise EndpointError from None
        _check_address(address, policy, scheme=scheme)
        checked[str(address)] = None
    if not checked:
        raise EndpointError
    return tuple(checked)


def is_metadata(address: Address) -> bool:
    """Whether the address is of a cloud metadata service, also when it is written as IPv6."""
    import ipaddress

    networks = [ipaddress.ip_network(network) for network in _METADATA_NETWORKS]
    return any(one in network for one in (address, *_embedded(address)) for network in networks)


def is_public(address: Address) -> bool:
    """Whether the address is reached through the Internet, also when it is written as IPv6."""
    inner = tuple(_embedded(address))
    if inner:
        return all(map(is_public, inner))
    return address.is_global and not address.is_multicast and not getattr(address, "is_site_local", False)


# ── the parts of a check ──


def _default_port(scheme: str) -> int:
    return 80 if scheme == "http" else 443


def _check_address(address: Address, policy: OutboundPolicy, *, scheme: str) -> None:
    if is_metadata(address) or any(map(_is_unusable, (address, *_embedded(address)))):
        raise EndpointError
    public = is_public(address)
    if policy.public_only and not public:
        raise EndpointError
    if policy.carries_secret and scheme == "http" and public:
        raise EndpointError


def _is_unusable(address: Address) -> bool:
    """Whether nobody serves there. The unspecified address stays: systems take it for the loopback."""
    return not address.is_unspecified and (address.is_multicast or (address.version == 4 and address.is_reserved))


def _checked_host(host: str, policy: OutboundPolicy) -> tuple[str, Address | None]:
    """The host in one spelling, and its address if it is one."""
    import ipaddress

    if ":" in host:
        try:
            address = ipaddress.IPv6Address(host)
        except ValueError:
            raise EndpointError from None
        if address.scope_id is not None:
            raise EndpointError
        return str(address), address
    name = _ascii_name(host)
    number = _as_ipv4(name)
    if number is not None:
        return str(number), number
    if _is_below(name, _METADATA_NAMES) or (policy.public_only and (_is_below(name, _LOCAL_NAMES) or "." not in name)):
        raise EndpointError
    return name, None


def _ascii_name(host: str) -> str:
    """The host as it is looked up: compatibility forms resolved, lower case, without the dot at its end."""
    import unicodedata

    if _AMBIGUOUS & set(host):
        raise EndpointError
    name = unicodedata.normalize("NFKC", host).casefold().replace("。", ".").removesuffix(".")
    if not name.isascii():
        try:
            name = name.encode("idna").decode("ascii")
        except UnicodeError:
            raise EndpointError from None
    if len(name) > _NAME_LENGTH_MAX or not _HOST.fullmatch(name):
        raise EndpointError
    return name


def _is_below(name: str, others: Iterable[str]) -> bool:
    return any(name == other or name.endswith("." + other) for other in others)


def _as_ipv4(name: str) -> IPv4Address | None:
    """The IPv4 address that resolvers understand by this name: one to four numbers, decimal, octal or hexadecimal, of
    which the last fills what is left. None for a name. Raises EndpointError for what only begins to look like one."""
    import ipaddress

    labels = name.split(".")
    if not _NUMBER.fullmatch(labels[-1]):
        return None
    try:
        *leading, last = map(_number, labels)
    except ValueError:
        raise EndpointError from None
    if len(leading) > 3 or any(number > 255 for number in leading) or last >= 256 ** (4 - len(leading)):
        raise EndpointError
    value = last + sum(number << (24 - 8 * place) for place, number in enumerate(leading))
    return ipaddress.IPv4Address(value)


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text) or len(text) > 40:
        raise ValueError
    if text[:2].lower() == "0x":
        return int(text[2:] or "0", 16)
    return int(text, 8) if text.startswith("0") else int(text)


def _embedded(address: Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses that an IPv6 address leads to."""
    import ipaddress

    if address.version == 4:
        return
    value = int(address)
    if value > 1 and any(address in ipaddress.ip_network(network) for network in _EMBEDDING_NETWORKS):
        yield ipaddress.IPv4Address(value & 0xFFFFFFFF)
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if (value >> 32) & 0xFDFFFFFF == 0x00005EFE:  # ISATAP, whatever the network
        yield ipaddress.IPv4Address(value & 0xFFFFFFFF)
