// The first quarter of an hour of a newcomer who has read nothing.
import assert from "node:assert/strict";
import { browserTest, text } from "../kit/browser.mjs";
import { start, until } from "../kit/programs.mjs";
import { stripe } from "../kit/sender.mjs";

// What `serve --dev` has published for Stripe.
const secret = "whsec_hooklatch-dev-secret-stripe----------";

browserTest("a newcomer opens the printed link, and finds a copy, a forgery and a call that fails", {}, async ({ page, t }) => {
  const hooklatch = await start((listen) => `[server]\nlisten = "${listen.server}"\n[admin]\nlisten = "${listen.admin}"\n`, { isDev: true });
  t.after(() => hooklatch.stop());
  const link = /Look at it all: +(\S+)/.exec(hooklatch.banner())?.[1];
  await page.goto(link);
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();

  assert.equal(await stripe(hooklatch, "evt_new", "invoice.paid", { secret }), "accepted");
  assert.equal(await stripe(hooklatch, "evt_new", "invoice.paid", { secret }), "duplicate");
  assert.equal(await stripe(hooklatch, "evt_fake", "invoice.paid", { secret: "whsec_of_somebody_else" }), 401);
  await fetch(`${hooklatch.url}/dev/echo-fail`, { method: "POST", body: '{"status":500,"times":1000}' });
  assert.equal(await stripe(hooklatch, "evt_failing", "invoice.paid", { secret }), "accepted");

  const search = async (id) => {
    await page.getByRole("searchbox").first().fill(id);
    await page.keyboard.press("Enter");
    await page.waitForURL((url) => url.pathname !== "/");
  };
  /** Looks until the page says so. */
  const says = (what, words) => until(what, async () => {
    await page.reload();
    return words.test(await text(page.getByRole("main")));
  });
  await search("evt_new");
  await says("the copy", /Duplicates 1 more copy arrived/);
  await page.getByRole("link", { name: "Rejected" }).click();
  await page.getByRole("heading", { level: 1, name: "Rejected" }).waitFor();
  await says("the forgery", /signature does not match/);
  await page.goto(link);
  await search("evt_failing");
  await says("the call that fails", /HTTP 500/);
});
