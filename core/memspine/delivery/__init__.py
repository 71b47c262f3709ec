"""What a chain owes, given to those it owes it: writes to its primary, states and purges to its replicas."""

from __future__ import annotations

from memspine.delivery.debts import Debts
from memspine.delivery.mending import adopt, drop, retry
from memspine.delivery.reconciling import Reconciling
from memspine.delivery.standing import chain_status

__all__ = ["Debts", "Reconciling", "adopt", "chain_status", "drop", "retry"]
