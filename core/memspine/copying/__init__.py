"""The memories of any two stores: copied from one into the other (`memspine.copying.copy`), or compared."""

from __future__ import annotations

from memspine.copying.places import opened_backends
from memspine.copying.verifying import VerifyReport, verify

__all__ = ["VerifyReport", "opened_backends", "verify"]
