// Tests of reading: on a telephone, in long lists, and copying from there.
import assert from "node:assert/strict";
import { browserTest, text } from "../kit/browser.mjs";
import { until } from "../kit/programs.mjs";
import { accepted, adyen, stripe } from "../kit/sender.mjs";
import { asked, guarded, messagesOf, signIn } from "../kit/world.mjs";

/** Lower end of the first thing that acts, from the top of the page. Pixels. */
const firstAct = (page) => page.evaluate(() => {
  const acts = [...document.querySelectorAll("main form[method=post] button:not(.unseen), main .fold > summary, main a.button")];
  const first = acts.find((one) => one.checkVisibility());
  return first ? first.getBoundingClientRect().bottom + scrollY : Infinity;
});

browserTest("what can be decided stands under the headline: on the first screen, on a telephone on the first two", {}, async ({ page, context }) => {
  const hooklatch = await guarded();
  await accepted(stripe(hooklatch, "evt_above", "charge.refunded", { object: { amount: 1 } }));
  assert.equal(await stripe(hooklatch, "evt_above", "charge.refunded", { object: { amount: 2 } }), "conflict");
  await accepted(stripe(hooklatch, "evt_above_dead", "order.paid"));
  const [held] = await messagesOf(hooklatch, "evt_above", "held");
  const [dead] = await messagesOf(hooklatch, "evt_above_dead", "dead");
  const { items } = await asked(hooklatch, "/events?state=conflict");
  const conflict = items.find((one) => one.error?.includes("evt_above"));
  await signIn(context, hooklatch, "operator");
  const paths = [`/messages/${held.message_id}`, `/messages/${dead.message_id}`, "/events/stripe/evt_above",
    "/events/stripe/evt_above_dead", `/events/stripe/${encodeURIComponent(conflict.event_id)}`, "/destinations/bank", "/senders/stripe"];
  for (const [width, height, screens] of [[1440, 900, 1], [390, 844, 2]]) {
    await page.setViewportSize({ width, height });
    for (const path of paths) {
      await page.goto(hooklatch.url + path);
      const end = await firstAct(page);
      assert.ok(end <= height * screens, `${path} at ${width} px: ${end}`);
    }
  }
  await page.goto(`${hooklatch.url}/events/stripe/evt_above`);
  await page.getByRole("link", { name: `Decide about message ${held.message_id}` }).click();
  await page.getByRole("button", { name: "Settle as done" }).waitFor();
});

browserTest("on a telephone two contents are read line by line, and a header below its name", { width: 390, isScripted: false }, async ({ page, context }) => {
  const hooklatch = await guarded();
  const object = { customer: "cus_1", currency: "eur", lines: ["a", "b"] };
  await accepted(stripe(hooklatch, "evt_narrow", "invoice.paid", { object: { ...object, amount: 1999 } }));
  assert.equal(await stripe(hooklatch, "evt_narrow", "invoice.paid", { object: { ...object, amount: 9999 } }), "conflict");
  await signIn(context, hooklatch, "reader");
  await page.goto(`${hooklatch.url}/events/stripe/evt_narrow`);
  await page.getByRole("link", { name: "What differs" }).click();
  const lines = (await page.locator("tr.diff").allInnerTexts()).map((line) => line.replace(/\s+/g, " ").trim()).filter((line) => line);
  assert.ok(lines.includes('− "amount": 1999 + "amount": 9999'), lines.join("\n"));
  assert.ok(lines.includes('"b"'), "what is equal stands there once");
  const heights = (locator) => locator.evaluateAll((all) => all.map((one) => one.getBoundingClientRect().height));
  for (const height of await heights(page.locator("tr.diff"))) assert.ok(height < 60, `a line of ${height} px`);
  const header = page.locator("#headers tbody tr").filter({ hasText: "content-type" });
  const [name, value] = [await header.locator("th").boundingBox(), await header.locator("td").boundingBox()];
  assert.ok(value.y >= name.y + name.height && value.width > 300, "the value has the whole width, below its name");
  assert.ok((await header.boundingBox()).height < 80);
});

browserTest("on a telephone an event of the list takes a few lines", { width: 390 }, async ({ page, context }) => {
  const hooklatch = await guarded();
  for (let n = 0; n < 50; n += 1) await accepted(stripe(hooklatch, `evt_1SWq8fLk2Zvlisted${n}`, n % 2 ? "invoice.listed" : "order.listed", { object: { id: `in_1SWq8fLk2Zv${n}` } }));
  await signIn(context, hooklatch, "viewer");
  for (const [path, rowsN] of [["/events", 50], ["/messages?state=done", 25]]) {
    await page.goto(hooklatch.url + path);
    const heights = await page.locator("tbody tr").evaluateAll((rows) => rows.map((row) => row.getBoundingClientRect().height));
    assert.ok(heights.length >= rowsN, `${heights.length} at ${path}`);
    const mean = heights.reduce((sum, one) => sum + one, 0) / heights.length;
    assert.ok(mean < 130, `${path}: ${mean} px a row`);
  }
});

browserTest("on a telephone the pages are behind one button, with scripts off as well", { width: 390, isScripted: false }, async ({ page, context }) => {
  const hooklatch = await guarded();
  await signIn(context, hooklatch, "operator");
  await page.goto(`${hooklatch.url}/events`);
  const menu = page.getByRole("navigation", { name: "Pages", exact: true });
  assert.equal(await menu.isVisible(), false);
  await page.getByRole("button", { name: "Menu" }).click();
  assert.equal(await menu.getByRole("link").count(), 11);
  for (const link of await menu.getByRole("link").all()) assert.ok(await link.isVisible());
  await menu.getByRole("link", { name: "Lanes" }).click();
  await page.getByRole("heading", { level: 1, name: "Lanes" }).waitFor();
});

browserTest("ids, a key, headers and a body are copied; a list shows a long id in short and copies all of it", {}, async ({ page, context }) => {
  const hooklatch = await guarded();
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const id = `evt_${"0123456789".repeat(8)}`;
  await accepted(stripe(hooklatch, id, "charge.copied"));
  const [message] = await messagesOf(hooklatch, id, "held");
  await accepted(adyen(hooklatch, "NC6HT9CRT65COPY1", "CAPTURE"));
  await signIn(context, hooklatch, "reader");
  const copy = async (button) => {
    await button.click();
    await page.getByRole("button", { name: "Copied" }).first().waitFor();
    return page.evaluate(() => navigator.clipboard.readText());
  };
  await page.goto(`${hooklatch.url}/events?type=charge.copied`);
  const link = page.locator("tbody a.id").first();
  assert.ok((await text(link)).length < 50 && await link.getAttribute("title") === id);
  assert.equal(await copy(page.locator("tbody button.copy")), id);
  await page.goto(`${hooklatch.url}/events?provider=adyen&type=CAPTURE`);
  const composed = page.locator("tbody tr").filter({ hasText: "NC6HT9CRT65COPY1 · CAPTURE · true" });
  assert.equal(await copy(composed.locator("button.copy")), "16:NC6HT9CRT65COPY1,7:CAPTURE,4:true");
  await page.goto(`${hooklatch.url}/events/stripe/${id}`);
  assert.equal(await copy(page.locator("[data-copy=event-id]")), id);
  assert.match(await copy(page.getByRole("button", { name: "Copy the headers" })), /^content-type: application\/json$/m);
  assert.equal(JSON.parse(await copy(page.getByRole("button", { name: "Copy the body" }))).id, id);
  await page.goto(`${hooklatch.url}/messages/${message.message_id}`);
  assert.equal(await copy(page.locator("[data-copy=message-id]")), message.message_id);
  assert.equal(await copy(page.locator("[data-copy=key]")), message.idempotency_key);
});

browserTest("who looks at a body is in the audit log, and not in the history of the event", {}, async ({ page, context }) => {
  const hooklatch = await guarded();
  await accepted(stripe(hooklatch, "evt_looked_at", "charge.refunded"));
  const [message] = await messagesOf(hooklatch, "evt_looked_at", "held");
  await signIn(context, hooklatch, "operator");
  for (let n = 0; n < 3; n += 1) await page.goto(`${hooklatch.url}/events/stripe/evt_looked_at`);
  assert.equal(await page.locator(".timeline > li").filter({ hasText: /Decided|body_read/ }).count(), 0);
  await page.goto(`${hooklatch.url}/messages/${message.message_id}`);
  assert.equal(await page.getByText("answer_read").count(), 0);
  await page.goto(`${hooklatch.url}/audit`);
  assert.ok(await page.locator("tbody tr").filter({ hasText: "body_read" }).filter({ hasText: "evt_looked_at" }).count() >= 3);
});

browserTest("failures and refusals stand by their cause, and a filter with a typo says what was meant", {}, async ({ page, context }) => {
  const hooklatch = await guarded();
  for (const n of [1, 2]) await accepted(stripe(hooklatch, `evt_cause_${n}`, "order.paid"));
  for (const n of [1, 2]) await messagesOf(hooklatch, `evt_cause_${n}`, "dead");
  for (const n of [1, 2]) assert.equal(await stripe(hooklatch, `evt_cause_late_${n}`, "order.paid", { atS: 1 }), 401);
  // Of one cause alone there is nothing to group.
  assert.equal(await stripe(hooklatch, "evt_cause_forged", "order.paid", { secret: "whsec_of_somebody_else" }), 401);
  await signIn(context, hooklatch, "operator");
  await page.goto(hooklatch.url);
  const cause = page.locator("section[aria-labelledby=causes] tr").filter({ hasText: "till" }).filter({ hasText: "refused; answered 422" });
  assert.match(await text(cause), /dead/);
  await cause.getByRole("link", { name: "Messages" }).click();
  await page.waitForURL(/\/messages\?state=dead&destination=till/);
  const group = page.locator("tbody tr").filter({ hasText: "too old" }).filter({ hasText: "127.0.0.1" });
  await until("the refusals are noted", async () => {
    await page.goto(`${hooklatch.url}/rejected`);
    return await group.count() >= 3;
  });
  await group.first().getByRole("link").first().click();
  await page.waitForURL(/reason=stale/);
  await page.goto(`${hooklatch.url}/events?provider=strpe`);
  assert.match(await text(page.getByRole("main")), /Not configured\. Did you mean stripe\?/);
});
