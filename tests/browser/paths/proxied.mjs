// Tests through a proxy that shows the console under a path of its own.
import assert from "node:assert/strict";
import { browserTest, text } from "../kit/browser.mjs";
import { start } from "../kit/programs.mjs";
import { proxy } from "../kit/proxy.mjs";
import { accepted, stripe } from "../kit/sender.mjs";
import { config, far, list, tokens } from "../kit/world.mjs";

browserTest("behind a proxy that shows it under a path, every link, form, file and stream stays below that path", {}, async ({ page, t }) => {
  const front = await proxy("/ops/hooks");
  t.after(() => front.stop());
  const admin = `public_url = "${front.url}"\ntokens = [${list}]`;
  const { url } = await far();
  const hooklatch = await start((listen) => config(listen, url, admin));
  t.after(() => hooklatch.stop());
  front.to.url = hooklatch.url;
  page.on("request", (request) => assert.ok(request.url().startsWith(`${front.url}/`), request.url()));
  await page.goto(`${front.url}/`);
  await page.getByLabel("Token").fill(tokens.operator);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  const names = await page.getByRole("navigation", { name: "Pages", exact: true }).getByRole("link").allInnerTexts();
  for (const name of names) {
    await page.getByRole("navigation", { name: "Pages", exact: true }).getByRole("link", { name, exact: true }).click();
    await page.getByRole("heading", { level: 1, name, exact: true }).waitFor();
  }
  await page.goto(`${front.url}/events`);
  await page.locator("[data-follow] [role=status]").getByText("Live.").waitFor();
  await accepted(stripe(hooklatch, "evt_proxied", "invoice.paid"));
  await page.getByRole("link", { name: "evt_proxied" }).click();
  await page.getByRole("heading", { level: 1, name: "evt_proxied" }).waitFor();
  await page.goto(`${front.url}/destinations/billing`);
  await page.getByText("Pause …").click();
  await page.getByLabel("Reason, for the audit log").fill("Maintenance");
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByRole("button", { name: "Resume" }).waitFor();
  await page.getByRole("link", { name: "Sign out" }).click();
  await page.getByRole("button", { name: "Sign out here" }).click();
  await page.getByLabel("Token").waitFor();
  assert.equal(await text(page.getByRole("heading", { level: 1 })), "Sign in");
});
