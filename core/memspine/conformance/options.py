"""The options of the kit. pytest loads this module in every run of everybody, so it imports nothing but on use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pytest

CONTRACTS = ("backend", "embedding", "vectors", "reranker", "injector", "importer")
"""The contracts that the kit proves."""

NAME_OPTIONS = {
    "backend": "--memspine-backend",
    "embedding": "--memspine-source",
    "vectors": "--memspine-store",
    "reranker": "--memspine-reranker",
    "injector": "--memspine-injector",
    "importer": "--memspine-importer",
}
"""The option that names the plugin, by contract."""

# The kernel has an injector, and no importer.
_DEFAULTS: Final = {"injector": "openai.chat", "importer": ""}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("memspine", "conformance of memspine plugins (pytest --pyargs memspine.conformance)")
    group.addoption("--memspine-contract", choices=CONTRACTS, help="the contract to prove")
    for contract, option in NAME_OPTIONS.items():
        default = _DEFAULTS.get(contract, "reference")
        shown = f" ({default})" if default else ""
        group.addoption(option, metavar="NAME", default=default, help=f"the {contract} under test{shown}")
    group.addoption("--memspine-config", metavar="FILE", help="a TOML file with the plugin's options")
    group.addoption("--memspine-report", metavar="FILE", help="write the verdict on each clause as JSON")
    group.addoption("--memspine-clauses", metavar="ID,ID", help="prove these clauses only")
    group.addoption(
        "--memspine-crowd", metavar="N", type=int, default=100_000, help="strangers' memories in clause MB-64 (100000)"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Start the kit, if a contract was named."""
    if config.getoption("--memspine-contract"):
        from memspine.conformance.session import KitSession

        config.pluginmanager.register(KitSession.of(config), "memspine-kit")
