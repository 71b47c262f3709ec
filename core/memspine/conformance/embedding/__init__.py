"""The tests of `core/contract/embedding.md`."""
