// The console in a real browser, against the real binary. `scripts/browser` runs it; each test has a sentence.
// `scripts/browser --test-name-pattern=search` runs those whose sentence has this word.
import { walkAll } from "./kit/browser.mjs";
import "./paths/looking.mjs";
import "./paths/tail.mjs";
import "./paths/signing_in.mjs";
import "./paths/finding.mjs";
import "./paths/acting.mjs";
import "./paths/over_time.mjs";
import "./paths/asking.mjs";
import "./paths/money.mjs";
import "./paths/reading.mjs";
import "./paths/standing.mjs";
import "./paths/hostile.mjs";
import "./paths/proxied.mjs";
import "./paths/newcomer.mjs";
import "./paths/pictures.mjs";

walkAll();
