// A sender: signs as Stripe and GitHub do, and returns the answer.
import assert from "node:assert/strict";
import crypto from "node:crypto";

export const secrets = {
  stripe: "whsec_browser_stripe_0123456789abcdef",
  github: "browser-github-0123456789abcdef",
  meta: "browser-meta-0123456789abcdef",
  adyen: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
};
/** The same for all, so that two copies are one event. */
const createdS = Math.floor(Date.now() / 1000);
const hmac = (key, text) => crypto.createHmac("sha256", key).update(text).digest("hex");

/** Posts a signed request; returns the outcome, or the status of a refusal. */
async function post(hooklatch, provider, headers, body) {
  const answer = await fetch(`${hooklatch.receiver}/webhooks/${provider}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body,
  });
  await answer.arrayBuffer();
  return answer.headers.get("hooklatch-outcome") ?? answer.status;
}

/** An event of Stripe's; `more` overrides parts of its body. */
export function stripe(hooklatch, id, type, { object = {}, headers = {}, secret = secrets.stripe, atS } = {}) {
  const body = JSON.stringify({ id, type, created: createdS, data: { object: { id: "in_1", ...object } } });
  const t = atS ?? Math.floor(Date.now() / 1000);
  const signature = `t=${t},v1=${hmac(secret, `${t}.${body}`)}`;
  return post(hooklatch, "stripe", { "stripe-signature": signature, ...headers }, body);
}

/** An event of GitHub's, whose id and type no signature covers. */
export function github(hooklatch, id, type, payload, secret = secrets.github) {
  const body = JSON.stringify(payload);
  const headers = {
    "x-github-delivery": id,
    "x-github-event": type,
    "x-hub-signature-256": `sha256=${hmac(secret, body)}`,
  };
  return post(hooklatch, "github", headers, body);
}

/** An item of Adyen's, which signs eight of its fields. */
export function adyen(hooklatch, pspReference, eventCode, { merchantReference = "order-4711", originalReference = "" } = {}) {
  const [merchantAccountCode, value, currency, success] = ["Shop", 10100, "EUR", "true"];
  const fields = [pspReference, originalReference, merchantAccountCode, merchantReference, value, currency, eventCode, success];
  const hmacSignature = crypto.createHmac("sha256", Buffer.from(secrets.adyen, "hex")).update(fields.join(":")).digest("base64");
  const item = { additionalData: { hmacSignature }, amount: { currency, value }, eventCode, eventDate: "2026-11-19T16:42:03+01:00",
    merchantAccountCode, merchantReference, originalReference, pspReference, success };
  const body = JSON.stringify({ live: "false", notificationItems: [{ NotificationRequestItem: item }] });
  return post(hooklatch, "adyen", {}, body);
}

/** A batch of Meta's, of so many events that nothing is routed for. */
export function meta(hooklatch, from, n) {
  const entry = Array.from({ length: n }, (_, at) => ({ id: "1", messaging: [{ message: { mid: `m_${from + at}` } }] }));
  const body = JSON.stringify({ object: "page", entry });
  return post(hooklatch, "meta", { "x-hub-signature-256": `sha256=${hmac(secrets.meta, body)}` }, body);
}

/** The same, which must be accepted. */
export async function accepted(outcome) {
  assert.equal(await outcome, "accepted");
}
