"""Where a service has which call, and what its parameters are called; what an option names wins over its preset."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import attrs

METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
NAMES_IN_PATHS: Final = ("id", "owner")
PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")

PLAIN_ENDPOINTS: Final[Mapping[str, str]] = {
    "health": "GET /health",
    "create": "POST /memories",
    "get": "GET /memories/{id}",
    "update": "PATCH /memories/{id}",
    "delete": "DELETE /memories/{id}",
    "list": "GET /memories",
    "search": "GET /memories/search",
}
ENDPOINTS: Final[Mapping[str, str]] = {
    **PLAIN_ENDPOINTS,
    "capabilities": "GET /capabilities",
    "put": "PUT /memories/{id}",
    "put_many": "PUT /memories",
    "accesses": "POST /accesses",
    "expire": "POST /expire",
    "changes": "GET /changes",
    "trim_changes": "POST /changes/trim",
    "tombstones": "POST /tombstones",
    "history": "GET /memories/{id}/history",
    "trim_history": "POST /history/trim",
    "purge": "POST /purge",
}
QUERY_NAMES: Final = (
    "apiKeyId",
    "cursor",
    "includeExpired",
    "key",
    "limit",
    "offset",
    "orderBy",
    "orderDir",
    "query",
    "sessionId",
    "type",
)
BEYOND_PLAIN: Final = ("key", "includeExpired")
"""Parameters of a list that the plain protocol does not know."""


@attrs.frozen(kw_only=True)
class Preset:
    """What a kind of service has. `is_plain` says that it takes nothing beyond the plain protocol: it is neither asked
    for capabilities nor sent ids, times and revisions of ours."""

    endpoints: Mapping[str, str] = ENDPOINTS
    query_names: Mapping[str, str] = attrs.field(factory=dict)
    is_plain: bool = False


PRESETS: Final[Mapping[str, Preset]] = {
    "memspine": Preset(),
    "generic": Preset(query_names=dict.fromkeys(BEYOND_PLAIN, ""), is_plain=True),
    "omniroute": Preset(
        endpoints={
            **ENDPOINTS,
            "health": "",  # its own writes a memory each time
            "create": "POST /api/memory",
            "get": "GET /api/memory/{id}",
            "update": "PUT /api/memory/{id}",
            "delete": "DELETE /api/memory/{id}",
            "list": "GET /api/memory",
            "search": "",
        },
        query_names={**dict.fromkeys(BEYOND_PLAIN, ""), "orderBy": "", "orderDir": ""},
        is_plain=True,
    ),
}


def split_endpoint(value: str, usual: str) -> tuple[str, str]:
    """Method and path of an endpoint; one without a method has that of the usual one."""
    method, blank, path = value.partition(" ")
    return (method, path.strip()) if blank else (usual.partition(" ")[0], value)
