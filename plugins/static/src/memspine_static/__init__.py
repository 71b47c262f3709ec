"""The static embedding source of memspine: vectors from a table of token vectors, shipped or in a folder."""
