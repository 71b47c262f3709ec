"""The memories of one store in another: copied once, or kept the same from then on."""

from __future__ import annotations

from memspine.replication.copying import Copy
from memspine.replication.deliveries import Deliveries, Delivering
from memspine.replication.idmap import IdMap
from memspine.replication.mending import drop, retry
from memspine.replication.places import open_journal, opened_backends
from memspine.replication.reconciling import Reconciling
from memspine.replication.reports import CopyReport, Loss, Refusal
from memspine.replication.standing import chain_status
from memspine.replication.verifying import Differing, VerifyReport, verify

__all__ = [
    "Copy", "CopyReport", "Deliveries", "Delivering", "Differing", "IdMap", "Loss", "Reconciling", "Refusal",
    "VerifyReport", "chain_status", "drop", "open_journal", "opened_backends", "retry", "verify",
]  # fmt: skip
