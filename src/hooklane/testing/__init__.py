"""Simulator, invariants, conformance suites and the pytest plugin: shipped to users, imported by nothing else."""
