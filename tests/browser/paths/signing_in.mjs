// Tests of signing in and out.
import assert from "node:assert/strict";
import { browserTest, looksWell } from "../kit/browser.mjs";
import { guarded, signIn, tokens } from "../kit/world.mjs";

browserTest("a wrong token is refused, a valid one opens the requested page", {}, async ({ page, watch }) => {
  const hooklatch = await guarded();
  watch.statuses.add(401);
  await page.goto(`${hooklatch.url}/messages?state=held`);
  await page.waitForURL(/\/sign-in\?/);
  await page.getByLabel("Token").fill("absent-has-this-token-0123");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").getByText("This token is not valid. Check that you copied all of it.").waitFor();
  watch.statuses.clear();
  await page.getByLabel("Token").fill(tokens.operator);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL(`${hooklatch.url}/messages?state=held`);
  const [cookie] = await page.context().cookies();
  assert.deepEqual([cookie.httpOnly, cookie.sameSite], [true, "Strict"]);
  assert.equal(await page.evaluate(() => document.cookie), "");
});

browserTest("signing out ends the session, and the back button shows no page", {}, async ({ page, context, watch }) => {
  const hooklatch = await guarded();
  await signIn(context, hooklatch, "reader");
  await page.goto(`${hooklatch.url}/events`);
  await page.getByRole("link", { name: "Sign out" }).click();
  await page.getByRole("button", { name: "Sign out here" }).click();
  await page.waitForURL(/\/sign-in/);
  await page.goBack();
  await page.goBack();
  await page.waitForURL(/\/sign-in/);
  assert.deepEqual(watch.complaints, []);
});

browserTest("signing out everywhere ends the session of another browser, too", {}, async ({ page, context, t }) => {
  const hooklatch = await guarded();
  const other = await context.browser().newContext();
  t.after(() => other.close());
  for (const one of [context, other]) await signIn(one, hooklatch, "viewer");
  const elsewhere = await other.newPage();
  await elsewhere.goto(`${hooklatch.url}/events`);
  await elsewhere.getByRole("heading", { level: 1, name: "Events" }).waitFor();
  await page.goto(`${hooklatch.url}/sign-out`);
  await page.getByRole("button", { name: "Sign out everywhere" }).click();
  await page.waitForURL(/\/sign-in/);
  await elsewhere.reload();
  await elsewhere.waitForURL(/\/sign-in/);
});

browserTest("the pages for signing in and out fit the window", {}, async ({ page, context }) => {
  const hooklatch = await guarded();
  await looksWell(page, `${hooklatch.url}/sign-in`);
  await signIn(context, hooklatch, "viewer");
  await looksWell(page, `${hooklatch.url}/sign-out`);
});
