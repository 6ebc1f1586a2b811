"""Webhooks that arrive in order, count once, and never vanish: sender and receiver."""

__version__ = "0.1.0"
