// What the rows of npm packages share: keys, and the table itself.
import { createRequire } from "node:module";
import crypto from "node:crypto";

console.log = console.info = console.warn = console.error; // stdout is for answers alone
/** The time at which every SDK judges: some allow five seconds, and a slow machine is no stale signature. */
export const clock = { ms: undefined };
const { Date: RealDate } = globalThis;
globalThis.Date = class extends RealDate {
  constructor(...given) {
    super(...(given.length || clock.ms === undefined ? given : [clock.ms]));
  }
  static now() {
    return clock.ms ?? RealDate.now();
  }
};

export const require = createRequire(import.meta.url);
export const rows = [];
/** One SDK for one kind. `stale`: who refuses what was signed a day ago; `flip`: where a bit is flipped. */
export const row = (name, kind, rest) => rows.push({ package: name, kind, stale: "none", ...rest });
const b64 = (text) => Buffer.from(text).toString("base64");

// Keys: the first is configured, the second is a stranger's.
export const text = (n) => ({ secrets: [`sdk-secret-number-${n}-0123456789`] });
export const whsec = (n) => ({ secrets: [`whsec_${b64(`sdk-secret-number-${n}-0123456789`)}`] });
/** A key pair: what is configured of it, and what signs. */
export const pair = (type, options, settings) => () => {
  const { publicKey, privateKey } = crypto.generateKeyPairSync(type, options);
  return { settings: settings(publicKey), private: privateKey.export({ type: "pkcs8", format: "pem" }) };
};
export const pem = (key) => key.export({ type: "spki", format: "pem" });
export const formOf = (body) => Object.fromEntries(new URLSearchParams(body));
export const pathOf = (url) => url.slice(new URL(url).origin.length);
