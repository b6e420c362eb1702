// Tests of an operator's decisions.
import assert from "node:assert/strict";
import { browserTest, looksWell, text } from "../kit/browser.mjs";
import { until } from "../kit/programs.mjs";
import { accepted, meta, stripe } from "../kit/sender.mjs";
import { asked, far, guarded, messagesOf, signIn } from "../kit/world.mjs";

const reason = "Reason, for the audit log";

/** A held message of this event, and its page. */
async function held(page, context, eventId) {
  const hooklatch = await guarded();
  await accepted(stripe(hooklatch, eventId, "charge.refunded"));
  const [message] = await messagesOf(hooklatch, eventId, "held");
  await signIn(context, hooklatch, "operator");
  const url = `${hooklatch.url}/messages/${message.message_id}`;
  await page.goto(url);
  return { hooklatch, message, url };
}

const decisions = async (hooklatch, eventId) =>
  (await asked(hooklatch, `/events/stripe/${eventId}`)).entries.filter((one) => one.decision?.message_id !== undefined && one.decision?.message_id !== null).length;

browserTest("a held message is settled with a reason, and its event shows who did it and why", {}, async ({ page, context }) => {
  const { hooklatch, message } = await held(page, context, "evt_decided");
  await page.getByRole("button", { name: "Settle as done" }).click();
  assert.equal(await page.locator("input[name=reason]:invalid").count(), 1, "nothing is done without a reason");
  await page.getByLabel(reason).fill("The bank says that it has it");
  await page.getByRole("button", { name: "Settle as done" }).click();
  await page.getByRole("main").locator(".chip.good").first().waitFor();
  assert.equal((await asked(hooklatch, `/messages/${message.message_id}`)).message.state, "done");
  await page.goto(`${hooklatch.url}/events/stripe/evt_decided`);
  assert.match(await text(page.locator(".timeline")), /operator.*“?The bank says that it has it/);
});

browserTest("a double click sends it once more, and not twice", {}, async ({ page, context, watch }) => {
  watch.clicksTwice = true;
  const { hooklatch, message } = await held(page, context, "evt_twice");
  const before = (await far()).calls.filter((call) => call.key === message.idempotency_key).length;
  await page.getByLabel(reason).fill("The outcome is unknown");
  await page.getByRole("button", { name: "Send it again" }).dblclick();
  const callsN = async () => (await far()).calls.filter((call) => call.key === message.idempotency_key).length;
  await until("it is sent once more", async () => await callsN() > before);
  await page.waitForURL(/\/messages\/\d+$/);
  await messagesOf(hooklatch, "evt_twice", "held");
  assert.equal(await callsN(), before + 1);
  assert.equal(await decisions(hooklatch, "evt_twice"), 1);
});

browserTest("the back button with the same form again, and F5, change nothing", {}, async ({ page, context }) => {
  const { hooklatch, url } = await held(page, context, "evt_back");
  await page.getByLabel(reason).fill("It is not wanted any more");
  await page.getByRole("button", { name: "Discard" }).click();
  await page.getByRole("main").getByText("discarded", { exact: true }).first().waitFor();
  assert.equal(page.url(), url, "F5 asks for the page, and not for the act");
  await page.reload();
  await page.goBack();
  assert.equal(await decisions(hooklatch, "evt_back"), 1);
});

browserTest("an outdated page decides nothing, and shows the current state", {}, async ({ page, context, watch }) => {
  const { hooklatch, message, url } = await held(page, context, "evt_stale");
  const other = await context.newPage();
  await other.goto(url);
  await other.getByLabel(reason).fill("I was first");
  await other.getByRole("button", { name: "Settle as done" }).click();
  await other.locator(".chip.good").first().waitFor();
  watch.statuses.add(412).add(409);
  await page.getByLabel(reason).fill("I was second");
  await page.getByRole("button", { name: "Discard" }).click();
  await page.getByRole("alert").waitFor();
  assert.equal((await asked(hooklatch, `/messages/${message.message_id}`)).message.state, "done");
});

browserTest("a held message is decided with scripts off", { isScripted: false }, async ({ page, context }) => {
  const { hooklatch, message } = await held(page, context, "evt_unscripted_decided");
  await page.getByLabel(reason).fill("By hand");
  await page.getByRole("button", { name: "Settle as done" }).click();
  await page.waitForURL(/\/messages\/\d+$/);
  assert.equal((await asked(hooklatch, `/messages/${message.message_id}`)).message.state, "done");
});

/** From the page where an act is chosen to the page of this act, with the number and the reason typed. */
async function confirmed(page, act, number, why) {
  await page.getByRole("link", { name: act }).click();
  await page.waitForURL(/\/operations\/new\/[a-z_]+\?/);
  await page.getByLabel("To confirm, type the number").fill(number);
  await page.getByLabel(reason).fill(why);
}

browserTest("all dead messages are discarded by one operation, which is shown and confirmed on its own page", {}, async ({ page, context, watch }) => {
  const hooklatch = await guarded();
  for (const n of [1, 2, 3]) await accepted(stripe(hooklatch, `evt_bulk_${n}`, "order.paid"));
  for (const n of [1, 2, 3]) await messagesOf(hooklatch, `evt_bulk_${n}`, "dead");
  await signIn(context, hooklatch, "operator");
  await page.goto(`${hooklatch.url}/operations/new?subject=messages&state=dead&destination=till`);
  assert.match(await text(page.locator(".found")), /3 dead messages/i);
  assert.equal(await page.locator("main form").count(), 0, "the first step has nothing to press");
  await looksWell(page, page.url());
  watch.statuses.add(400);
  await confirmed(page, /^Discard them/, "30", "They were taken by hand");
  for (const field of ["To confirm, type the number", reason]) {
    await page.getByLabel(field).press("Enter");
    assert.match(page.url(), /\/operations\/new\/discard/, "Enter presses no button");
  }
  await page.getByRole("button", { name: "Discard 3" }).click();
  assert.match(await text(page.getByRole("alert")), /the number 3 has to be typed/);
  assert.equal(await page.getByLabel(reason).inputValue(), "", "the page begins anew");
  await page.getByLabel("To confirm, type the number").fill("3");
  await page.getByLabel(reason).fill("They were taken by hand");
  await page.getByRole("button", { name: "Discard 3" }).click();
  await page.waitForURL(/\/operations\/[0-9a-f-]{36}$/);
  await page.getByText("done", { exact: true }).first().waitFor();
  for (const n of [1, 2, 3]) await messagesOf(hooklatch, `evt_bulk_${n}`, "discarded");
  await looksWell(page, page.url());
});

browserTest("an operation on thousands shows its progress and is cancelled half-way", {}, async ({ page, context }) => {
  const hooklatch = await guarded();
  // So many that it is not over before the click.
  for (let from = 0; from < 10_000; from += 1000) await accepted(meta(hooklatch, from, 1000));
  await signIn(context, hooklatch, "operator");
  await page.goto(`${hooklatch.url}/operations/new?subject=events&state=ignored&provider=meta`);
  await confirmed(page, /^Re-run them/, "10,000", "Try them with the new handler");
  await page.getByRole("button", { name: "Re-run 10,000" }).click();
  await page.waitForURL(/\/operations\/[0-9a-f-]{36}$/);
  await page.getByRole("progressbar").waitFor();
  await page.getByLabel(reason).fill("That was the wrong handler");
  await page.getByRole("button", { name: "Cancel the operation" }).click();
  await page.getByText("cancelled", { exact: true }).first().waitFor();
  assert.match(await text(page.locator("#progress")), /Cancelled by operator/);
});

browserTest("on the page that erases, a reason without the number does nothing", { isScripted: false }, async ({ page, context }) => {
  const hooklatch = await guarded();
  await accepted(stripe(hooklatch, "evt_not_erased", "order.paid"));
  await messagesOf(hooklatch, "evt_not_erased", "dead");
  await signIn(context, hooklatch, "operator");
  await page.goto(`${hooklatch.url}/operations/new?subject=events&state=handled&provider=stripe`);
  assert.equal(await page.getByRole("link", { name: /^Erase/ }).first().isVisible(), false, "re-run and erase do not stand together");
  await page.getByText("Delete what is stored …").click();
  await page.getByRole("link", { name: /^Erase them and discard/ }).click();
  await page.getByLabel(reason).fill("meant re-run");
  await page.getByLabel(reason).press("Enter");
  await page.getByRole("button", { name: /^Erase/ }).click();
  assert.match(page.url(), /\/operations\/new\/erase_and_discard/, "without the number nothing is sent");
  await messagesOf(hooklatch, "evt_not_erased", "dead");
});

browserTest("a paused destination keeps its messages, and sends them when it is resumed", {}, async ({ page, context }) => {
  const hooklatch = await guarded();
  await signIn(context, hooklatch, "operator");
  const url = `${hooklatch.url}/destinations/wallet`;
  await page.goto(url);
  await page.getByText("Pause …").click();
  await page.getByLabel(reason).fill("Maintenance over there");
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByRole("button", { name: "Resume" }).waitFor();
  await accepted(stripe(hooklatch, "evt_paused", "topup.created"));
  await messagesOf(hooklatch, "evt_paused", "ready");
  await looksWell(page, url);
  await page.getByLabel(reason).fill("They are back");
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByText("Pause …").waitFor();
  await messagesOf(hooklatch, "evt_paused", "done");
});

browserTest("the pages with decisions fit the window", {}, async ({ page, context }) => {
  const { hooklatch, url } = await held(page, context, "evt_looks");
  await looksWell(page, url);
  const paths = ["/messages", "/messages?state=held", "/lanes", "/destinations", "/operations",
    "/operations/new?subject=messages&state=held", "/operations/new/discard?subject=messages&state=held", "/search", "/search?id=evt_looks"];
  for (const path of paths) await looksWell(page, hooklatch.url + path);
  await looksWell(page, `${hooklatch.url}/events/stripe/evt_looks`, { isLarge: true });
});

browserTest("a key is copied, also where the browser has no clipboard for pages", {}, async ({ page, context }) => {
  const { message } = await held(page, context, "evt_copied");
  await page.evaluate(() => {
    Object.defineProperty(navigator, "clipboard", { get: () => undefined });
    document.addEventListener("copy", () => { document.documentElement.dataset.copied = document.activeElement.value; });
  });
  await page.locator("[data-copy=key]").click();
  await page.getByRole("button", { name: "Copied" }).waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.copied), message.idempotency_key);
});
