"""The conformance kit: what proves that a plugin keeps the contracts of memspine.

    pytest --pyargs memspine.conformance --memspine-contract backend --memspine-backend sqlite

There is nothing to subclass. `core/contract/` (in the wheel: `memspine/conformance/contract/`) holds the clauses, and
every test here cites those that it proves. Needs pytest and hypothesis: `pip install "memspine[conformance]"`.
"""
