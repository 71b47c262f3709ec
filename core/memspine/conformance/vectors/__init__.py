"""The tests of `core/contract/vectors.md`."""
