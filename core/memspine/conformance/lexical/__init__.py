"""The tests of capability `lexical`, whoever keeps the keyword index: a backend, or a vector store for one."""
