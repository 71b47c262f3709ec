"""Small implementations of the contracts, obviously right: what the kit itself is tested with."""
