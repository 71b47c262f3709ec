"""Look for anything that is wrong: versions, plugins, configuration, rights of files, every store in depth, vectors.

The embedding source, if there is one, is asked for one vector. Exit code 3 when the configuration or a plugin that it
names cannot be used, 7 when a store does not work, else 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memspine.cli.codes import Exit

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from memspine.cli.checkup import About, Look
    from memspine.cli.output import Output
    from memspine.config import Config
    from memspine.model import Health


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command: there are none."""


def run(options: argparse.Namespace, out: Output) -> int:
    """Look, and tell."""
    import asyncio

    from memspine.cli import checkup
    from memspine.cli.opening import load
    from memspine.config import check_secrets
    from memspine.errors import ConfigError
    from memspine.plugins import Plugins

    registry = Plugins()
    config: Config | None = None
    try:
        config = load(options, out, registry)
        problems = check_secrets(config)
    except ConfigError as error:
        problems = error.problems
    findings = [*checkup.plugin_findings(registry), *checkup.problem_findings(problems)]
    look: Look | None = None
    if config is not None:
        findings += checkup.file_findings(config)
        look = asyncio.run(checkup.look(config, registry))
        findings += [*checkup.health_findings(look.healths), *checkup.engine_findings(look)]
    healths = {} if look is None else look.healths
    code = Exit.CONFIG if problems else Exit.OK if look is None or look.works else Exit.UNAVAILABLE
    facts = {"versions": checkup.versions(registry), "configuration": None if config is None else config.source.name}
    if out.json:
        _answer(facts, healths, findings, out, ok=code is Exit.OK)
    else:
        _tell(facts, healths, findings, out)
    return code


def _answer(
    facts: dict[str, Any], healths: Mapping[str, Health], findings: list[About], out: Output, *, ok: bool
) -> None:
    from memspine.cli.healths import finding_to_wire, health_to_wire

    out.data(
        {
            "ok": ok,
            **facts,
            "backends": {name: health_to_wire(health) for name, health in healths.items()},
            "findings": [finding_to_wire(finding, about=about) for about, finding in findings],
        }
    )


def _tell(facts: dict[str, Any], healths: Mapping[str, Health], findings: list[About], out: Output) -> None:
    rows = [("version", name, version) for name, version in facts["versions"].items()]
    rows.append(("configuration", "-", facts["configuration"] or "cannot be used"))
    for name, health in healths.items():
        rows.append(("store", name, "works" if health.ok else f"does not work: {health.detail}"))
        rows += [(f"store {name}", fact, value) for fact, value in health.facts.items()]
    for about, finding in findings:
        rows.append((finding.level, about, f"{finding.text}; {finding.advice}" if finding.advice else finding.text))
    out.table(("what", "name", "value"), rows)
    serious = sum(finding.level != "info" for _, finding in findings)
    out.remark(f"{serious} findings to look at" if serious else "nothing wrong found")
