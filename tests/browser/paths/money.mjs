// Paths of somebody who is tired, and might double or lose a payment.
import assert from "node:assert/strict";
import { goes, looksWell, text } from "../kit/browser.mjs";
import { until } from "../kit/programs.mjs";
import { accepted, meta, stripe } from "../kit/sender.mjs";
import { asked, far, guarded, messagesOf, signIn, tokens } from "../kit/world.mjs";

const reason = "Reason, for the audit log";
const callsOf = async (message) => (await far()).calls.filter((call) => call.key === message.idempotency_key).length;

goes("what a destination without keys may have done is nowhere called safe to send", {}, async ({ page, context }) => {
  const hooklatch = await guarded();
  await accepted(stripe(hooklatch, "evt_not_safe", "charge.refunded"));
  const [message] = await messagesOf(hooklatch, "evt_not_safe", "held");
  await signIn(context, hooklatch, "operator");
  const url = `${hooklatch.url}/messages/${message.message_id}`;
  for (const one of [url, `${hooklatch.url}/messages`, `${hooklatch.url}/events/stripe/evt_not_safe`]) {
    await page.goto(one);
    assert.doesNotMatch(await text(page.getByRole("main")), /safe to send|good until|remembered until/, one);
  }
  await page.goto(url);
  const send = page.locator(".judgement").filter({ has: page.getByRole("button", { name: "Send it again" }) });
  assert.match(await text(send), /May repeat an effect.*Do not send before you have asked them/);
  assert.equal(await send.locator("button.danger").count(), 1);
  for (const one of [url, `${hooklatch.url}/destinations/bank`]) {
    await page.goto(one);
    assert.match(await text(page.getByRole("main")), /unknown = "hold": it neither honours keys nor can be asked/, one);
  }
  assert.match(await text(page.getByRole("main")), /Address 127\.0\.0\.1:\d+.*Timeout 10 s.*Retries at most/);
  await page.goto(url);
  await page.getByLabel(reason).fill("They have it");
  await page.getByRole("button", { name: "Settle as done" }).click();
  await page.getByRole("main").locator(".chip.good").first().waitFor();
  assert.equal(await page.getByRole("button", { name: "Send it again" }).count(), 0);
  assert.equal(await callsOf(message), 1);
});

goes("an event whose call is dead is nowhere shown as if all were well, and says why", {}, async ({ page, context }) => {
  const hooklatch = await guarded();
  await accepted(stripe(hooklatch, "evt_not_done", "order.not_done"));
  await messagesOf(hooklatch, "evt_not_done", "dead");
  await signIn(context, hooklatch, "viewer");
  for (const filter of ["type=order.not_done", "type=order.not_done&delivery=stuck", "type=order.not_done&delivery=dead"]) {
    await page.goto(`${hooklatch.url}/events?${filter}`);
    const row = page.locator("tbody tr");
    assert.match(await text(row), /handled dead 0 of 1 delivered.*refused with 422/, filter);
    assert.equal(await row.locator(".good").count(), 0, filter);
  }
  await page.goto(`${hooklatch.url}/search?id=evt_not_done`);
  assert.match(await text(page.locator(".headline")), /^handled dead 0 of 1 delivered/);
});

goes("Enter decides nothing about a conflict, and what may pay twice is opened first and red", {}, async ({ page, context }) => {
  const hooklatch = await guarded();
  await accepted(stripe(hooklatch, "evt_entered", "topup.created", { object: { amount: 1 } }));
  assert.equal(await stripe(hooklatch, "evt_entered", "topup.created", { object: { amount: 2 } }), "conflict");
  await signIn(context, hooklatch, "operator");
  await page.goto(`${hooklatch.url}/events/stripe/evt_entered`);
  await page.getByRole("link", { name: "What differs" }).click();
  const url = page.url();
  const dispatch = page.getByRole("button", { name: "Dispatch it" });
  assert.equal(await dispatch.isVisible(), false);
  await page.getByText("Dispatch it …").click();
  assert.match(await dispatch.getAttribute("class"), /danger/);
  for (const field of await page.getByLabel(reason).all()) {
    if (!await field.isVisible()) continue;
    await field.fill("Enter");
    await field.press("Enter");
  }
  await page.reload();
  assert.equal(page.url(), url);
  assert.match(await text(page.locator(".headline")), /^conflict/);
  // What is chosen is done once, however often it is pressed.
  await page.getByText("Dispatch it …").click();
  await page.locator("details[open]").getByLabel(reason).fill("It is another order");
  await dispatch.dblclick();
  await page.waitForURL(/\/events\/stripe\/conflict[^#]*$/);
  const effects = await until("it is dispatched", async () => {
    const { entries } = await asked(hooklatch, new URL(page.url()).pathname);
    const found = entries.filter((one) => one.what === "effect");
    return found.length > 0 && found;
  });
  assert.equal(effects.length, 1);
});

goes("a call that is sent again on one page is not sent by the page that was open before", {}, async ({ page, context, watch }) => {
  const hooklatch = await guarded();
  await accepted(stripe(hooklatch, "evt_two_tabs", "charge.refunded"));
  const [message] = await messagesOf(hooklatch, "evt_two_tabs", "held");
  await signIn(context, hooklatch, "operator");
  const url = `${hooklatch.url}/messages/${message.message_id}`;
  const other = await context.newPage();
  for (const one of [page, other]) {
    await one.goto(url);
    await one.getByLabel(reason).fill("They do not have it");
  }
  await page.getByRole("button", { name: "Send it again" }).click();
  await page.waitForURL(url);
  await until("it is held again", async () => await callsOf(message) === 2);
  await messagesOf(hooklatch, "evt_two_tabs", "held");
  watch.statuses.add(412);
  await other.getByRole("button", { name: "Send it again" }).click();
  await other.getByRole("heading", { level: 1, name: "It has changed in the meantime" }).waitFor();
  assert.equal(await callsOf(message), 2);
});

goes("a sender whose events nothing takes stands under what needs a person", {}, async ({ page, context }) => {
  const hooklatch = await guarded();
  await accepted(meta(hooklatch, 900_000, 3));
  await signIn(context, hooklatch, "viewer");
  await page.goto(hooklatch.url);
  const row = page.locator("section[aria-labelledby=needs] tr").filter({ hasText: "meta" });
  assert.match(await text(row), /No route and no handler takes any of its new events.*ignored/);
});

goes("a test event wears its badge in the list and on its page, and nothing follows from it", {}, async ({ page, context }) => {
  const hooklatch = await guarded();
  const answer = await fetch(`${hooklatch.url}/v1/providers/stripe/test-events`, {
    method: "POST",
    headers: { authorization: `Bearer ${tokens.operator}`, "idempotency-key": "badge", "content-type": "application/json" },
    body: JSON.stringify({ type: "charge.refunded", reason: "a first look" }),
  });
  assert.ok(answer.ok, `${answer.status}`);
  const { event_ids: [id] } = await answer.json();
  await signIn(context, hooklatch, "operator");
  await page.goto(`${hooklatch.url}/events`);
  const row = page.locator("tbody tr").filter({ hasText: "test event" }).first();
  assert.match(await text(row), /not sent|no calls/);
  await looksWell(page, `${hooklatch.url}/events/stripe/${encodeURIComponent(id)}`, { isLarge: true });
  assert.match(await text(page.getByRole("main")), /test event An operator made this event. Its sender never sent it./);
});
