// Tests of the overview and its charts.
import assert from "node:assert/strict";
import { browserTest, looksWell, text } from "../kit/browser.mjs";
import { until } from "../kit/programs.mjs";
import { accepted, stripe } from "../kit/sender.mjs";
import { dev } from "../kit/world.mjs";

browserTest("the overview draws received events over time, with the same figures in a table", {}, async ({ page }) => {
  const hooklatch = await dev();
  await accepted(stripe(hooklatch, "evt_counted", "invoice.paid"));
  await page.goto(hooklatch.url);
  await page.locator("svg").first().waitFor();
  await looksWell(page, hooklatch.url);
});

browserTest("the URL that a sender is to be given is copied with a button", {}, async ({ page, context }) => {
  const hooklatch = await dev();
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await looksWell(page, `${hooklatch.url}/senders`);
  await page.goto(`${hooklatch.url}/senders/stripe`);
  await page.locator("[data-copy]").first().click();
  await page.getByRole("button", { name: "Copied" }).waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), `${hooklatch.receiver}/webhooks/stripe`);
  await looksWell(page, `${hooklatch.url}/senders/stripe`);
});

browserTest("a refused request shows which step failed, and links to explain", {}, async ({ page }) => {
  const hooklatch = await dev();
  assert.equal(await stripe(hooklatch, "evt_late", "invoice.paid", { atS: Math.floor(Date.now() / 1000) - 3600 }), 401);
  const row = page.locator("tbody tr").filter({ hasText: /too old|timestamp|stale|late/i });
  await until("it is noted", async () => {
    await page.goto(`${hooklatch.url}/rejected?provider=stripe`);
    return row.count();
  });
  assert.match(await text(row.first()), /too old|timestamp|stale|late/i);
  await looksWell(page, `${hooklatch.url}/rejected`);
});
