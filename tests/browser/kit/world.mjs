// The world of most paths: a sender, a Hooklatch and the far side of its messages. Made when it is first asked for, and
// ended after all paths.
import { after } from "node:test";
import { farSide } from "./far_side.mjs";
import { start } from "./programs.mjs";
import { secrets } from "./sender.mjs";

/** Tokens by role; nobody but these paths has them. */
export const tokens = Object.fromEntries(["viewer", "reader", "operator", "admin"]
  .map((role) => [role, `browser-${role}-0123456789abcdef`]));

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
]
[providers.github]
secrets = ["${secrets.github}"]
routes = [{ on = ["*"], to = "billing" }]
[destinations.billing]
url = "${far}/done"
[destinations.bank]
url = "${far}/lost"
unknown = "hold"
[destinations.ledger]
url = "${far}/refuse"
${retry}
`;
}

/** Something that is made once, when it is first asked for, and stopped after all paths. */
function once(make) {
  let made;
  after(async () => (await made)?.stop());
  return () => (made ??= make());
}

/** The far side of all. */
export const far = once(farSide);

/** As newcomers start it: nobody signs in. */
export const dev = once(async () => {
  const { url } = await far();
  return start((listen) => config(listen, url, ""), { isDev: true });
});

/** As it runs for real: with a token of each role. */
export const guarded = once(async () => {
  const { url } = await far();
  const list = Object.entries(tokens).map(([role, token]) => `{ name = "${role}", role = "${role}", token = "${token}" }`);
  return start((listen) => config(listen, url, `tokens = [${list.join(", ")}]`));
});
