"""The tests of `core/contract/importer.md`."""
