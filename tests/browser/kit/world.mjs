// What most tests share: a sender, a Hooklatch and the destinations of its messages. Started on first use, and
// stopped after all tests.
import assert from "node:assert/strict";
import { after } from "node:test";
import { farSide } from "./far_side.mjs";
import { start, until } from "./programs.mjs";
import { secrets } from "./sender.mjs";

/** Tokens by role, used by these tests alone. */
export const tokens = Object.fromEntries(["viewer", "reader", "operator", "admin"]
  .map((role) => [role, `browser-${role}-0123456789abcdef`]));

/** The same as a configuration has them. */
export const list = Object.entries(tokens)
  .map(([role, token]) => `{ name = "${role}", role = "${role}", token = "${token}" }`).join(", ");

const retry = "retry = { first_ms = 100, max_ms = 100, attempts_n = 2 }";

export function config(listen, far, more) {
  return `
[server]
listen = "${listen.server}"
[admin]
listen = "${listen.admin}"
${more}
[database]
url = "sqlite://hooklatch.db"
[providers.stripe]
secrets = ["${secrets.stripe}"]
routes = [
  { on = ["invoice.*"], to = "billing" },
  { on = ["charge.*"], to = "bank" },
  { on = ["payout.*"], to = "ledger" },
  { on = ["order.*"], to = "till" },
  { on = ["topup.*"], to = "wallet" },
]
[providers.github]
secrets = ["${secrets.github}"]
routes = [{ on = ["*"], to = "billing" }]
[providers.meta]
secrets = ["${secrets.meta}"]
routes = []
[providers.adyen]
secrets = ["${secrets.adyen}"]
routes = [{ on = ["*"], to = "bank" }]
[destinations.billing]
url = "${far}/done"
[destinations.bank]
url = "${far}/lost"
unknown = "hold"
[destinations.wallet]
url = "${far}/done"
[destinations.till]
url = "${far}/refuse"
${retry}
[destinations.ledger]
url = "${far}/refuse"
${retry}
`;
}

/** Something that is started once, on first use, and stopped after all tests. */
export function once(make) {
  let made;
  after(async () => (await made)?.stop());
  return () => (made ??= make());
}

/** The destinations of all tests. */
export const far = once(farSide);

/** Signs a browser in, as the form does. */
export async function signIn(context, hooklatch, role) {
  const answer = await context.request.post(`${hooklatch.url}/sign-in`, {
    form: { token: tokens[role], to: "/" },
    headers: { origin: new URL(hooklatch.url).origin },
    maxRedirects: 0,
  });
  assert.equal(answer.status(), 303, await answer.text());
}

/** Calls the API as a program with this role. */
export async function asked(hooklatch, path, role = "admin") {
  const answer = await fetch(`${hooklatch.url}/v1${path}`, { headers: { authorization: `Bearer ${tokens[role]}` } });
  assert.equal(answer.status, 200, path);
  return answer.json();
}

/** The messages of an event, once they are all in this state. */
export function messagesOf(hooklatch, eventId, state, provider = "stripe") {
  return until(`messages of ${eventId} are ${state}`, async () => {
    const { entries } = await asked(hooklatch, `/events/${provider}/${encodeURIComponent(eventId)}`);
    const messages = entries.filter((one) => one.what === "effect").map((one) => one.message);
    return messages.length > 0 && messages.every((one) => one.state === state) && messages;
  });
}

/** As newcomers start it: without signing in. */
export const dev = once(async () => {
  const { url } = await far();
  return start((listen) => config(listen, url, ""), { isDev: true });
});

/** As in production: with a token of each role. */
export const guarded = once(async () => {
  const { url } = await far();
  return start((listen) => config(listen, url, `tokens = [${list}]`));
});

/** The same, where a second operator has to approve bulk operations. */
export const doubled = once(async () => {
  const { url } = await far();
  return start((listen) => config(listen, url, `tokens = [${list}]\napprovals_n = 2`));
});
