"""Recall: by words, by meaning, by both; reranked, within a budget, with a trace."""

from memspine.retrieval.own import UNRANKED
from memspine.retrieval.recall import NO_VECTORS, Retrieval
from memspine.retrieval.request import Method, RankingRules, RecallRequest, Strategy
from memspine.retrieval.reranking import Reranking

__all__ = ["NO_VECTORS", "UNRANKED", "Method", "RankingRules", "RecallRequest", "Reranking", "Retrieval", "Strategy"]
