"""The tests of `core/contract/backend.md`."""
