"""The memories of one store in another: copied once (`memspine.replication.copying`), or kept the same from then on."""

from __future__ import annotations

from memspine.replication.deliveries import Deliveries
from memspine.replication.mending import adopt, drop, retry
from memspine.replication.places import opened_backends
from memspine.replication.reconciling import Reconciling
from memspine.replication.standing import chain_status
from memspine.replication.verifying import VerifyReport, verify

__all__ = [
    "Deliveries", "Reconciling", "VerifyReport", "adopt", "chain_status", "drop", "opened_backends", "retry", "verify",
]  # fmt: skip
