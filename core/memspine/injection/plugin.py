"""The injectors that come with the kernel, registered like anyone else's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from memspine.contracts import Injector, Provider
from memspine.hookspecs import hookimpl
from memspine.injection.openai_chat import OpenAIChatConfig


@hookimpl
def memspine_injectors() -> Iterable[Provider[Injector, Any]]:
    """Shapes that the kernel brings."""
    return [
        Provider(
            name="openai.chat",
            config_type=OpenAIChatConfig,
            open="memspine.injection.openai_chat:open_injector",
            summary="requests of OpenAI's chat completions, and of all services that speak the same",
        )
    ]
