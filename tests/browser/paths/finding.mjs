// Tests of finding one event and its effects.
import assert from "node:assert/strict";
import { browserTest, looksWell, text } from "../kit/browser.mjs";
import { until } from "../kit/programs.mjs";
import { accepted, adyen, github, stripe } from "../kit/sender.mjs";
import { asked, guarded, messagesOf, signIn } from "../kit/world.mjs";

browserTest("an event is found by its id, and its ledger shows the way from the request to the effect", {}, async ({ page, context }) => {
  const hooklatch = await guarded();
  await accepted(stripe(hooklatch, "evt_ledger", "invoice.paid", { object: { amount: 9_007_199_254_740_993 } }));
  assert.equal(await stripe(hooklatch, "evt_ledger", "invoice.paid", { object: { amount: 9_007_199_254_740_993 } }), "duplicate");
  await messagesOf(hooklatch, "evt_ledger", "done");
  await until("the copy is counted", async () => {
    const { entries } = await asked(hooklatch, "/events/stripe/evt_ledger");
    return entries.some((one) => one.what === "duplicates");
  });
  await signIn(context, hooklatch, "reader");
  await page.goto(hooklatch.url);
  await page.keyboard.press("/");
  await page.keyboard.type("evt_ledger");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "evt_ledger" }).waitFor();
  const entries = await page.locator(".timeline > li strong").allInnerTexts();
  for (const name of ["Received", "Latched", "Handled", "Effect", "Attempt", "Duplicates"]) {
    assert.ok(entries.includes(name), `${name} in ${entries}`);
  }
  assert.match(await text(page.locator("pre.body")), /"id": "evt_ledger"/);
});

browserTest("an event is found by Adyen's pspReference, explained and settled in three clicks", {}, async ({ page, context }) => {
  const hooklatch = await guarded();
  const pspReference = "NC6HT9CRT65ZGN82";
  await accepted(adyen(hooklatch, pspReference, "AUTHORISATION"));
  await messagesOf(hooklatch, `16:${pspReference},13:AUTHORISATION,4:true`, "held", "adyen");
  await signIn(context, hooklatch, "operator");
  await page.goto(hooklatch.url);
  let clicksN = 0;
  const click = async (what) => {
    clicksN += 1;
    await what.click();
  };
  await page.getByRole("searchbox").first().fill(` ${pspReference.toLowerCase()} `);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: `${pspReference} · AUTHORISATION · true` }).waitFor();
  assert.match(await text(page.getByRole("main")), /held/, "what happened");
  await click(page.locator(".timeline a[href*='/messages/']").first());
  await page.getByLabel("Reason, for the audit log").fill("The bank has it");
  await click(page.getByRole("button", { name: "Settle as done" }));
  await page.getByRole("main").locator(".chip.good").first().waitFor();
  assert.ok(clicksN <= 3, `${clicksN}`);
});

browserTest("part of an order id finds all events of the order", {}, async ({ page, context }) => {
  const hooklatch = await guarded();
  for (const code of ["CAPTURE", "REFUND"]) {
    const more = { merchantReference: "order-2026-0042", originalReference: "NC6HT9CRT65ZGN99" };
    await accepted(adyen(hooklatch, `NC6HT9CRT65${code}`, code, more));
  }
  await signIn(context, hooklatch, "reader");
  for (const id of ["ORDER-2026", "NC6HT9CRT65ZGN99", "https://ca-live.adyen.com/payments/NC6HT9CRT65ZGN99?x=1"]) {
    await page.goto(`${hooklatch.url}/search?id=${encodeURIComponent(id)}`);
    await page.getByRole("link", { name: "NC6HT9CRT65CAPTURE · CAPTURE · true" }).waitFor();
    await page.getByRole("link", { name: "NC6HT9CRT65REFUND · REFUND · true" }).waitFor();
  }
});

browserTest("the search for an unknown id shows how far it looked", {}, async ({ page, context }) => {
  const hooklatch = await guarded();
  await signIn(context, hooklatch, "viewer");
  await page.goto(`${hooklatch.url}/search?id=evt_of_nobody`);
  const main = await text(page.getByRole("main"));
  assert.match(main, /evt_of_nobody/);
  assert.ok(main.length > 100, main);
});

browserTest("a forgery is found by the id in its headers, and is shown as refused", {}, async ({ page, context }) => {
  const hooklatch = await guarded();
  assert.equal(await github(hooklatch, "gh-forged", "push", { a: 1 }, "the secret of another account"), 401);
  await signIn(context, hooklatch, "reader");
  await until("it is noted", async () => {
    await page.goto(`${hooklatch.url}/search?id=gh-forged`);
    return /signature does not match/.test(await text(page.getByRole("main")));
  });
});

browserTest("two contents under one id stand side by side, and differences have a sign besides their colour", {}, async ({ page, context }) => {
  const hooklatch = await guarded();
  await accepted(stripe(hooklatch, "evt_differs", "invoice.paid", { object: { amount: 1999 } }));
  assert.equal(await stripe(hooklatch, "evt_differs", "invoice.paid", { object: { amount: 9999 } }), "conflict");
  await signIn(context, hooklatch, "operator");
  await page.goto(`${hooklatch.url}/events/stripe/evt_differs`);
  await page.getByRole("link", { name: "What differs" }).click();
  const differs = page.locator("tr.diff:has(.sign)");
  await differs.first().waitFor();
  assert.match(await text(differs.first()), /− "amount": 1999.*\+ "amount": 9999/);
  await looksWell(page, page.url(), { isLarge: true });
});

browserTest("a token without access to contents sees no body, no header and no button", {}, async ({ page, context }) => {
  const hooklatch = await guarded();
  await accepted(stripe(hooklatch, "evt_private", "charge.refunded", { object: { card: "of-a-person" } }));
  const [message] = await messagesOf(hooklatch, "evt_private", "held");
  await signIn(context, hooklatch, "viewer");
  const paths = ["/", "/events", "/events/stripe/evt_private", "/messages", `/messages/${message.message_id}`, "/lanes",
    "/destinations", "/destinations/bank", "/operations", "/search?id=evt_private"];
  for (const path of paths) {
    await page.goto(hooklatch.url + path);
    assert.ok(!(await page.content()).includes("of-a-person"), path);
    assert.equal(await page.locator("form[method=post]").count(), 0, `${path} has a form that acts`);
  }
  const names = await page.getByRole("navigation", { name: "Pages", exact: true }).getByRole("link").allInnerTexts();
  assert.ok(!names.includes("Audit") && !names.includes("Settings"), names.join());
});

browserTest("a cross-site form is refused for every role", {}, async ({ page, context, watch, t }) => {
  const hooklatch = await guarded();
  await accepted(stripe(hooklatch, "evt_csrf", "charge.refunded"));
  const [message] = await messagesOf(hooklatch, "evt_csrf", "held");
  const path = `/messages/${message.message_id}/decide`;
  const form = { key: "forged", reason: "forged", act: "discard" };
  // As a viewer, with the form of an operator.
  await signIn(context, hooklatch, "viewer");
  const own = await context.request.post(hooklatch.url + path, { form, headers: { origin: hooklatch.url }, maxRedirects: 0 });
  assert.equal(own.status(), 403);
  // As an operator, from a page of another origin.
  await signIn(context, hooklatch, "operator");
  watch.statuses.add(403).add(404); // And no icon is there for an answer that is no page.
  const http = await import("node:http");
  const fields = Object.entries(form).map(([name, value]) => `<input name="${name}" value="${value}">`).join("");
  const server = http.createServer((_, response) => {
    response.setHeader("content-type", "text/html");
    response.end(`<!doctype html><link rel="icon" href="data:,"><form method="post" action="${hooklatch.url}${path}">${fields}<button>Win a prize</button></form>`);
  });
  await new Promise((resolve) => { server.listen(0, "127.0.0.1", resolve); });
  t.after(() => server.close());
  await page.goto(`http://localhost:${server.address().port}/`);
  await page.getByRole("button").click();
  await page.waitForURL((url) => url.port === new URL(hooklatch.url).port);
  assert.equal((await asked(hooklatch, `/messages/${message.message_id}`)).message.state, "held");
});
