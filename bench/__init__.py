"""Benchmarks: what hooklane costs, with correctness checked in the same run."""
