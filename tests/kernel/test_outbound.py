"""Where plugins may connect to."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memspine.errors import MemspineError
from memspine.outbound import (
    REFUSED,
    EndpointError,
    OutboundPolicy,
    check_addresses,
    check_url,
    is_metadata,
    is_public,
    resolve,
)

PUBLIC_ONLY = OutboundPolicy(public_only=True)
WITH_SECRET = OutboundPolicy(carries_secret=True)
METADATA = st.one_of(
    st.integers(0, 0xFFFF).map(lambda low: ipaddress.IPv4Address(0xA9FE0000 + low)),
    st.sampled_from(["100.100.100.200", "168.63.129.16", "192.0.0.192"]).map(ipaddress.IPv4Address),
)
IPV4 = st.integers(0, 2**32 - 1).map(ipaddress.IPv4Address)
LABELS = st.from_regex(r"[a-z]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)


def is_refused(url, policy=None):
    """Whether a URL is refused, and if so by the one sentence."""
    try:
        check_url(url, policy)
    except EndpointError as error:
        refusal = error
    else:
        return False
    assert isinstance(refusal, MemspineError)
    assert isinstance(refusal, ValueError)
    assert (str(refusal), refusal.__cause__) == (REFUSED, None)
    return True


@st.composite
def spellings(draw, addresses):
    """An IPv4 address as resolvers understand it: fewer numbers than four, each decimal, octal or hexadecimal."""
    value = int(draw(addresses))
    count = draw(st.integers(1, 4))
    numbers = [value >> (24 - 8 * place) & 255 for place in range(count - 1)]
    numbers.append(value & (256 ** (5 - count) - 1))
    forms = ["{:d}", "0{:o}", "0x{:x}", "0X{:X}", "0x00{:x}", "000{:o}"]
    host = ".".join(draw(st.sampled_from(forms)).format(number) for number in numbers)
    if draw(st.booleans()):
        host = host.translate({ord("0") + digit: ord("０") + digit for digit in range(10)})
    host = host.replace(".", draw(st.sampled_from([".", "。", "．", "｡"])))
    return value, host + draw(st.sampled_from(["", "."]))


@st.composite
def embedded(draw, addresses):
    """An IPv6 address that leads to an IPv4 address."""
    value = int(draw(addresses))
    forms = [
        0xFFFF << 32 | value,
        0xFFFF << 48 | value,
        0x64FF9B << 96 | value,
        0x64FF9B0001 << 80 | value,
        0x2002 << 112 | value << 80 | draw(st.integers(0, 2**80 - 1)),
        0x20010000 << 96 | value << 64 | draw(st.integers(0, 2**64 - 1)),
        0x20010000 << 96 | draw(st.integers(0, 2**64 - 1)) << 32 | value ^ 0xFFFFFFFF,
        0xFE80 << 112 | 0x5EFE << 32 | value,
        0x20010DB8 << 96 | 0x02005EFE << 32 | value,
    ]
    if value > 1:
        forms.append(value)
    return ipaddress.IPv6Address(draw(st.sampled_from(forms)))


@given(spellings(METADATA))
def test_metadata_is_refused_in_every_spelling(spelling):
    """Whatever way the numbers are written, with whatever digits and dots."""
    assert is_refused(f"http://{spelling[1]}/latest")


@given(spellings(IPV4))
def test_a_spelling_is_the_address_that_is_connected_to(spelling):
    """What is allowed is allowed in its plain form, which leaves nothing to whoever reads it next."""
    value, host = spelling
    address = ipaddress.IPv4Address(value)
    plain = f"http://{address}"
    assert is_refused(f"http://{host}") == is_refused(plain)
    if not is_refused(plain):
        endpoint = check_url(f"http://{host}")
        assert (endpoint.url, endpoint.host, endpoint.address) == (plain, str(address), address)


@given(embedded(METADATA))
def test_metadata_is_refused_inside_of_ipv6(address):
    """Mapped, translated, tunnelled: all lead there."""
    assert is_metadata(address)
    assert is_refused(f"http://[{address}]/")
    assert is_refused(f"http://[{address.exploded.upper()}]/")
    with pytest.raises(EndpointError):
        check_addresses(["8.8.8.8", str(address)])


@given(embedded(IPV4.filter(lambda address: not address.is_global)))
def test_private_addresses_are_not_public_inside_of_ipv6(address):
    """With `public_only`, and for a credential over http, it counts where an address leads."""
    assert not is_public(address)
    assert is_refused(f"https://[{address}]/", PUBLIC_ONLY)


@pytest.mark.parametrize(
    "url",
    [
        "http://[fd00:ec2::254]/",
        "http://[fd00:ec2::23]/",
        "http://[fd20:ce::254]/",
        "http://[fe80::a9fe:a9fe]/",
        "http://metadata.google.internal/computeMetadata/v1/",
        "http://METADATA.Google.Internal./",
        "http://metadata.goog",
        "http://instance-data",
        "http://instance-data.ec2.internal",
        "http://ｍetadata.google.internal",
        "http://x.metadata.google.internal",
        "http://metadata。google。internal",
        "http://①⑥⑨.②⑤④.①⑥⑨.②⑤④",
    ],
)
def test_metadata_services_are_known(url):
    """Those without an IPv4 address in 169.254.0.0/16, and their names, in any spelling."""
    assert is_refused(url)


@pytest.mark.parametrize(
    "url",
    [
        "", "h", "//h", "h/v1", "localhost:80", "ftp://h", "file:///etc/passwd", "javascript:alert(1)", "http:///v1",
        "http://", "https://:443", "http://me@h", "http://me:pw@h", "http://@h", "http://h?", "http://h?a=b", "http://h#",
        "http://h/v1?x", "http://h/v1#x", "http://h:0", "http://h:65536", "http://h:x", "http://h:-1", "http://h\\@x",
        "http://h\t/", " http://h", "http://h\n.x", "http://h /", "http://a..b", "http://.h", "http://h..", "http://%68",
        "http://169%2e254.169.254", "http://[::1", "http://::1", "http://[127.0.0.1]", "http://[v1.x]",
        "http://[::1%25lo]",
        "http://[::1%lo]", "http://1.2.3.4.5", "http://256.1", "http://1.2.3.256", "http://08.1.1.1",
        "http://a.1", "http://0x1g.1", "http://4294967296", "http://1..1",
        "http://" + "a" * 64, "http://" + "a." * 127 + "b",
        "http://straße.example", "http://h/ä", "http://h\u2100x", "http://h／x", "http://h＠x", "http://h*",
        "http://a b", "http://224.0.0.1", "http://255.255.255.255", "http://240.0.0.1", "http://[ff02::1]",
        "http://h\u200d.x", "http://h\x00",
    ],
)  # fmt: skip
def test_what_is_no_plain_endpoint_is_refused(url):
    """Other schemes, credentials, queries, fragments, and whatever two programs could read differently."""
    assert is_refused(url)


@pytest.mark.parametrize(
    ("url", "checked", "authority"),
    [
        ("https://api.openai.com/v1/", "https://api.openai.com/v1", "api.openai.com"),
        ("HTTPS://API.OpenAI.com:443", "https://api.openai.com", "api.openai.com"),
        ("http://localhost:11434/v1", "http://localhost:11434/v1", "localhost:11434"),
        ("http://127.1:8080//", "http://127.0.0.1:8080", "127.0.0.1:8080"),
        ("http://[::1]:80/v1", "http://[::1]/v1", "[::1]"),
        ("http://[0:0::1]:81", "http://[::1]:81", "[::1]:81"),
        ("http://192.168.1.20:8000/v1", "http://192.168.1.20:8000/v1", "192.168.1.20:8000"),
        ("http://gpu_box:8000/v1", "http://gpu_box:8000/v1", "gpu_box:8000"),
        ("https://bücher.example./v1", "https://xn--bcher-kva.example/v1", "xn--bcher-kva.example"),
        ("http://0x:1", "http://0.0.0.0:1", "0.0.0.0:1"),
        ("https://h/a/%2e/b", "https://h/a/%2e/b", "h"),
    ],
)
def test_endpoints_have_one_spelling(url, checked, authority):
    """Servers of providers, of the local network and of the own machine, in the form that is connected to."""
    endpoint = check_url(url)
    assert (endpoint.url, endpoint.authority) == (checked, authority)
    assert check_url(endpoint.url) == endpoint


@given(st.text(max_size=30), st.text(max_size=30), st.sampled_from(["http://", "https://", ""]))
def test_any_text_is_an_endpoint_or_refused(host, path, scheme):
    """There is no third thing; and an endpoint is its own endpoint."""
    if not is_refused(url := f"{scheme}{host}/{path}"):
        endpoint = check_url(url)
        assert check_url(endpoint.url) == endpoint


@given(st.lists(LABELS, min_size=1, max_size=4), st.sampled_from(["user:pw@", "key@"]), st.integers(1, 65535))
def test_credentials_of_a_url_are_never_shown(labels, credentials, port):
    """A URL with one is refused whatever else it is."""
    assert is_refused(f"https://{credentials}{'.'.join(labels)}:{port}/v1")


@pytest.mark.parametrize(
    "host",
    ["localhost", "x.localhost", "nas.local", "db.internal", "box", "10.0.0.1", "127.0.0.1", "0.0", "192.168.0.1",
     "172.31.0.1", "100.64.0.1", "[::1]", "[::]", "[fd12::1]", "[fe80::1]", "[fec0::1]", "198.18.0.1"],
)  # fmt: skip
def test_public_only(host):
    """With `public_only`, nothing of the own machine and the local network is left; without, all of it is."""
    assert is_refused(f"http://{host}/", PUBLIC_ONLY)
    assert not is_refused(f"http://{host}/")
    assert not is_refused("https://8.8.8.8/", PUBLIC_ONLY)
    assert not is_refused("https://example.com/", PUBLIC_ONLY)


def test_credentials_over_http():
    """A credential goes over http to private and loopback addresses alone; over https anywhere."""
    for host in ("127.0.0.1", "10.1.2.3", "[::1]", "[fd12::1]", "100.64.0.1"):
        assert not is_refused(f"http://{host}/", WITH_SECRET)
    for host in ("8.8.8.8", "[2606:4700::1111]", "0x08080808", "[::ffff:8.8.8.8]"):
        assert is_refused(f"http://{host}/", WITH_SECRET)
        assert not is_refused(f"https://{host}/", WITH_SECRET)
        assert not is_refused(f"http://{host}/")


def looked_up(monkeypatch, url, *addresses, policy=None):
    """The addresses of an endpoint whose name is answered with these."""
    asked = []

    async def getaddrinfo(loop, host, port, **options):
        asked.append((host, port))
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
    try:
        return asyncio.run(resolve(check_url(url), policy)), asked
    except EndpointError as error:
        return str(error), asked


def test_all_answers_are_checked(monkeypatch):
    """A name is looked up once; one answer that is not allowed refuses the name; the order is kept."""
    url, asked = "http://models.example:8000/v1", [("models.example", 8000)]
    found = ("93.184.215.14", "10.0.0.7")
    assert looked_up(monkeypatch, url, *found, found[0]) == (found, asked)
    assert looked_up(monkeypatch, url, *found, policy=PUBLIC_ONLY) == (REFUSED, asked)
    assert looked_up(monkeypatch, url, *found, policy=WITH_SECRET) == (REFUSED, asked)
    assert looked_up(monkeypatch, url, found[1], policy=WITH_SECRET) == (found[1:], asked)
    for bad in ("169.254.169.254", "::ffff:a9fe:a9fe", "fd00:ec2::254", "224.0.0.1", "nonsense"):
        assert looked_up(monkeypatch, url, found[0], bad) == (REFUSED, asked)


def test_an_address_is_not_looked_up(monkeypatch):
    """Nobody is asked about what is an address already."""
    assert looked_up(monkeypatch, "http://0x7f.1:8000") == (("127.0.0.1",), [])
    assert looked_up(monkeypatch, "https://127.0.0.1", policy=PUBLIC_ONLY) == (REFUSED, [])


def test_an_unknown_name_is_an_error_of_the_system(monkeypatch):
    """It may be known another time, so it is not refused."""
    with pytest.raises(OSError, match="unknown"):
        looked_up(monkeypatch, "http://models.example")


def test_no_answer_is_refused():
    """No address is none to connect to."""
    with pytest.raises(EndpointError):
        check_addresses([])


def test_the_import_is_light():
    """Whoever imports the module has neither sockets nor URLs nor addresses loaded by it."""
    code = (
        "import sys, memspine.errors, attrs; before = set(sys.modules); import memspine.outbound;"
        "print({'socket', 'ipaddress', 'asyncio', 'urllib.parse', 'unicodedata'} & set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
