"""The tests of `core/contract/injector.md`."""
