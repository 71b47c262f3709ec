"""The tests of `core/contract/reranker.md`."""
