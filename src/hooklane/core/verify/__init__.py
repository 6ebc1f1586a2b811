"""Which provider sent this, and what does it say? Pure: the clock, the secrets and the certificates are handed in."""
