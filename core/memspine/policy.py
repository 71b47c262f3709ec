"""Who may act on whose memories, and what a call means where the caller left something to the configuration."""

from __future__ import annotations

from typing import Literal

from memspine import times
from memspine.config import Config
from memspine.config.schema import TOKENS_MAX
from memspine.errors import InvalidMemoryError, ScopeError
from memspine.intake import Intake
from memspine.model import GLOBAL_OWNER, MemoryFilter, Scope
from memspine.retrieval import RankingRules, RecallRequest

StrategyName = Literal["exact", "recent", "semantic", "hybrid"]


INJECTED_MAX = 1000
"""The most memories that one call may place into a request."""


class CallPolicy:
    """Turns the arguments of calls into checked scopes and requests, under one configuration.

    All methods raise InvalidMemoryError for unusable values and ScopeError for what the caller may not do.
    """

    def __init__(self, config: Config) -> None:
        self._config = config

    def owner(self, owner: str | None) -> str:
        """The owner that a call acts for."""
        return Intake().owner(self._config.memory.owner if owner is None else owner)

    def writing_scope(self, owner: str | None, *, session: str | None = None, management: bool) -> Scope:
        """The scope of a writing call. Writing for the owner whom all can read needs the management role."""
        who = self.owner(owner)
        if who == GLOBAL_OWNER and not management:
            raise ScopeError("writing", Scope.of_owner(who), "the management role, for the owner whom all can read")
        return Scope.of_owner(who) if session is None else Scope.of_session(who, Intake().session(session))

    def reading_scope(self, owner: str | None, *, session: str | None = None, shared: bool = False) -> Scope:
        """The scope of a reading call: the session's if one is named, else the owner's, shared if asked."""
        who = self.owner(owner)
        if session is not None and shared:
            raise InvalidMemoryError("shared", shared, "either a session or shared, not both")
        if session is not None:
            return Scope.of_session(who, Intake().session(session))
        return Scope.shared(who) if shared else Scope.of_owner(who)

    def listing_scope(
        self, owner: str | None, *, session: str | None, shared: bool, everyone: bool, management: bool
    ) -> Scope:
        """The scope of list and count, which alone may be everyone's, for management."""
        if not everyone:
            return self.reading_scope(owner, session=session, shared=shared)
        if owner is not None or session is not None or shared:
            raise InvalidMemoryError("everyone", everyone, "no owner, no session and not shared beside it")
        if not management:
            raise ScopeError("listing", Scope.everyone(), "the management role, or the scope of one owner")
        return Scope.everyone()

    def search_scope(self, owner: str | None, *, session: str | None, shared: bool | None) -> Scope:
        """The scope of a recall; what the caller leaves open is `[retrieval] scope`."""
        configured = self._config.retrieval.scope
        if session is None and shared is None and configured == "session":
            session = self._config.memory.session
        if shared is None:
            shared = session is None and configured == "shared"
        return self.reading_scope(owner, session=session, shared=shared)

    def recall_request(
        self,
        text: str,
        *,
        scope: Scope,
        strategy: StrategyName | None = None,
        filter: MemoryFilter | None = None,
        limit: int | None = None,
        max_tokens: int | None = None,
    ) -> RecallRequest:
        """A checked question; what the caller leaves open is in `[retrieval]`."""
        settings = self._config.retrieval
        intake = Intake()
        chosen = "exact" if strategy == "recent" else strategy or settings.strategy
        return RecallRequest(
            text=intake.question(text).strip(),
            scope=scope,
            now=times.now(),
            strategy=intake.choice("strategy", chosen, ("exact", "semantic", "hybrid")),
            filter=intake.filter(filter or MemoryFilter()),
            limit=intake.limit(settings.limit if limit is None else limit),
            max_tokens=None if max_tokens is None else self.budget(max_tokens),
            retention_days=settings.retention_days,
            keyword_floor=settings.keyword_floor,
            vector_floor=settings.vector_floor,
            native_hybrid=settings.native_hybrid,
            ranking=RankingRules(
                method=settings.fusion,
                vector_weight=settings.vector_weight,
                rrf_k=settings.rrf_k,
                context=settings.context,
            ),
            seconds=self._store_seconds(),
            vector_seconds=self._vector_seconds(),
        )

    def _store_seconds(self) -> float:
        """How long each store may take for a question."""
        return min(self._config.retrieval.deadline_seconds, self._config.memory.deadline_seconds)

    def _vector_seconds(self) -> float:
        """How long the vector of a question may take: at most half of what a store may, so that words still answer."""
        return min(self._config.embedding.deadline_seconds, self._store_seconds() / 2)

    def injected_limit(self, limit: int | None) -> int:
        """How many memories to place; what the caller leaves open is `[injection] limit`."""
        return Intake().limit(self._config.injection.limit if limit is None else limit, maximum=INJECTED_MAX)

    def budget(self, max_tokens: int | None) -> int:
        """A token budget; what the caller leaves open is `[retrieval] max_tokens`."""
        configured = self._config.retrieval.max_tokens
        return Intake().limit(configured if max_tokens is None else max_tokens, field="max_tokens", maximum=TOKENS_MAX)
