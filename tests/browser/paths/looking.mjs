// Tests of a visitor who looks around.
import assert from "node:assert/strict";
import { browserTest, isTooWide, looksWell, text } from "../kit/browser.mjs";
import { accepted, stripe } from "../kit/sender.mjs";
import { dev } from "../kit/world.mjs";

browserTest("a received event is the first of the list, with its state as a word", {}, async ({ page }) => {
  const hooklatch = await dev();
  await accepted(stripe(hooklatch, "evt_listed", "invoice.paid"));
  await page.goto(`${hooklatch.url}/events`);
  const row = page.getByRole("row").filter({ hasText: "evt_listed" });
  assert.match(await text(row), /stripe evt_listed invoice\.paid handled/);
  assert.equal(await page.getByRole("navigation", { name: "Pages", exact: true }).getByRole("link", { name: "Events" }).getAttribute("aria-current"), "page");
});

browserTest("a filter is part of the URL, so the same page opens for other operators, and a click removes it", {}, async ({ page }) => {
  const hooklatch = await dev();
  await accepted(stripe(hooklatch, "evt_filtered", "customer.created"));
  await page.goto(`${hooklatch.url}/events`);
  await page.getByLabel("Type", { exact: true }).fill("customer.created");
  await page.getByRole("button", { name: "Filter" }).click();
  await page.waitForURL(/type=customer\.created/);
  assert.equal(await page.getByRole("table").getByRole("row").count(), 2, "the heading and one event");
  await page.getByRole("link", { name: "Clear" }).click();
  await page.waitForURL(/\/events$/);
});

browserTest("by keyboard alone: to the content, to the search, through a filter", {}, async ({ page }) => {
  const hooklatch = await dev();
  await page.goto(`${hooklatch.url}/events`);
  const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.textContent.trim());
  await page.keyboard.press("Tab");
  assert.equal(await focused(), "Skip to the content");
  assert.ok(await page.getByRole("link", { name: "Skip to the content" }).isVisible());
  await page.keyboard.press("Enter");
  await page.waitForURL(/#main$/);
  await page.keyboard.press("/");
  assert.equal(await focused(), "search");
  await page.keyboard.type("/");
  assert.equal(await page.getByRole("searchbox").inputValue(), "/", "in a field a slash is a slash");
  await page.goto(`${hooklatch.url}/events#main`);
  await page.keyboard.press("Tab");
  assert.ok(await page.evaluate(() => document.activeElement.closest("main") !== null), "the next stop is in the content");
  await page.getByLabel("Provider", { exact: true }).focus();
  await page.keyboard.type("github");
  await page.keyboard.press("Enter");
  await page.waitForURL(/provider=github/);
});

browserTest("the pages fit the window, wide and narrow, light and dark, and axe finds nothing", {}, async ({ page }) => {
  const hooklatch = await dev();
  for (const path of ["/", "/events", "/events?type=nothing.like.it"]) await looksWell(page, hooklatch.url + path);
});

browserTest("on a telephone nothing is wider than the window", { width: 390, scheme: "dark" }, async ({ page }) => {
  const hooklatch = await dev();
  await accepted(stripe(hooklatch, `evt_${"long".repeat(40)}`, "invoice.paid"));
  await page.goto(`${hooklatch.url}/events`);
  assert.equal(await isTooWide(page), "");
});

browserTest("an unknown URL is answered with a page that says so and links back", {}, async ({ page, watch }) => {
  const hooklatch = await dev();
  watch.statuses.add(404);
  const answer = await page.goto(`${hooklatch.url}/nowhere`);
  assert.equal(answer.status(), 404);
  await page.getByRole("link", { name: "To the overview" }).click();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
});

browserTest("lists and filters work without scripts", { isScripted: false }, async ({ page }) => {
  const hooklatch = await dev();
  await accepted(stripe(hooklatch, "evt_unscripted", "unscripted.made"));
  await page.goto(`${hooklatch.url}/events`);
  await page.getByLabel("Type", { exact: true }).fill("unscripted.made");
  await page.getByRole("button", { name: "Filter" }).click();
  await page.getByRole("link", { name: "evt_unscripted" }).waitFor();
});
