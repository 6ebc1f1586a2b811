"""The statements of `hooklane migrate copy`, which reads a SQLite file and fills a PostgreSQL."""
