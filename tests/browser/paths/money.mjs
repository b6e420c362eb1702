// Tests of a tired operator, who might double or lose a payment.
import assert from "node:assert/strict";
import { browserTest, looksWell, text } from "../kit/browser.mjs";
import { until } from "../kit/programs.mjs";
import { accepted, meta, stripe } from "../kit/sender.mjs";
import { asked, doubled, far, guarded, messagesOf, signIn, tokens } from "../kit/world.mjs";

const reason = "Reason, for the audit log";
const callsOf = async (message) => (await far()).calls.filter((call) => call.key === message.idempotency_key).length;

browserTest("no page calls it safe to send where a destination without keys may have acted", {}, async ({ page, context }) => {
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

browserTest("every page shows that an event has a dead call, and why", {}, async ({ page, context }) => {
  const hooklatch = await guarded();
  await accepted(stripe(hooklatch, "evt_not_done", "order.not_done"));
  await messagesOf(hooklatch, "evt_not_done", "dead");
  await signIn(context, hooklatch, "viewer");
  for (const filter of ["type=order.not_done", "type=order.not_done&delivery=stuck", "type=order.not_done&delivery=dead"]) {
    await page.goto(`${hooklatch.url}/events?${filter}`);
    const row = page.locator("tbody tr");
    assert.match(await text(row), /handled dead 0 of 1 delivered.*refused; answered 422/, filter);
    assert.equal(await row.locator(".good").count(), 0, filter);
  }
  await page.goto(`${hooklatch.url}/search?id=evt_not_done`);
  assert.match(await text(page.locator(".headline")), /^handled dead 0 of 1 delivered/);
});

browserTest("Enter decides no conflict, and an act that may pay twice has to be opened and is red", {}, async ({ page, context }) => {
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
  await messagesOf(hooklatch, decodeURIComponent(page.url().split("/").at(-1)), "done");
  await page.reload();
  assert.match(await text(page.locator(".headline")), /^handled delivered Handled, and its only call was delivered/, "it ran once");
});

browserTest("a call that one page has sent again is not sent by an older page", {}, async ({ page, context, watch }) => {
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

browserTest("a sender whose events no route takes is listed under what needs an operator", {}, async ({ page, context }) => {
  const hooklatch = await guarded();
  await accepted(meta(hooklatch, 900_000, 3));
  await signIn(context, hooklatch, "viewer");
  await page.goto(hooklatch.url);
  const row = page.locator("section[aria-labelledby=needs] tr").filter({ hasText: "meta" });
  assert.match(await text(row), /No route and no handler takes any of its new events.*ignored/);
});

browserTest("a test event wears its badge in the list and on its page, and nothing follows from it", {}, async ({ page, context }) => {
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

browserTest("the page for approving an operation shows what it acts on, and what that risks", {}, async ({ page, context }) => {
  const hooklatch = await doubled();
  for (const n of [1, 2]) await accepted(stripe(hooklatch, `evt_approved_${n}`, "charge.refunded"));
  for (const n of [1, 2]) await messagesOf(hooklatch, `evt_approved_${n}`, "held");
  await signIn(context, hooklatch, "operator");
  await page.goto(`${hooklatch.url}/operations/new/send?subject=messages&state=held&destination=bank`);
  await page.getByLabel("To confirm, type the number").fill("2");
  await page.getByLabel(reason).fill("They do not have them");
  await page.getByRole("button", { name: "Send 2 again" }).click();
  await page.waitForURL(/\/operations\/[0-9a-f-]{36}$/);
  await page.getByText("You ordered it.").waitFor();
  await signIn(context, hooklatch, "admin");
  await looksWell(page, page.url());
  const shown = await text(page.getByRole("main"));
  assert.match(shown, /What it acts on 2 held messages to bank\..*May repeat an effect\. Makes 2 calls again.*Some of them.*Approve: let it begin/);
  await page.getByLabel("To confirm, type the number").fill("2");
  await page.getByLabel(reason).first().fill("I looked at them");
  await page.getByRole("button", { name: "Approve: let it begin" }).click();
  await page.getByText("done", { exact: true }).first().waitFor();
});

browserTest("an operation that stops while its page is open offers to continue, and one that ended offers nothing", {}, async ({ page, context }) => {
  const hooklatch = await guarded();
  const ids = Array.from({ length: 11 }, (_, n) => `evt_stops_${n}`);
  for (const id of ids) await accepted(stripe(hooklatch, id, "payout.stops"));
  for (const id of ids) await messagesOf(hooklatch, id, "dead");
  await signIn(context, hooklatch, "operator");
  await page.goto(`${hooklatch.url}/operations/new/send?subject=messages&state=dead&destination=ledger`);
  const n = /(\d+) dead messages to ledger/.exec(await text(page.locator(".found")))[1];
  await page.getByLabel("To confirm, type the number").fill(n);
  await page.getByLabel(reason).fill("They said that they are back");
  await page.getByRole("button", { name: `Send ${n} again` }).click();
  await page.waitForURL(/\/operations\/[0-9a-f-]{36}$/);
  await page.getByRole("button", { name: "Continue the operation" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Cancel the operation" }).isVisible(), true);
  await page.getByLabel(reason).last().fill("They are not");
  await page.getByRole("button", { name: "Cancel the operation" }).click();
  await page.getByText("cancelled", { exact: true }).first().waitFor();
  assert.equal(await page.locator("main form").count(), 0);
});
