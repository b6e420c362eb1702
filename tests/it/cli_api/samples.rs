//! An answer for every route of the contract, with one text wherever a text of strangers may be.

use serde_json::{Value, json};

use super::server::{ReceivedRequest, Says};

/// 2026-11-22T14:05:11.500Z: when everything of the samples happened.
pub(super) const AT_MS: i64 = 1_795_356_311_500;

pub(super) fn event(text: &str) -> Value {
    json!({
        "provider": "stripe", "event_id": text, "type": text, "state": "failed", "object": text, "version": 3,
        "identity": "sender/1", "received_at_ms": AT_MS, "created_at_ms": AT_MS, "processed_at_ms": AT_MS,
        "due_at_ms": null, "attempts_n": 2, "generation": 1, "copies_n": 1, "error": text,
        "delivery": {
            "state": "dead", "messages_n": 3, "delivered_n": 1, "open_n": 1, "held_n": 0, "dead_n": 1, "discarded_n": 0,
            "unsent_n": 1, "sent_n": 2, "error": text,
        },
    })
}

pub(super) fn message(text: &str, state: &str) -> Value {
    json!({
        "message_id": "5123", "provider": "stripe", "event_id": text, "type": text, "effect_name": text,
        "idempotency_key": text, "destination": "billing", "state": state, "lane": text, "attempts_n": 2,
        "generation": 0, "visible_at_ms": AT_MS, "created_at_ms": AT_MS, "first_sent_at_ms": AT_MS,
        "key_valid_until_ms": AT_MS, "finished_at_ms": null, "last_result": "unknown", "last_error": text,
    })
}

fn attempt(text: &str) -> Value {
    json!({
        "attempt_n": 1, "node": text, "started_at_ms": AT_MS, "finished_at_ms": AT_MS + 120, "result": "unknown",
        "http_status": 504, "error": text, "response": text,
    })
}

fn decision(text: &str) -> Value {
    json!({
        "audit_seq": 7, "at_ms": AT_MS, "actor": text, "action": "message_send", "provider": "stripe",
        "event_id": text, "message_id": null, "operation_id": null, "detail": text,
    })
}

fn rejected(text: &str) -> Value {
    json!({
        "rejection_id": text, "provider": "stripe", "received_at_ms": AT_MS, "step": "signature",
        "reason": "mismatch", "detail": text, "headers": { text: [text] }, "body_digest": "00", "body_bytes_n": 5,
    })
}

fn ledger(text: &str) -> Value {
    let at = |mut what: Value, after_ms: i64| {
        what["at_ms"] = json!(AT_MS + after_ms);
        what
    };
    json!({
        "event": event(text),
        "judgement": {
            "headline": text, "acts": [{ "act": "rerun", "risk": "may_repeat_effect", "sentence": text }],
        },
        "content": {
            "headers": { text: [text] }, "body": format!("{{\n{text}\n}}"), "body_bytes_n": 1234, "redacted_n": 2, "unopened": text,
        },
        "entries": [
            at(json!({ "what": "received", "body_bytes_n": 1234, "secret_position": 1, "secret_fingerprint": text }), 0),
            at(json!({ "what": "latched", "digest": "5f1d00", "identity": "sender/1" }), 1),
            at(json!({ "what": "handled", "state": "handled", "attempts_n": 1, "error": text }), 2),
            at(json!({ "what": "effect", "message": message(text, "held") }), 3),
            at(json!({ "what": "attempt", "message_id": "5123", "effect_name": text, "attempt": attempt(text) }), 4),
            at(json!({ "what": "conflict", "event": event(text), "digest": "77aa" }), 5),
            at(json!({ "what": "replayed", "event": event(text) }), 6),
            at(json!({ "what": "duplicates", "copies_n": 1200, "first_at_ms": AT_MS }), 7),
            at(json!({ "what": "decision", "decision": decision(text) }), 86_400_000),
        ],
        "conflicts_unkept_n": 2, "hidden_messages_n": 1, "is_cut": false,
    })
}

pub(super) fn operation(state: &str, text: &str) -> Value {
    json!({
        "operation_id": "op-1", "state": state,
        "subject": { "messages": { "act": "send", "filter": { "state": "held", "destination": text } } },
        "actor": text, "reason": text, "created_at_ms": AT_MS, "finished_at_ms": null, "cancelled_by": text,
        "approved_by": text, "approve_until_ms": AT_MS, "note": text,
        "steps": {
            "per_s": 50, "stop_percent": 10, "current": 1,
            "list": [{ "rows_n": 1000, "changed_n": 412, "good_n": 400, "failed_n": 2 }],
        },
        "total_n": 1000, "changed_n": 412, "skipped_n": 3,
        "skipped": [{ "subject": text, "outcome": "not_allowed", "state": text }],
    })
}

/// What an operation would act on: so many events.
pub(super) fn preview(counted_n: u64, text: &str) -> Value {
    let act = |act: &str, risk: &str| {
        json!({
            "act": act, "label": text, "risk": risk, "sentence": text, "is_destructive": false,
            "steps": { "sizes": [1, 10, 100], "per_s": 50, "stop_percent": 10 }, "same_operation_id": text,
        })
    };
    let acts = ["send", "done", "discard", "rerun"].map(|one| act(one, "may_repeat_effect"));
    json!({
        "counted_n": counted_n, "is_more": false, "providers": [{ "name": text, "counted_n": counted_n }],
        "destinations": [{ "name": text, "counted_n": counted_n }], "first_at_ms": AT_MS, "last_at_ms": AT_MS,
        "calls_n": counted_n, "open_n": 5, "untried_n": 2, "uncertain_n": 1, "expired_n": 0,
        "messages": [], "events": [event(text)], "acts": if counted_n > 0 { json!(acts) } else { json!([]) },
        "approvals_n": 2, "set": "5e7",
    })
}

fn token(text: &str) -> Value {
    json!({
        "token_id": text, "name": text, "role": "operator", "providers": [text], "destinations": null,
        "is_good": true, "created_at_ms": AT_MS, "created_by": text, "expires_at_ms": AT_MS,
        "revoked_at_ms": null, "last_used_at_ms": AT_MS,
    })
}

fn destination(text: &str) -> Value {
    json!({
        "name": "billing", "kind": text, "is_configured": true, "breaker": "open", "concurrency_n": 8,
        "pause": { "actor": text, "reason": text, "paused_at_ms": AT_MS, "until_ms": AT_MS }, "rate_per_s": 2.5,
        "backlog": [{ "state": "held", "messages_n": 1200, "oldest_visible_at_ms": AT_MS }],
        "oldest_due_at_ms": AT_MS, "call_times": { "calls_n": 256, "p50_ms": 12, "p95_ms": 1_040 },
    })
}

fn backlog(text: &str) -> Value {
    json!({
        "now_ms": AT_MS, "events": [], "messages": [],
        "unknown_paths": [{
            "path": text, "nearest_provider": text, "signature_of_kind": text, "client_address": text,
            "requests_n": 1, "first_at_ms": AT_MS, "last_at_ms": AT_MS,
        }],
        "operations": [operation("waiting", text)],
    })
}

fn provider(text: &str) -> Value {
    json!({
        "name": "stripe", "kind": text, "url": text, "identity": text, "horizon_h": 72, "is_unverified": true,
        "secrets": [{
            "position": 2, "fingerprint": text, "matched_n": 3, "last_matched_at_ms": AT_MS, "is_safe_to_remove": true,
        }],
        "pause": { "actor": text, "reason": text, "paused_at_ms": AT_MS, "until_ms": AT_MS },
        "is_pairing": true, "paired_at_ms": AT_MS, "ids_days": 33,
        "sender": {
            "title": text, "docs": text, "confidence": text, "secret_hint": text, "signed_by": text, "weakness": text,
            "identities": [text], "answer_within_ms": 7,
        },
        "last_event": { "event_id": text, "type": text, "received_at_ms": AT_MS },
        "waiting": [{ "state": "failed", "events_n": 3, "oldest_received_at_ms": AT_MS }],
    })
}

fn search(text: &str) -> Value {
    let found = json!([
        { "by": "event_id", "event": event(text) }, { "by": "object", "event": event(text) },
        { "by": "message_id", "message": message(text, "dead") },
        { "by": "idempotency_key", "message": message(text, "done") },
        { "by": "effect_name", "message": message(text, "ready") },
        { "by": "rejected", "rejected": rejected(text) },
    ]);
    json!({ "query": text, "headline": text, "found": found, "notes": [text] })
}

/// A page of these.
pub(super) fn page(items: &[Value]) -> Value {
    json!({ "items": items, "next": null })
}

/// The answer of the route, with `text` in it. What is ordered is changed.
fn what_if(text: &str) -> Value {
    json!({
        "items": [{
            "provider": "stripe", "event_id": text, "type": text, "received_at_ms": AT_MS, "state": "failed", "error": text,
            "generation": 0, "verdict": "unchanged", "said": "handled", "why": text, "is_transactional": false, "taken_as": null,
            "took_ms": 1, "effects": [], "more_effects_n": 0, "hidden_effects_n": 0,
        }],
        "unchanged_n": 1, "changed_n": 0, "not_run_n": 0, "next": null, "looked_back_to_ms": null,
        "is_out_of_time": false, "not_undone": [text],
    })
}

pub(super) fn answer(received: &ReceivedRequest, text: &str) -> Says {
    let path: Vec<&str> = received.path.trim_start_matches("/v1/").split('/').collect();
    Says::ok(match (received.method.as_str(), path.as_slice()) {
        ("GET", ["me"]) => json!({
            "name": text, "role": "operator", "providers": [text], "destinations": null, "version": text,
            "is_encrypting": true, "now_ms": AT_MS,
        }),
        ("GET", ["events"]) => page(&[event(text)]),
        ("GET", ["events", _, _, "body"]) => json!(text),
        ("GET", ["events", _, _]) => ledger(text),
        ("GET", ["messages"]) => page(&[message(text, "held")]),
        ("GET", ["messages", _]) => json!({
            "message": message(text, "held"), "attempts": [attempt(text)], "decisions": [decision(text)],
        }),
        ("GET", ["lanes"]) => page(&[json!({
            "destination": text, "lane": text, "head": message(text, "held"), "depth_n": 5, "blocked_by": text,
            "since_ms": AT_MS,
        })]),
        ("GET", ["destinations"]) => page(&[destination(text)]),
        ("GET", ["destinations", _]) => destination(text),
        ("GET", ["providers"]) => page(&[provider(text)]),
        ("GET", ["providers", _]) => provider(text),
        ("GET", ["rejected"]) => page(&[rejected(text)]),
        ("GET", ["rejected", "groups"]) => page(&[json!({
            "provider": text, "reason": text, "client_address": text, "requests_n": 3, "last_at_ms": 1,
        })]),
        ("GET", ["backlog"]) => backlog(text),
        ("GET", ["search"]) => search(text),
        ("GET", ["activity"]) => {
            let count = json!({ "at_ms": AT_MS, "name": text, "outcome": text, "counted_n": 5 });
            json!({
                "from_ms": AT_MS, "now_ms": AT_MS, "step_ms": 3_600_000, "requests": [count], "attempts": [count],
            })
        }
        ("GET", ["operations"]) => page(&[operation("running", text)]),
        ("GET", ["operations", _]) | ("POST", ["operations", _, "cancel" | "approve" | "continue"]) => {
            operation("done", text)
        }
        ("POST", ["operations", "preview"]) | ("GET", ["operations", _, "preview"]) => preview(1_000, text),
        ("POST", ["operations"]) => return Says::Json(202, operation("running", text)),
        ("GET", ["settings"]) => page(&[json!({
            "key": text, "value": text, "is_secret": false, "secret_in": null, "layer": "file", "source": text,
            "is_default": false,
        })]),
        ("GET", ["doctor"]) => json!({
            "node": text, "version": text, "at_ms": AT_MS, "is_deep": false, "is_whole": true,
            "findings": [{
                "check": text, "subject": text, "verdict": "failure", "looked_at": text, "found": text, "bound": text,
                "meaning": text, "remedy": text,
            }],
        }),
        ("POST", ["probes"]) => json!({
            "token": "t", "answer_key": "00".repeat(32), "good_until_ms": AT_MS, "public_url": text,
            "paths": [{ "path": text, "headers": [text] }], "body_bytes_max": 1024, "answer_within_ms": 1000,
        }),
        ("GET", ["audit"]) => page(&[decision(text)]),
        ("GET", ["tokens"]) => page(&[token(text)]),
        ("POST", ["tokens"]) => return Says::Json(201, json!({ "facts": token(text), "token": text })),
        ("POST", ["tokens", _, "revoke"]) => token(text),
        ("POST", ["providers", _, "pairing"]) => json!({
            "provider": "stripe", "secret": text, "paired_at_ms": AT_MS,
        }),
        ("POST", ["providers", _, "test-events"]) => json!({
            "provider": text, "type": text, "event_ids": [text], "route": false,
        }),
        ("POST", ["what-if"] | ["events", _, _, "what-if"]) => what_if(text),
        ("POST", [.., "decide"]) => json!({ "outcome": "changed", "messages_n": 1 }),
        _ => return Says::problem(404, "not_found", text),
    })
}
