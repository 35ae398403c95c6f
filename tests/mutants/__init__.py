"""Mutants of true documents, and what becomes of them at the gate; run by ``python -m tests.mutate_claims``."""
