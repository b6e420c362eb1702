// A webhook endpoint as a careful team writes it with Express and pg: the signature is verified in constant time over the
// raw body, then one transaction for each request has the latch and one outbox row. `benches/admit` loads it; the tables
// are there. Environment: DATABASE, SECRET, PORT, WORKERS_N, CONNECTIONS_N (of each worker's pool).
import cluster from "node:cluster";
import { createHmac, randomUUID, timingSafeEqual } from "node:crypto";
import express from "express";
import pg from "pg";

const { DATABASE, SECRET } = process.env;
const [port, workersN, connectionsN] = ["PORT", "WORKERS_N", "CONNECTIONS_N"].map((name) => Number(process.env[name]));
const TOLERANCE_S = 300;
const LATCH = `INSERT INTO processed_webhook_events (provider, event_id, type, received_at_ms, payload)
  VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`;
const OUTBOX = `INSERT INTO outbox (id, provider, event_id, type, state, attempts, created_at_ms)
  VALUES ($1, $2, $3, $4, 'ready', 0, $5)`;

if (cluster.isPrimary) {
  for (let n = 0; n < workersN; n++) cluster.fork();
} else {
  serve();
}

function isSigned(header, body) {
  const parts = Object.fromEntries((header ?? "").split(",").map((part) => part.split("=", 2)));
  const signedAt = Number(parts.t);
  if (!Number.isInteger(signedAt) || Math.abs(Date.now() / 1000 - signedAt) > TOLERANCE_S) return false;
  const expected = createHmac("sha256", SECRET).update(`${parts.t}.`).update(body).digest();
  const given = Buffer.from(parts.v1 ?? "", "hex");
  return given.length === expected.length && timingSafeEqual(given, expected);
}

function serve() {
  const pool = new pg.Pool({ connectionString: DATABASE, max: connectionsN });
  pool.on("error", () => {});
  const app = express();
  app.disable("x-powered-by");
  app.disable("etag");
  app.post("/webhooks/stripe", express.raw({ type: "*/*", limit: "1mb" }), async (request, response) => {
    const body = request.body;
    if (!isSigned(request.get("stripe-signature"), body)) return response.status(401).end();
    let event;
    try {
      event = JSON.parse(body.toString("utf8"));
    } catch {
      return response.status(400).end();
    }
    try {
      await store(pool, event, body);
    } catch {
      return response.status(503).end();
    }
    response.status(200).end();
  });
  app.listen(port, "127.0.0.1");
}

async function store(pool, event, body) {
  const client = await pool.connect();
  let error;
  try {
    const nowMs = Date.now();
    await client.query("BEGIN");
    const values = ["stripe", event.id, event.type, nowMs, body];
    const latched = await client.query({ name: "latch", text: LATCH, values });
    if (latched.rowCount === 1) {
      const values = [randomUUID(), "stripe", event.id, event.type, nowMs];
      await client.query({ name: "outbox", text: OUTBOX, values });
    }
    await client.query("COMMIT");
  } catch (why) {
    error = why;
    throw why;
  } finally {
    // A connection whose transaction failed is closed rather than given back.
    client.release(error);
  }
}
