"""The memories of one store in another: copied once, or kept the same from then on."""

from __future__ import annotations

from memspine.replication.copying import Copy, CopyReport
from memspine.replication.places import opened_backends
from memspine.replication.verifying import Differing, VerifyReport, verify

__all__ = ["Copy", "CopyReport", "Differing", "VerifyReport", "opened_backends", "verify"]
