"""Readers of what other products export, for `memspine import`."""
