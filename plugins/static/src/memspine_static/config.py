"""The options of the source, and the folder of its model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import attrs

from memspine.contracts import Context

SHIPPED: Final = "memspine-static-1"
"""The name of the model inside the package."""
WINDOW_TOKENS: Final = 256
"""How much of a text one vector stands for unless the configuration says otherwise: measured, see the README."""


def _check_folder(_: object, attribute: attrs.Attribute[Any], value: str | None) -> None:
    """Raise ValueError for what no folder can be called."""
    if value is not None and (not value.strip() or "\0" in value):
        raise ValueError(f"'{attribute.name}' must be the path of a folder: {value!r}")


@attrs.frozen(kw_only=True)
class StaticConfig:
    """The options of a static embedding source."""

    folder: str | None = attrs.field(
        default=None,
        validator=_check_folder,
        metadata={
            "help": "A model as model2vec saves it (`model.safetensors`, `tokenizer.json`); none: the model of the "
            "package. `~` is the home folder, a relative path starts at the configuration's folder."
        },
    )
    window_tokens: int = attrs.field(
        default=WINDOW_TOKENS,
        validator=attrs.validators.ge(0),
        metadata={"help": "Longer texts are cut into chunks of so many tokens, each with its own vector; 0: never."},
    )


def model_folder(config: StaticConfig, context: Context) -> tuple[Path, str]:
    """Where the model is, and its name. Touches no file."""
    if config.folder is None:
        return Path(__file__).parent / "model", SHIPPED
    folder = context.config_folder / Path(config.folder).expanduser()
    return folder, folder.name
