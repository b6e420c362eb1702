// Tests of the live list of events.
import assert from "node:assert/strict";
import { browserTest, text } from "../kit/browser.mjs";
import { accepted, stripe } from "../kit/sender.mjs";
import { dev } from "../kit/world.mjs";

const state = (page) => page.locator("[data-follow] [role=status]");

/** Opens the list, of this type alone, and waits until it is live. */
async function follow(page, hooklatch, type) {
  await page.goto(`${hooklatch.url}/events?type=${type}`);
  await state(page).getByText("Live.").waitFor();
}

const row = (page, id) => page.locator("tbody tr").filter({ hasText: id });
const ids = (page) => page.locator("tbody a.id").allInnerTexts();

browserTest("new events appear on top of the live list, each once, and only those that match the filter", {}, async ({ page }) => {
  const hooklatch = await dev();
  await accepted(stripe(hooklatch, "evt_tail_before", "tail.seen"));
  await follow(page, hooklatch, "tail.seen");
  await accepted(stripe(hooklatch, "evt_tail_other", "tail.other"));
  for (const n of [1, 2, 3]) await accepted(stripe(hooklatch, `evt_tail_${n}`, "tail.seen"));
  await row(page, "evt_tail_3").waitFor();
  assert.deepEqual(await ids(page), ["evt_tail_3", "evt_tail_2", "evt_tail_1", "evt_tail_before"]);
  assert.equal(await text(row(page, "evt_tail_3").locator(".chip").first()), "ignored");
});

browserTest("the first event of an empty list appears as well", {}, async ({ page }) => {
  const hooklatch = await dev();
  await follow(page, hooklatch, "tail.first");
  await page.getByText("No event is found by this filter.").waitFor();
  await accepted(stripe(hooklatch, "evt_tail_first", "tail.first"));
  await row(page, "evt_tail_first").waitFor();
});

browserTest("the list stands still while a row is selected, and goes on", {}, async ({ page }) => {
  const hooklatch = await dev();
  await accepted(stripe(hooklatch, "evt_held_0", "tail.held"));
  await follow(page, hooklatch, "tail.held");
  await row(page, "evt_held_0").locator(".chip").first().click();
  await state(page).getByText("Paused while a row is selected.").waitFor();
  await accepted(stripe(hooklatch, "evt_held_1", "tail.held"));
  await accepted(stripe(hooklatch, "evt_held_2", "tail.held"));
  assert.deepEqual(await ids(page), ["evt_held_0"]);
  await page.keyboard.press("Escape");
  await state(page).getByText("Live.").waitFor();
  await row(page, "evt_held_2").waitFor();
  assert.deepEqual(await ids(page), ["evt_held_2", "evt_held_1", "evt_held_0"]);
});

browserTest("the list stands still while text is selected, and while its button says so", {}, async ({ page }) => {
  const hooklatch = await dev();
  await accepted(stripe(hooklatch, "evt_marked_0", "tail.marked"));
  await follow(page, hooklatch, "tail.marked");
  await page.evaluate(() => getSelection().selectAllChildren(document.querySelector("tbody a.id")));
  await state(page).getByText("Paused while text is selected.").waitFor();
  await accepted(stripe(hooklatch, "evt_marked_1", "tail.marked"));
  await page.getByRole("button", { name: "Pause" }).click();
  await page.evaluate(() => getSelection().removeAllRanges());
  await state(page).getByText("Paused.", { exact: true }).waitFor();
  assert.deepEqual(await ids(page), ["evt_marked_0"]);
  await page.getByRole("button", { name: "Go on" }).click();
  await row(page, "evt_marked_1").waitFor();
});

browserTest("a hidden tab fetches nothing, and catches up when it is shown again", {}, async ({ page }) => {
  const hooklatch = await dev();
  await page.clock.install();
  await follow(page, hooklatch, "tail.hidden");
  await accepted(stripe(hooklatch, "evt_hidden_0", "tail.hidden"));
  await page.clock.runFor(2000);
  await row(page, "evt_hidden_0").waitFor();
  const hide = (isHidden) => page.evaluate((is) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => is });
    document.dispatchEvent(new Event("visibilitychange"));
  }, isHidden);
  await hide(true);
  assert.equal(await text(state(page)), "Paused while this tab is hidden.");
  let fetchedN = 0;
  page.on("request", () => { fetchedN += 1; });
  for (const n of [1, 2]) await accepted(stripe(hooklatch, `evt_hidden_${n}`, "tail.hidden"));
  await page.clock.runFor(10000);
  assert.equal(fetchedN, 0);
  await hide(false);
  await row(page, "evt_hidden_2").waitFor();
  assert.deepEqual(await ids(page), ["evt_hidden_2", "evt_hidden_1", "evt_hidden_0"]);
});

browserTest("without scripts a link reloads the list", { isScripted: false }, async ({ page }) => {
  const hooklatch = await dev();
  await page.goto(`${hooklatch.url}/events?type=tail.unscripted`);
  await page.getByText("No event is found by this filter.").waitFor();
  await accepted(stripe(hooklatch, "evt_again", "tail.unscripted"));
  await page.getByRole("link", { name: "Look again" }).click();
  await row(page, "evt_again").waitFor();
  assert.equal(await page.getByRole("button", { name: "Pause" }).isVisible(), false);
});
