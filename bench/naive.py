"""The design that most begin with: FastAPI, SQLAlchemy, one row at a time, aiohttp. For comparison, not for use.

`python -m bench.naive DB_URL PORT SINK_URL`. It keeps what it must to be compared: the event is committed before the
202, deliveries are signed, order per key is kept (one after the other), and the outcome is committed before the next.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import sys
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy import ForeignKey, Index, create_engine, event, func, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

SECRET = b"a secret of thirty-two bytes...."


class Base(DeclarativeBase):
    pass


class Event(Base):
    __tablename__ = "event"
    n: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(unique=True)
    type: Mapped[str]
    key: Mapped[str]
    seq: Mapped[int]
    data: Mapped[str]
    state: Mapped[str] = mapped_column(default="queued")
    attempts: Mapped[int] = mapped_column(default=0)
    __table_args__ = (Index("event_for_key", "key", "seq", unique=True), Index("event_owed", "state", "n"))


class Attempt(Base):
    __tablename__ = "attempt"
    n: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    event_n: Mapped[int] = mapped_column(ForeignKey("event.n"))
    status: Mapped[int]
    took_ms: Mapped[float]


class Body(BaseModel):
    type: str
    key: str
    data: Any


def build(db: str, sink: str) -> FastAPI:
    engine = create_engine(db)
    if db.startswith("sqlite"):

        @event.listens_for(engine, "connect")
        def _durable(conn: Any, _record: Any) -> None:
            conn.execute("PRAGMA journal_mode = WAL")
            conn.execute("PRAGMA synchronous = FULL")
            conn.execute("PRAGMA busy_timeout = 30000")

    Base.metadata.create_all(engine)
    one_at_a_time = asyncio.Lock()  # or two requests of one key would get the same seq

    def store(body: Body) -> Event:
        with Session(engine, expire_on_commit=False) as session:
            last = session.scalar(select(func.max(Event.seq)).where(Event.key == body.key)) or 0
            row = Event(
                id=f"evt_{uuid.uuid4().hex}", type=body.type, key=body.key, seq=last + 1, data=json.dumps(body.data)
            )
            session.add(row)
            session.commit()
            return row

    def next_owed() -> Event | None:
        with Session(engine, expire_on_commit=False) as session:
            return session.scalar(select(Event).where(Event.state == "queued").order_by(Event.n).limit(1))

    def settle(row: Event, status: int, took_ms: float) -> None:
        with Session(engine) as session:
            found = session.get_one(Event, row.n)
            found.attempts += 1
            if 200 <= status < 300:
                found.state = "delivered"
            session.add(Attempt(event_n=row.n, status=status, took_ms=took_ms))
            session.commit()

    async def deliver() -> None:
        async with aiohttp.ClientSession() as client:
            while True:
                row = await asyncio.to_thread(next_owed)
                if row is None:
                    await asyncio.sleep(0.01)
                    continue
                data = json.dumps({"id": row.id, "type": row.type, "key": row.key, "data": json.loads(row.data)})
                began, at = time.perf_counter(), int(time.time())
                mac = hmac.new(SECRET, f"{row.id}.{at}.{data}".encode(), hashlib.sha256).digest()
                headers = {
                    "webhook-id": row.id,
                    "webhook-timestamp": str(at),
                    "webhook-signature": "v1," + base64.b64encode(mac).decode(),
                    "X-Key": row.key,
                    "X-Seq": str(row.seq),
                    "content-type": "application/json",
                }
                async with client.post(sink, data=data, headers=headers) as answer:
                    await answer.read()
                await asyncio.to_thread(settle, row, answer.status, (time.perf_counter() - began) * 1000)

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        delivering = asyncio.create_task(deliver())
        yield
        delivering.cancel()

    app = FastAPI(lifespan=lifespan)

    @app.post("/api/v1/events", status_code=202)
    async def publish(body: Body) -> dict[str, Any]:
        async with one_at_a_time:
            row = await asyncio.to_thread(store, body)
        return {"id": row.id, "type": row.type, "key": row.key, "seq": row.seq}

    @app.get("/readyz")
    async def ready() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/api/v1/overview")
    async def overview() -> dict[str, Any]:
        def counts() -> dict[str, int]:
            with Session(engine) as session:
                return dict(session.execute(select(Event.state, func.count()).group_by(Event.state)).tuples().all())

        found = await asyncio.to_thread(counts)
        queued, delivered = found.get("queued", 0), found.get("delivered", 0)
        owed = {"queued": queued, "in_flight": 0, "retrying": 0}
        return {"ledger": {**owed, "delivered": delivered, "accepted": queued + delivered}}

    return app


if __name__ == "__main__":
    uvicorn.run(build(sys.argv[1], sys.argv[3]), port=int(sys.argv[2]), log_level="warning", access_log=False)
