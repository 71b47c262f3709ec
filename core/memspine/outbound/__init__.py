"""What a plugin needs to ask a service, whatever its client is: where it may connect to, what it shows, what it reads,
and which services the work has passed.

A URL comes from a configuration that somebody else may have written, and a name of the Internet may lead anywhere. So
the addresses of cloud metadata services, which hand out credentials to whoever asks, are refused in every spelling.
Private and loopback addresses are allowed, because local models run there, unless the policy says otherwise.

A plugin calls `check_url` when it reads its options, and connects through `CheckedAddresses` (or to what `resolve` gave
just before), never to the name, since a second look-up may be answered differently.
"""

from memspine.outbound.answers import RETRY_AFTER_SECONDS_MAX, AnswerError, parse_json, retry_after, unpacked
from memspine.outbound.credentials import CredentialError, Revealed, check_headers, reveal
from memspine.outbound.endpoints import (
    REFUSED,
    Endpoint,
    EndpointError,
    OutboundPolicy,
    check_addresses,
    check_url,
    is_metadata,
    is_public,
    resolve,
)
from memspine.outbound.passing import VIA_HEADER, passing, read_via, via
from memspine.outbound.reaching import CheckedAddresses

__all__ = [
    "REFUSED",
    "RETRY_AFTER_SECONDS_MAX",
    "VIA_HEADER",
    "AnswerError",
    "CheckedAddresses",
    "CredentialError",
    "Endpoint",
    "EndpointError",
    "OutboundPolicy",
    "Revealed",
    "check_addresses",
    "check_headers",
    "check_url",
    "is_metadata",
    "is_public",
    "parse_json",
    "passing",
    "read_via",
    "resolve",
    "retry_after",
    "reveal",
    "unpacked",
    "via",
]
