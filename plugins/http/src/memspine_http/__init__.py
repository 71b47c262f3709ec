"""Any REST memory service as a backend of memspine."""
