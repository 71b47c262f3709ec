"""Placing memories into chat requests: the block (pure), and one injector for each request shape."""

from __future__ import annotations

from memspine.injection.block import Block, Fence, render_block

__all__ = ["Block", "Fence", "render_block"]
