"""How many webhooks a second do four gunicorn workers take over HTTP, beside the same application that only answers?

    python -m bench.receiver_http [--seconds 3] [--rounds 3] [--only flask-sqlite-inline …]

Requests are signed before; wrk sends them over kept-alive connections, each with an id of its own. Inline the handler
writes a row of its own in the same transaction (on Redis it does nothing). *alone* is the same framework under the same
four workers, with a route that reads the body and gives the same answer. Each variant and the framework alone take
turns. At the end each answer must have its effect, and no id may have two.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from bench import inbox, nginx, stores, wrk
from bench.machine import Cost, cost_of, described, free_port, load_average, require_tools, scratch
from hooklane.receiver import Inbox

WORKERS, THREADS, CONNECTIONS = 4, 4, 16
VARIANTS = (
    *("flask-sqlite-inline", "flask-sqlite-durable", "flask-postgres-inline", "flask-postgres-durable"),
    *("flask-redis-inline", "fastapi-sqlite-inline", "fastapi-postgres-durable"),
)
ALONE = "alone"
KINDS = {
    "flask": ["--worker-class", "gthread", "--threads", str(THREADS)],
    "fastapi": ["--worker-class", "uvicorn.workers.UvicornWorker"],
}
REQUESTS = Path(__file__).with_name("requests.lua")
_ids = count(1)


# The application, in the processes that gunicorn starts


def app() -> Any:
    """What gunicorn runs: `bench.receiver_http:app()`."""
    box = None if os.environ["BENCH_MODE"] == ALONE else _inbox(os.environ["BENCH_DB"], os.environ["BENCH_MODE"])
    return _flask(box) if os.environ["BENCH_FRAMEWORK"] == "flask" else _fastapi(box)


def _inbox(db: str, mode: Any) -> Inbox:
    box = Inbox(db, mode)
    mark = "?" if db.startswith("sqlite") else "%s"

    def handler(event: Any, tx: Any) -> None:
        if not db.startswith("redis"):
            tx.execute(f"INSERT INTO orders VALUES ({mark})", (event.id,))

    box.source("hooklane", [inbox.SECRET]).on("order.*")(handler)
    return box


def _flask(box: Inbox | None) -> Any:
    from flask import Flask, Response, request

    import hooklane.flask

    made = Flask(__name__)
    if box is not None:
        made.register_blueprint(hooklane.flask.blueprint(box, worker=False), url_prefix="/webhooks")
        return made

    @made.post("/webhooks/<source>")
    def only_answer(source: str) -> Response:
        request.stream.read()
        return Response(b'{"status": "ok"}', 200, [("content-type", "application/json"), ("hooklane-outcome", source)])

    return made


def _fastapi(box: Inbox | None) -> Any:
    from fastapi import FastAPI, Request, Response

    import hooklane.fastapi

    made = FastAPI()
    if box is not None:
        made.include_router(hooklane.fastapi.router(box, worker=False), prefix="/webhooks")
        return made

    async def only_answer(source: str, request: Request) -> Response:
        await request.body()
        return Response(b'{"status": "ok"}', 200, {"hooklane-outcome": source}, "application/json")

    # FastAPI reads them, and they are known only in here.
    only_answer.__annotations__.update({"request": Request, "return": Response})
    made.post("/webhooks/{source}")(only_answer)
    return made


# The load


@dataclass(frozen=True, slots=True)
class Server:
    port: int
    pid: int

    @property
    def cost(self) -> Cost:
        return cost_of(self.pid)


@contextmanager
def gunicorn(framework: str, mode: str, db: str) -> Iterator[Server]:
    port = free_port()
    command = [sys.executable, "-m", "gunicorn", "bench.receiver_http:app()", "--workers", str(WORKERS)]
    command += [*KINDS[framework], "--bind", f"127.0.0.1:{port}", "--log-level", "warning"]
    environment = {"BENCH_FRAMEWORK": framework, "BENCH_MODE": mode, "BENCH_DB": db}
    server = subprocess.Popen(command, env={**os.environ, **environment})
    try:
        nginx.wait_for(port, "gunicorn")
        yield Server(port, server.pid)
    finally:
        server.terminate()
        server.wait(30)


def ready_requests(path: Path, number: int) -> None:
    """So many requests, signed, each with an id that was never used."""
    with path.open("wb") as file:
        for _ in range(number):
            made = inbox.request(next(_ids))
            head = "".join(f"{name}: {value}\r\n" for name, value in made.headers)
            length = f"content-length: {len(made.body)}\r\n"
            file.write(f"POST /webhooks/hooklane HTTP/1.1\r\nhost: localhost\r\n{head}{length}\r\n".encode())
            file.write(made.body + b"\0")


def measure(server: Server, folder: Path, seconds: float, ahead: int) -> tuple[wrk.Load, float]:
    """The load, and the CPU µs of gunicorn and its workers for each answer."""
    ready = folder / "requests"
    ready_requests(ready, ahead)
    before = server.cost
    load = wrk.send(server.port, seconds, REQUESTS, [str(ready)], connections=CONNECTIONS)
    assert load.refused == 0, f"{load.refused} answers of {load.answers} were no 2xx"
    assert load.answers <= ahead, "the requests did not suffice: some were sent twice"
    return load, (server.cost - before).total_s / max(1, load.answers) * 1e6


def prepare(db: str) -> None:
    if db.startswith("sqlite"):
        inbox.sqlite_inbox(Path(db.removeprefix("sqlite:///"))).close()
    elif db.startswith("postgresql"):
        inbox.postgres_orders(db)
        _inbox(db, "inline").close()


def check(db: str, mode: str, answers: int) -> str:
    """What was answered is there, once."""
    box = _inbox(db, mode)
    while mode == "durable" and box.run_once(1_000):
        pass
    box.close()
    if db.startswith("redis"):
        return ""
    found, distinct = inbox.orders(db)
    assert found == distinct >= answers, f"{answers} answers, {found} effects of {distinct} ids"
    return f"{answers:,} answers, each with one effect"


def run(variant: str, store: stores.Store, folder: Path, seconds: float, rounds: int) -> None:
    framework, _, mode = variant.split("-")
    db = store.fresh()
    prepare(db)
    rates: dict[str, list[tuple[float, float, float]]] = {ALONE: [], mode: []}
    answers, ahead = 0, {ALONE: 40_000, mode: 20_000}
    with gunicorn(framework, ALONE, db) as alone, gunicorn(framework, mode, db) as ours:
        for turn in range(rounds + 1):
            for name, server in ((ALONE, alone), (mode, ours)):
                load, cpu_us = measure(server, folder, seconds if turn else 1, ahead[name])
                answers += load.answers if name == mode else 0
                if turn:  # the first one warms up
                    rates[name].append((load.rate, cpu_us, load.p99_ms))
    told = check(db, mode, answers)
    (limit, limit_us, _), (rate, cpu_us, p99_ms) = (_median(rates[name]) for name in (ALONE, mode))
    figures = f"{rate:,.0f} | {cpu_us:,.0f} | {limit:,.0f} | {limit_us:,.0f} | {rate / limit:.2f} | {p99_ms:.1f}"
    print(f"| {variant} | {figures} | {told} |", flush=True)


def _median(found: list[tuple[float, float, float]]) -> tuple[float, float, float]:
    return tuple(statistics.median(each) for each in zip(*found, strict=True))  # type: ignore[return-value]


@contextmanager
def redis(folder: Path) -> Iterator[stores.Store]:
    from tests.support.valkey import valkey_server

    numbers = count(1)
    with valkey_server() as server:
        yield stores.Store("redis", lambda: server.address.url(next(numbers)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=VARIANTS)
    options = parser.parse_args()
    require_tools()
    wanted = options.only or VARIANTS
    print(f"{described()}, load average {load_average():.1f} before; {WORKERS} workers, {CONNECTIONS} connections\n")
    print("| | webhooks/s | CPU µs | framework alone/s | CPU µs | over it | p99 ms | |")
    print("|---|--:|--:|--:|--:|--:|--:|---|", flush=True)
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        make = {"sqlite": stores.sqlite, "postgres": stores.postgres, "redis": redis}
        opened: dict[str, stores.Store] = {}
        for variant in wanted:
            kind = variant.split("-")[1]
            if kind not in opened:
                opened[kind] = stack.enter_context(make[kind](folder))
            run(variant, opened[kind], folder, options.seconds, options.rounds)


if __name__ == "__main__":
    main()
