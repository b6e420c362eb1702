// One Chromium for all tests. Every test has a context of its own, and every complaint of a page fails it.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { after, describe, it } from "node:test";

const home = process.env.HOOKLATCH_TEST_BROWSER;
assert.ok(home, "HOOKLATCH_TEST_BROWSER is not set: run scripts/browser");
const require = createRequire(path.join(home, "package.json"));
const { chromium } = require("playwright-core");
const { source: axeSource } = require("axe-core");

const places = ["chromium", "chromium-browser", "google-chrome"].flatMap((name) =>
  (process.env.PATH ?? "").split(":").map((folder) => path.join(folder, name)));
const executablePath = [process.env.HOOKLATCH_TEST_CHROMIUM, ...places].find((one) => one && existsSync(one));
assert.ok(executablePath, "there is no Chromium: run scripts/browser");
const chromiumStarted = chromium.launch({
  executablePath,
  args: process.getuid() === 0 ? ["--no-sandbox"] : [],
});
after(async () => (await chromiumStarted).close());

/** Longest that a page may take for anything. Milliseconds. */
const PATIENCE_MS = 30_000;
/** Largest page, of those that show no body of an event. Bytes. */
const PAGE_BYTES_MAX = 60_000;
const RULES = ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"];

/** Complaints of everything that is open in a context. `statuses` are those that a test expects. */
class Watch {
  complaints = [];
  statuses = new Set();
  // True where a second click follows before the answer to the first one.
  clicksTwice = false;

  constructor(context) {
    context.on("page", (page) => this.#page(page));
    context.on("dialog", (dialog) => {
      this.complaints.push(`a dialog says: ${dialog.message()}`);
      dialog.dismiss();
    });
    context.on("weberror", (error) => this.complaints.push(`an error in a page: ${error.error().stack}`));
  }

  #page(page) {
    page.on("console", (message) => {
      const status = /status of (\d{3})/.exec(message.text())?.[1];
      const isMeant = status && this.statuses.has(Number(status));
      if (!isMeant && !["log", "info", "debug", "verbose"].includes(message.type())) {
        this.complaints.push(`the console says (${message.type()}) at ${page.url()}: ${message.text()}`);
      }
    });
    page.on("response", (response) => {
      if (response.status() >= 400 && !this.statuses.has(response.status())) {
        this.complaints.push(`${response.status()} at ${response.url()}`);
      }
    });
    page.on("requestfailed", (request) => {
      // A stream and a look again end when their page does, and a first click's answer when a second one is made.
      const mayBeLeft = !request.isNavigationRequest() || this.clicksTwice;
      const isLeft = request.failure()?.errorText === "net::ERR_ABORTED" && mayBeLeft;
      if (!isLeft) this.complaints.push(`${request.url()}: ${request.failure()?.errorText}`);
    });
  }

  check() {
    assert.deepEqual([...new Set(this.complaints)], []);
  }
}

/** A browser of this `width`, colour `scheme` and with or without scripts; every page of it is watched. */
export async function visitor({ width = 1280, scheme = "light", isScripted = true, headers } = {}) {
  const context = await (await chromiumStarted).newContext({
    viewport: { width, height: 800 },
    colorScheme: scheme,
    javaScriptEnabled: isScripted,
    extraHTTPHeaders: headers,
    reducedMotion: "reduce",
  });
  context.setDefaultTimeout(PATIENCE_MS);
  const watch = new Watch(context);
  await context.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => {
      console.error(`policy: ${event.violatedDirective} at ${event.blockedURI} ${event.sample}`);
    });
  });
  const page = await context.newPage();
  return { context, page, watch };
}

const paths = [];

/** A test of the console, with a page of its own. */
export function browserTest(sentence, options, walk) {
  paths.push([sentence, async (t) => {
    const { context, page, watch } = await visitor(options);
    try {
      await walk({ t, context, page, watch });
      watch.check();
    } finally {
      await context.close();
    }
  }]);
}

/** Runs all tests, two at a time: they share a browser and a Hooklatch, and use records of their own. */
export function walkAll() {
  describe("the console", { concurrency: 2 }, () => {
    for (const [sentence, walk] of paths) it(sentence, { timeout: 60_000 }, walk);
  });
}

/** The text of what is found there, one line. */
export async function text(locator) {
  return (await locator.innerText()).replace(/\s+/g, " ").trim();
}

/** True when the page itself can be pushed aside: something in it is wider than the window. */
export function isTooWide(page) {
  return page.evaluate(() => {
    const root = document.scrollingElement;
    if (root.scrollWidth <= root.clientWidth) return "";
    const isOver = (one) => one.getBoundingClientRect().right > root.clientWidth + 1;
    const isHeld = (one) => one !== document.body && (getComputedStyle(one).overflowX !== "visible" || isHeld(one.parentElement));
    const wide = [...document.body.querySelectorAll("*")].filter((one) => isOver(one) && !isHeld(one.parentElement));
    return `${root.scrollWidth} px: ${wide.map((one) => `${one.tagName}.${one.className}`).slice(0, 8).join(", ")}`;
  });
}

/** What axe finds on a page as it stands. */
export async function barriers(page) {
  if (!await page.evaluate(() => "axe" in globalThis)) await page.evaluate(axeSource);
  const found = await page.evaluate(async (values) => {
    const { violations } = await globalThis.axe.run(document, { runOnly: { type: "tag", values }, resultTypes: ["violations"] });
    return violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => `${node.html} ${node.failureSummary}`).join("; ")}`);
  }, RULES);
  return found;
}

/** What is pressed and is smaller than 24 by 24 px (WCAG 2.5.8). Links within a sentence may be as small as its text. */
export function tooSmall(page) {
  return page.evaluate(() => {
    const letters = (one) => {
      const copy = one.cloneNode(true);
      for (const part of copy.querySelectorAll("a, button, summary, time")) part.remove();
      return copy.textContent.replace(/[^\p{L}]/gu, "").length;
    };
    const isInline = (one) => getComputedStyle(one).display === "inline" && letters(one.parentElement) >= 3;
    const boxOf = (one) => (one.matches("[type=checkbox], [type=radio]") && one.closest("label") || one).getBoundingClientRect();
    return [...document.querySelectorAll("a, button, input:not([type=hidden]), select, textarea, summary")]
      .filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.matches(".unseen, .skip") && !isInline(one))
      .map((one) => [one, boxOf(one)])
      .filter(([, { width, height }]) => width < 24 || height < 24)
      .map(([one, { width, height }]) => `${one.outerHTML.slice(0, 120)}: ${Math.round(width)} by ${Math.round(height)}`);
  });
}

/** Opens a page and checks it wide and narrow, light and dark. */
export async function looksWell(page, url, { isLarge = false } = {}) {
  const answer = await page.goto(url.replace(/#.*/, ""));
  const found = [];
  const bytes = (await answer.body()).length;
  if (!isLarge && bytes > PAGE_BYTES_MAX) found.push(`${bytes} bytes`);
  for (const width of [1280, 390]) {
    await page.setViewportSize({ width, height: 800 });
    const wide = await isTooWide(page);
    if (wide) found.push(`${width}: wider than the window: ${wide}`);
    found.push(...(await tooSmall(page)).map((one) => `${width}: too small to press: ${one}`));
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      found.push(...(await barriers(page)).map((one) => `${width} ${colorScheme}: ${one}`));
    }
  }
  assert.deepEqual(found, [], url);
}
