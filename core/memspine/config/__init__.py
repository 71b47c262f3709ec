"""The configuration: one TOML file to checked, frozen settings, every problem at once with file, line and key."""

from __future__ import annotations

from memspine.config.edit import Change, set_value, unset_value
from memspine.config.load import (
    check_secrets,
    check_source,
    config_from_mapping,
    find_config,
    find_data_folder,
    load_config,
    user_config_file,
)
from memspine.config.schema import (
    BackendSettings,
    Config,
    ConfigSource,
    InjectionSettings,
    MaintenanceSettings,
    MemorySettings,
    RetrievalSettings,
)
from memspine.config.secrets import SecretRef, redacted
from memspine.config.show import Setting, effective_settings

__all__ = [
    "BackendSettings",
    "Change",
    "Config",
    "ConfigSource",
    "InjectionSettings",
    "MaintenanceSettings",
    "MemorySettings",
    "RetrievalSettings",
    "SecretRef",
    "Setting",
    "check_secrets",
    "check_source",
    "config_from_mapping",
    "effective_settings",
    "find_config",
    "find_data_folder",
    "load_config",
    "redacted",
    "set_value",
    "unset_value",
    "user_config_file",
]
