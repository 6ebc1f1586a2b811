"""Stripe's subscriptions in FastAPI, on your own async engine of SQLAlchemy: one commit for the effect and the mark."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from sqlalchemy import Column, MetaData, String, Table, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

import hooklane.fastapi
from hooklane import Event, Inbox, latest

engine = create_async_engine(os.environ["DATABASE_URL"])  # postgresql+asyncpg://…
metadata = MetaData()
subscriptions = Table(
    "subscriptions",
    metadata,
    Column("id", String, primary_key=True),
    Column("status", String, nullable=False),
)

inbox = Inbox(engine)
stripe = inbox.source("stripe", secrets=os.environ["STRIPE_SECRETS"].split(","))  # newest first, while you rotate


# Stripe does not promise an order. The newest state of each subscription wins; an older one is kept as `stale`.
@stripe.on("customer.subscription.*", order=latest(key="data.object.id", at="created"))
async def sync(event: Event, tx: AsyncConnection) -> None:
    subscription = event.data["object"]
    row = {"id": subscription["id"], "status": subscription["status"]}
    statement = insert(subscriptions).values(row)
    await tx.execute(statement.on_conflict_do_update(index_elements=["id"], set_={"status": row["status"]}))


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
    async with engine.begin() as conn:  # in production: Alembic
        await conn.run_sync(metadata.create_all)
    yield


app = FastAPI(lifespan=lifespan)
app.include_router(hooklane.fastapi.router(inbox), prefix="/webhooks")


@app.get("/subscriptions")
async def listed() -> dict[str, Any]:
    async with engine.connect() as conn:
        return {row.id: row.status for row in await conn.execute(select(subscriptions))}
