"""The SQLite backend of memspine: memories, their history and their keyword index in one file."""
