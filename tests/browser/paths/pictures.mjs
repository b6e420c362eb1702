// The pictures of docs/console/, of a receiver as it may look on a weekday: `scripts/browser --pictures`.
import { browserTest } from "../kit/browser.mjs";
import { farSide } from "../kit/far_side.mjs";
import { isAsked, keep } from "../kit/pictures.mjs";
import { start } from "../kit/programs.mjs";
import { accepted, github, stripe } from "../kit/sender.mjs";
import { config, list, messagesOf, once, signIn } from "../kit/world.mjs";

/** A receiver of its own: what other tests send is on none of the pictures. */
const weekday = once(async () => {
  const far = await farSide();
  const hooklatch = await start((listen) => config(listen, far.url, `tokens = [${list}]`));
  const types = ["invoice.paid", "customer.updated", "charge.refunded", "invoice.paid", "payout.paid", "invoice.finalized"];
  for (let n = 0; n < 24; n += 1) {
    await accepted(stripe(hooklatch, `evt_1SWq8fLk2Zv${(4099 + n * 977).toString(36)}`, types[n % types.length], { object: { amount_paid: 1999 + n } }));
    if (n % 7 === 0) await accepted(github(hooklatch, `0f8c7b2e-${1000 + n}-11f0-9a3c`, "pull_request", { action: "opened", number: n }));
  }
  await stripe(hooklatch, "evt_1SWq8fLk2Zvrefund", "charge.refunded", { object: { amount: 4200 } });
  await stripe(hooklatch, "evt_1SWq8fLk2Zvrefund", "charge.refunded", { object: { amount: 4200 } });
  await stripe(hooklatch, "evt_1SWq8fLk2Zvrefund", "charge.refunded", { object: { amount: 4700 } });
  await stripe(hooklatch, "evt_1SWq8forged", "invoice.paid", { secret: "whsec_of_somebody_else" });
  const [message] = await messagesOf(hooklatch, "evt_1SWq8fLk2Zvrefund", "held");
  const stop = () => Promise.all([far.stop(), hooklatch.stop()]);
  return { hooklatch, message, stop };
});

function picture(name, height, options, walk) {
  if (!isAsked) return;
  browserTest(`a picture: ${name}`, options, async ({ page, context }) => {
    const { hooklatch, message } = await weekday();
    await signIn(context, hooklatch, "operator");
    await walk(page, hooklatch.url, message);
    await keep(page, name, height);
  });
}

picture("overview", 860, { width: 1120 }, async (page, url) => {
  await page.goto(url);
  await page.locator("svg").first().waitFor();
});
picture("events", 700, { width: 1120 }, async (page, url) => {
  await page.goto(`${url}/events`);
  await page.getByText("Live.").waitFor();
});
picture("ledger", 740, { width: 1120 }, (page, url) => page.goto(`${url}/events/stripe/evt_1SWq8fLk2Zvrefund`));
picture("held", 1000, { width: 1120 }, (page, url, message) => page.goto(`${url}/messages/${message.message_id}`));
picture("mobile", 780, { width: 390, scheme: "dark" }, async (page, url) => {
  await page.goto(`${url}/events`);
  await page.getByText("Live.").waitFor();
});
