"""The questions at the end of the pages of docs/reference/ that the code writes: two each, with the answers folded."""

from __future__ import annotations

QUESTIONS: dict[str, tuple[tuple[str, str], ...]] = {
    "cli": (
        (
            "A script calls <code>hooklane dlq skip</code> and gets exit code 4. Was something skipped?",
            "No. 4 means refused, or changed since the plan was made: nothing was done.",
        ),
        (
            "How does a program read what a command prints?",
            "With `--json`: one object, or one a line, with `v` as the version of its shape. Talk goes to stderr.",
        ),
    ),
    "settings": (
        (
            "<code>hooklane.toml</code> says port 9000, <code>HOOKLANE_PORT</code> says 9001 and the command says"
            " <code>--port 9002</code>. Which one is it?",
            "9002: flag, then environment, then file, then default. `hooklane config show --origin` tells which.",
        ),
        (
            "How does a container get the API key without having it in its environment?",
            "By `HOOKLANE_API_KEY_FILE`: the content of that file is the value.",
        ),
    ),
    "http-api": (
        (
            "A publish is answered 503 <code>unknown_outcome</code>. What does the caller do?",
            "Send it again with the same `Idempotency-Key` or `id`: it counts once, whichever of the two was stored.",
        ),
        (
            "A search answers no items and a <code>next</code>. Is it over?",
            "No. A page ends early when it has looked at enough; go on with `cursor` until `next` is null.",
        ),
    ),
    "python-api": (
        (
            "A name is not on this page. May you import it?",
            "You may, but it can change in any version. What is on this page [stays](stability.md).",
        ),
        (
            "When must the result of <code>outbox.publish(…, tx=conn)</code> be awaited?",
            "When `conn` is of an async driver. A publish that was not awaited warns.",
        ),
    ),
    "errors": (
        (
            "Which part of a problem may a program rely on?",
            "`code` and `number`, which keep their meaning, and `status`. `title` and `detail` are for people.",
        ),
        (
            "The command line prints <code>HL022</code>. Where do you look?",
            "On this page: each number has what has happened, and what to do.",
        ),
    ),
}


def section(page: str) -> str:
    """The last part of *page*."""
    asked = "\n".join(
        f'<details markdown="1"><summary>{question}</summary>\n\n{answer}\n\n</details>'
        for question, answer in QUESTIONS[page]
    )
    return f"\n## Check yourself\n\n{asked}\n"
