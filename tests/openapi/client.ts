// A program that uses the types that openapi-typescript generated from openapi.json. It only has to compile.
import createClient from "openapi-fetch";
import type { components, paths } from "./api";

type Schemas = components["schemas"];

const client = createClient<paths>({ baseUrl: "http://127.0.0.1:9090", headers: { Authorization: "Bearer token" } });

// Variants are identified by their tag.
export function answered(entry: Schemas["LedgerEntry"]): string {
  switch (entry.what) {
    case "received":
      return `${entry.at_ms} ${entry.body_bytes_n ?? 0}`;
    case "attempt":
      return entry.attempt.result ?? "under way";
    case "effect":
      return entry.message.message_id;
    default:
      return entry.what;
  }
}

// Every code has a text, and no other has.
export const texts: Partial<Record<Schemas["ProblemCode"], string>> = {
  idempotency_key_reused: "use a new key",
  not_found: "look elsewhere",
};

const order: Schemas["OperationOrder"] = {
  subject: { messages: { act: "send", filter: { state: "dead", destination: "billing" } } },
  counted_n: 1,
  set: "5d41402abc4b2a76",
  reason: "they are back",
};

export async function all(): Promise<void> {
  const events = await client.GET("/v1/events", { params: { query: { state: "failed", limit: 10 } } });
  const page: Schemas["EventPage"] | undefined = events.data;
  const first = page?.items[0];
  if (events.error) throw new Error(`${events.error.code}: ${events.error.detail}`);
  if (!first) return;
  const path = { provider: first.provider, event_id: first.event_id };
  const ledger = await client.GET("/v1/events/{provider}/{event_id}", { params: { path } });
  ledger.data?.entries.map(answered);
  await client.POST("/v1/events/{provider}/{event_id}/decide", {
    params: { path, header: { "Idempotency-Key": "k", "If-Match": "*" } },
    body: { act: "rerun", reason: "again" },
  });
  await client.POST("/v1/operations", { params: { header: { "Idempotency-Key": "k" } }, body: order });
  // @ts-expect-error an event's act is none of a message
  await client.POST("/v1/messages/{message_id}/decide", { params: { path: { message_id: "1" }, header: { "Idempotency-Key": "k" } }, body: { act: "rerun", reason: "r" } });
}
