"""What keeps the files of a model from being had."""

from __future__ import annotations

from memspine.errors import ModelError


class ModelFilesError(ModelError):
    """Files of a model cannot be named, reached or used."""


class InterruptedFetch(Exception):
    """A transfer ended early for a reason that may pass; what came is kept, and the rest can be asked for."""
