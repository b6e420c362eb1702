// Tests of explain, what-if, settings and the audit log.
import assert from "node:assert/strict";
import { browserTest, looksWell, text } from "../kit/browser.mjs";
import { secrets } from "../kit/sender.mjs";
import { guarded, signIn, tokens } from "../kit/world.mjs";

browserTest("a request that is pasted is explained step by step, with scripts off as well", { isScripted: false }, async ({ page, context }) => {
  const hooklatch = await guarded();
  await signIn(context, hooklatch, "reader");
  await page.goto(`${hooklatch.url}/explain`);
  await page.getByLabel(/^Request/).fill("POST /webhooks/stripe HTTP/1.1\nContent-Type: application/json\nStripe-Signature: t=1,v1=00\n\n{\"id\":\"evt_pasted\"}");
  await page.getByRole("button", { name: "Explain" }).click();
  await page.locator("#steps").waitFor();
  assert.match(await text(page.getByRole("main")), /signature/i);
});

browserTest("the settings show the source of each value, and no secret", {}, async ({ page, context }) => {
  const hooklatch = await guarded();
  await signIn(context, hooklatch, "admin");
  await looksWell(page, `${hooklatch.url}/settings`, { isLarge: true });
  const shown = await page.content();
  for (const secret of [...Object.values(secrets), ...Object.values(tokens)]) assert.ok(!shown.includes(secret));
  assert.match(shown, /hooklatch\.toml/);
});

browserTest("the audit log shows who decided what, and is hidden from a viewer", {}, async ({ page, context, watch }) => {
  const hooklatch = await guarded();
  await signIn(context, hooklatch, "operator");
  await looksWell(page, `${hooklatch.url}/audit`);
  assert.match(await text(page.getByRole("main")), /sign_in|sign in/i);
  await signIn(context, hooklatch, "viewer");
  watch.statuses.add(403);
  for (const path of ["/audit", "/settings", "/explain"]) {
    assert.equal((await page.goto(hooklatch.url + path)).status(), 403, path);
  }
});
