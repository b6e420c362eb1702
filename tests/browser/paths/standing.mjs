// Tests that the screens show the state as it is.
import assert from "node:assert/strict";
import { browserTest, text } from "../kit/browser.mjs";
import { farSide } from "../kit/far_side.mjs";
import { start, until } from "../kit/programs.mjs";
import { accepted, secrets, stripe } from "../kit/sender.mjs";
import { asked, guarded, list, messagesOf, once, signIn } from "../kit/world.mjs";

/** A receiver with a name, one destination that is away and one that never answers; each customer has a lane. */
const broken = once(async () => {
  const far = await farSide();
  const hooklatch = await start((listen) => `
[server]
name = "staging-eu"
listen = "${listen.server}"
[admin]
listen = "${listen.admin}"
tokens = [${list}]
[database]
url = "sqlite://hooklatch.db"
[providers.stripe]
secrets = ["${secrets.stripe}"]
routes = [{ on = ["away.*"], to = "away", lane = "payload.customer" }, { on = ["bank.*"], to = "bank" }]
[destinations.away]
url = "http://127.0.0.1:9/"
breaker_failures_n = 1
breaker_open_ms = 3600000
retry = { first_ms = 3600000, max_ms = 3600000 }
[destinations.bank]
url = "${far.url}/lost"
unknown = "hold"
`);
  const stop = () => Promise.all([far.stop(), hooklatch.stop()]);
  return { ...hooklatch, stop };
});

browserTest("a stuck lane is not shown as moving, and a breaker that retries by itself needs no operator", {}, async ({ page, context }) => {
  const hooklatch = await broken();
  await accepted(stripe(hooklatch, "evt_lane_a", "away.paid", { object: { customer: "cus_a" } }));
  await until("the breaker is open", async () => (await asked(hooklatch, "/destinations/away")).breaker === "open");
  await accepted(stripe(hooklatch, "evt_lane_b", "away.paid", { object: { customer: "cus_b" } }));
  await messagesOf(hooklatch, "evt_lane_b", "ready");
  await signIn(context, hooklatch, "viewer");
  await page.goto(`${hooklatch.url}/lanes`);
  for (const customer of ["cus_a", "cus_b"]) {
    const row = page.locator("tbody tr").filter({ hasText: customer });
    assert.match(await text(row), /breaker open.*The circuit breaker of the destination is open/, customer);
    assert.equal(await row.locator(".good").count(), 0, customer);
  }
  await page.goto(hooklatch.url);
  assert.doesNotMatch(await text(page.locator("section[aria-labelledby=needs]")), /breaker|away/);
  await page.goto(`${hooklatch.url}/destinations`);
  assert.match(await text(page.locator("tbody tr").filter({ hasText: "away" })), /open/);
});

browserTest("a held call shows since when it is held, and not the end of a lease", {}, async ({ page, context }) => {
  const hooklatch = await broken();
  const beforeMs = Date.now();
  await accepted(stripe(hooklatch, "evt_since", "bank.paid"));
  const [message] = await messagesOf(hooklatch, "evt_since", "held");
  const heldMs = Date.now();
  await signIn(context, hooklatch, "viewer");
  for (const [path, row] of [["/", "section[aria-labelledby=needs] tbody tr"], ["/destinations/bank", "#backlog + .scroll tbody tr"]]) {
    await page.goto(hooklatch.url + path);
    const since = await page.locator(row).filter({ hasText: "held" }).locator("time").getAttribute("datetime");
    assert.ok(Date.parse(since) >= beforeMs && Date.parse(since) <= heldMs, `${path}: ${since}`);
  }
  await page.goto(`${hooklatch.url}/messages/${message.message_id}`);
  assert.doesNotMatch(await text(page.getByRole("main")), /due in/);
});

browserTest("the name of the server stands in the head and the title of every page, and times say that they are UTC", {}, async ({ page, context }) => {
  const hooklatch = await broken();
  await accepted(stripe(hooklatch, "evt_named", "away.named"));
  await signIn(context, hooklatch, "operator");
  await page.goto(hooklatch.url);
  const names = await page.getByRole("navigation", { name: "Pages", exact: true }).getByRole("link").allInnerTexts();
  for (const name of names) {
    await page.getByRole("navigation", { name: "Pages", exact: true }).getByRole("link", { name, exact: true }).click();
    await page.getByRole("heading", { level: 1, name, exact: true }).waitFor();
    assert.equal(await page.title(), `${name} · staging-eu · Hooklatch`);
    assert.equal(await text(page.locator(".server")), "staging-eu");
    for (const time of await page.locator("main time").allInnerTexts()) assert.match(time, /UTC/, name);
  }
  // Pointed at, a time says what it is on the clock of who looks.
  await page.goto(`${hooklatch.url}/events`);
  const time = page.locator("main time").first();
  await time.hover();
  const local = await time.evaluate((one) => new Date(one.dateTime).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" }));
  assert.equal(await time.getAttribute("title"), `${await time.getAttribute("datetime")} (${local} where you are)`);
});

browserTest("the live list reports no lost connection before it had one", {}, async ({ page, context }) => {
  const hooklatch = await guarded();
  await signIn(context, hooklatch, "viewer");
  await page.addInitScript(() => {
    document.addEventListener("DOMContentLoaded", () => {
      const state = document.querySelector("[data-follow] [role=status]");
      globalThis.said = [state.textContent];
      new MutationObserver(() => globalThis.said.push(state.textContent)).observe(state, { childList: true });
    });
  });
  await page.goto(`${hooklatch.url}/events`);
  // With the list as the first look found it.
  await page.waitForResponse(`${hooklatch.url}/events`);
  assert.deepEqual(await page.evaluate(() => globalThis.said), ["Live."]);
});

browserTest("a link to a deleted record names it", {}, async ({ page, context, watch }) => {
  const hooklatch = await guarded();
  await signIn(context, hooklatch, "operator");
  watch.statuses.add(404);
  for (const [path, id] of [["/messages/987654321", "987654321"], ["/destinations/nowhere", "nowhere"], ["/senders/absent", "absent"],
    ["/operations/6786bdd7-8501-5613-8a55-399a7ed94452", "6786bdd7-8501-5613-8a55-399a7ed94452"], ["/events/stripe/evt_gone", "evt_gone"]]) {
    assert.equal((await page.goto(hooklatch.url + path)).status(), 404, path);
    assert.match(await text(page.getByRole("alert")), new RegExp(id), path);
  }
});

browserTest("a forgery shows its address, and a wrong path the sender that was meant", {}, async ({ page, context }) => {
  const hooklatch = await guarded();
  assert.equal(await stripe(hooklatch, "evt_forged_from", "order.paid", { secret: "whsec_of_somebody_else" }), 401);
  assert.equal((await fetch(`${hooklatch.receiver}/webhooks/strpe`, { method: "POST", body: "{}" })).status, 404);
  await signIn(context, hooklatch, "reader");
  const row = page.locator("tbody tr").filter({ hasText: "/webhooks/strpe" });
  await page.goto(`${hooklatch.url}/rejected`);
  assert.match(await text(row), /Probably meant for stripe: correct the URL at the sender/);
  const request = page.getByText("The request", { exact: true }).first();
  await until("the forgery is noted", async () => {
    await page.goto(`${hooklatch.url}/rejected?provider=stripe`);
    return request.count();
  });
  await request.click();
  assert.match(await text(page.locator("details[open]").first()), /Client 127\.0\.0\.1/);
});
