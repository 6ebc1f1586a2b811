"""The pytest plugin: what a user's tests get by installing hooklane."""
