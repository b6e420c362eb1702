// Pictures for the pages of docs/: made by a path when `scripts/browser --pictures` runs it, small enough for a repository.
import assert from "node:assert/strict";
import { statSync } from "node:fs";
import path from "node:path";

const folder = process.env.HOOKLATCH_TEST_PICTURES;
/** Largest picture. Bytes. */
const BYTES_MAX = 150_000;

/** True when pictures are made. */
export const isAsked = folder !== undefined;

/** Keeps what the window shows, without what differs from run to run as far as that goes. */
export async function keep(page, name, height = 800) {
  await page.setViewportSize({ width: page.viewportSize().width, height });
  const file = path.join(folder, `${name}.png`);
  await page.screenshot({ path: file });
  assert.ok(statSync(file).size < BYTES_MAX, `${name}.png is too large`);
}
