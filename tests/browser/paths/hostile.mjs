// Tests of hostile input: all of it is shown as text.
import assert from "node:assert/strict";
import { browserTest, isTooWide } from "../kit/browser.mjs";
import { accepted, github, stripe } from "../kit/sender.mjs";
import { asked, far, guarded, messagesOf, signIn } from "../kit/world.mjs";
import { until } from "../kit/programs.mjs";

const tags = `<hostile-tag>"><img src=x onerror=alert(1)><script>alert(2)</script></textarea></pre>`;
const breaks = `" autofocus onfocus="alert(3)" data-hostile="1' data-hostile='1`;
const bidi = "\u202egnp.exe\u2066\u200b"; // An id may have these, but no control characters.
const turned = `${bidi}\u001b[31mred\u001b[0m\u0007`;
const long = "long".repeat(20_000);

/** What a page must not have after hostile text was rendered on it. */
async function isUnhurt(page, what) {
  const made = page.locator("hostile-tag, [data-hostile], [onerror], [onfocus], img, iframe, object, embed, main script, body style");
  assert.equal(await made.count(), 0, `${what}: something was made of a text`);
  const odd = await page.evaluate(() => /[\u202a-\u202e\u2066-\u2069\u200b\u001b\u0007]/u.test(document.body.innerText));
  assert.equal(odd, false, `${what}: a character that hides or turns things around is shown raw`);
  assert.equal(await isTooWide(page), "", what);
}

browserTest("hostile text in every stored field is text on every page", { width: 390 }, async ({ page, context, watch }) => {
  const hooklatch = await guarded();
  (await far()).says.refusal = tags + turned;
  const id = `evt_${tags}${breaks}`;
  const signed = { object: { note: tags + turned, long, [tags]: breaks }, headers: { "user-agent": tags, "x-odd": breaks + long.slice(0, 2_000) } };
  await accepted(stripe(hooklatch, id, `payout.${tags}`, signed));
  await accepted(stripe(hooklatch, `evt_${bidi}`, `charge.${bidi}`, signed));
  await accepted(stripe(hooklatch, `evt_${long.slice(0, 200)}`, `charge.${long.slice(0, 200)}`, signed));
  assert.equal(await stripe(hooklatch, id, `payout.${tags}`, { ...signed, object: { note: breaks } }), "conflict");
  await accepted(github(hooklatch, `gh-${breaks}`, tags, { action: tags, note: turned }));
  assert.equal(await stripe(hooklatch, `forged-${tags}`, tags, { ...signed, secret: "whsec_of_somebody_else" }), 401);
  assert.equal(await stripe(hooklatch, `late-${tags}`, tags, { ...signed, atS: 1 }), 401);
  const { items: messages } = await until("its messages are held or dead", async () => {
    const found = await asked(hooklatch, "/messages?limit=500");
    const own = found.items.filter((one) => one.event_id.startsWith("evt_<") || one.event_id.startsWith("evt_\u202e"));
    return own.length === 2 && own.every((one) => ["held", "dead"].includes(one.state)) && { items: own };
  });
  await signIn(context, hooklatch, "admin");
  const path = (eventId, provider = "stripe") => `/events/${provider}/${encodeURIComponent(eventId)}`;
  const { items: events } = await asked(hooklatch, "/events?state=conflict");
  const pages = ["/", "/events", path(id), path(`evt_${bidi}`), path(`evt_${long.slice(0, 200)}`), path(`gh-${breaks}`, "github"),
    ...events.filter((one) => one.type.includes("hostile")).map((one) => path(one.event_id)),
    ...messages.map((one) => `/messages/${one.message_id}`), "/messages", "/messages?state=dead", "/lanes", "/destinations",
    "/destinations/ledger", "/senders", "/rejected", "/operations", "/audit"];
  for (const one of pages) {
    await page.goto(hooklatch.url + one);
    await isUnhurt(page, one);
  }
  assert.ok((await page.goto(hooklatch.url + path(id))).ok());
  assert.ok((await page.locator("body").innerText()).includes("<hostile-tag>"), "it is shown as it is");
  // Hostile text in a URL, and in a form.
  watch.statuses.add(400).add(404);
  for (const one of [`/search?id=${encodeURIComponent(id)}`, `/search?id=${encodeURIComponent(tags)}`, `/events?type=${encodeURIComponent(tags)}`,
    `/events?provider=${encodeURIComponent(breaks)}`, `/events?from=${encodeURIComponent(tags)}`, `/messages?lane=${encodeURIComponent(breaks)}`, path(tags),
    `/destinations/${encodeURIComponent(tags)}`, `/operations/new?subject=${encodeURIComponent(tags)}&state=dead`]) {
    await page.goto(hooklatch.url + one);
    await isUnhurt(page, one);
  }
  const message = messages.find((one) => one.state === "held");
  await page.goto(`${hooklatch.url}/messages/${message.message_id}`);
  await page.getByLabel("Reason, for the audit log").fill(tags);
  await page.getByRole("button", { name: "Settle as done" }).click();
  await page.waitForURL(/\/messages\/\d+$/);
  await isUnhurt(page, "a reason");
  (await far()).says.refusal = "no such customer";
});

browserTest("hostile text in an event of the live list is text as well", {}, async ({ page, context }) => {
  const hooklatch = await guarded();
  await signIn(context, hooklatch, "viewer");
  await page.goto(`${hooklatch.url}/events`);
  await page.locator("[data-follow] [role=status]").getByText("Live.").waitFor();
  await accepted(stripe(hooklatch, `live-${tags}`, `live.${turned}`, { object: { note: breaks } }));
  await page.locator("tbody tr").filter({ hasText: "live-<hostile-tag>" }).waitFor();
  await isUnhurt(page, "/events");
});
