// Signs a delivery with GitHub's own SDK; prints header lines, an empty line and the body.
import { sign, verify } from "@octokit/webhooks-methods";

const secret = "It's a Secret to Everybody";
const body = '{"action":"opened","issue":{"number":1347}}';
const signature = await sign(secret, body);
if (!(await verify(secret, body, signature))) throw new Error("the SDK does not believe itself");
process.stdout.write(
  `x-hub-signature-256: ${signature}\nx-github-event: issues\nx-github-delivery: sdk-1\n\n${body}`,
);
