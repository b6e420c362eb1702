"""A webhook endpoint as a careful team writes it with FastAPI and asyncpg: the signature is verified in constant time
over the raw body, then one transaction for each request has the latch and one outbox row. `benches/admit` loads it; the
tables are there. Environment: DATABASE, SECRET, CONNECTIONS_N (of each worker's pool)."""

import hashlib
import hmac
import json
import os
import time
import uuid
from contextlib import asynccontextmanager

import asyncpg
from fastapi import FastAPI, Request, Response

SECRET = os.environ["SECRET"].encode()
TOLERANCE_S = 300
LATCH = """INSERT INTO processed_webhook_events (provider, event_id, type, received_at_ms, payload)
    VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING RETURNING 1"""
OUTBOX = """INSERT INTO outbox (id, provider, event_id, type, state, attempts, created_at_ms)
    VALUES ($1, $2, $3, $4, 'ready', 0, $5)"""


@asynccontextmanager
async def lifespan(app: FastAPI):
    size = int(os.environ["CONNECTIONS_N"])
    async with asyncpg.create_pool(os.environ["DATABASE"], min_size=size, max_size=size) as pool:
        app.state.pool = pool
        yield


app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)


def is_signed(header: str, body: bytes) -> bool:
    parts = dict(part.split("=", 1) for part in header.split(",") if "=" in part)
    signed_at, signature = parts.get("t", ""), parts.get("v1", "")
    if not signed_at.isdigit() or abs(time.time() - int(signed_at)) > TOLERANCE_S:
        return False
    expected = hmac.new(SECRET, signed_at.encode() + b"." + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), signature.encode())


@app.post("/webhooks/stripe")
async def receive(request: Request) -> Response:
    body = await request.body()
    if not is_signed(request.headers.get("stripe-signature", ""), body):
        return Response(status_code=401)
    try:
        event = json.loads(body)
        event_id, event_type = event["id"], event["type"]
    except (ValueError, KeyError, TypeError):
        return Response(status_code=400)
    now_ms = time.time_ns() // 1_000_000
    try:
        async with request.app.state.pool.acquire() as db, db.transaction():
            if await db.fetchval(LATCH, "stripe", event_id, event_type, now_ms, body):
                await db.execute(OUTBOX, str(uuid.uuid4()), "stripe", event_id, event_type, now_ms)
    except (asyncpg.PostgresError, OSError):
        return Response(status_code=503)
    return Response(status_code=200)
