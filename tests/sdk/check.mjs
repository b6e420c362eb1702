// The senders' SDKs from npm as the other side. Reads JSON requests, one a line, and answers each with one line:
// {"do":"rows"}, {"do":"sign","asks":[…]} and {"do":"verify","asks":[…]}; tests/it/sdk/ asks. Every SDK is loaded
// once. tests/it/sdk/ copies these files beside node_modules, where node looks for modules.
import fs from "node:fs";
import { createInterface } from "node:readline";
import { clock, rows } from "./table.mjs";
import "./keys.mjs";
import "./macs.mjs";
import "./parts.mjs";

const version = (name) => JSON.parse(fs.readFileSync(`./node_modules/${name}/package.json`)).version;

const shown = (one) => ({
  package: one.package,
  version: version(one.package),
  registry: "npm",
  kind: one.kind,
  as: one.as ?? "",
  signs: one.sign ? (one.by ?? "sdk") : "",
  verifies: Boolean(one.verify),
  ours: one.ours ?? true,
  stale: one.stale,
  flip: one.flip ?? "",
  keys: [one.keys(1), one.keys(2)],
});

const message = (ask) => ({ settings: {}, ...ask, ...ask.keys, secret: ask.keys.secrets?.[0] });

const todo = {
  sign: async (ask) => rows[ask.row].sign(message(ask)),
  // An SDK says no by `false` or by throwing; one that says nothing is content.
  verify: async (ask) => ({ believed: (await rows[ask.row].verify(message(ask))) === true, why: "" }),
};

async function answered(request) {
  if (request.do === "rows") return rows.map(shown);
  const answers = [];
  clock.ms = request.clock === undefined ? undefined : request.clock * 1000;
  for (const ask of request.asks) {
    const failed = (error) => ({ believed: false, why: `${error?.message ?? error}` });
    answers.push(await todo[request.do](ask).catch(failed));
  }
  return answers;
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await answered(JSON.parse(line)))}\n`);
}
process.exit(0);
