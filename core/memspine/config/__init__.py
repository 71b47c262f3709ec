"""The configuration: one TOML file to checked, frozen settings, every problem at once with file, line and key."""

from __future__ import annotations

from memspine.config.edit import Change, set_value, unset_value
from memspine.config.identity import StoreIdentity
from memspine.config.instances import source_from_mapping
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
    EmbeddingSettings,
    InjectionSettings,
    InstanceSettings,
    JournalSettings,
    MaintenanceSettings,
    MemorySettings,
    RerankerSettings,
    RerankSettings,
    RetrievalSettings,
    SourceSettings,
    StoreSettings,
    VectorSettings,
)
from memspine.config.secrets import SecretRef, redacted
from memspine.config.show import Setting, effective_settings
from memspine.config.stores import vector_store

__all__ = [
    "BackendSettings",
    "Change",
    "Config",
    "ConfigSource",
    "EmbeddingSettings",
    "InjectionSettings",
    "InstanceSettings",
    "JournalSettings",
    "MaintenanceSettings",
    "MemorySettings",
    "RerankSettings",
    "RerankerSettings",
    "RetrievalSettings",
    "SecretRef",
    "Setting",
    "SourceSettings",
    "StoreIdentity",
    "StoreSettings",
    "VectorSettings",
    "check_secrets",
    "check_source",
    "config_from_mapping",
    "effective_settings",
    "find_config",
    "find_data_folder",
    "load_config",
    "redacted",
    "set_value",
    "source_from_mapping",
    "unset_value",
    "user_config_file",
    "vector_store",
]
