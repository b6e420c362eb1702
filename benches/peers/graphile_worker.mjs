// graphile-worker making the same calls as `benches/outbox`: prints calls a second. Driven by environment variables:
// DATABASE, DESTINATION, BODY, MESSAGES_N, CONCURRENCY_N, and TUNED=1 for its documented settings for throughput
// (a local queue, completions in batches), which give up part of what its default protects.
import { makeWorkerUtils, run, Logger } from "graphile-worker";
import { Agent, request } from "undici";
import pg from "pg";

const { DATABASE, DESTINATION, BODY, TUNED } = process.env;
const [messagesN, concurrency] = [Number(process.env.MESSAGES_N), Number(process.env.CONCURRENCY_N)];
const dispatcher = new Agent({ connections: concurrency, pipelining: 1 });
const pgPool = new pg.Pool({ connectionString: DATABASE, max: 10 });
pgPool.on("error", () => {});
pgPool.on("connect", (client) => client.on("error", () => {}));
const logger = new Logger(() => () => {});
const utils = await makeWorkerUtils({ pgPool, logger });
await utils.migrate();
await pgPool.query(
  "SELECT graphile_worker.add_job('call', json_build_object('n', n)) FROM generate_series(1, $1::int) n",
  [messagesN],
);
const tuned = { worker: { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } };
let doneN = 0;
const started = process.hrtime.bigint();
await run({
  pgPool, logger, concurrency, pollInterval: 1000, noHandleSignals: true,
  ...(TUNED ? { preset: tuned } : {}),
  taskList: {
    call: async ({ n }) => {
      const headers = { "idempotency-key": `k-${n}`, "content-type": "application/json" };
      const answer = await request(DESTINATION, { method: "POST", dispatcher, headers, body: BODY });
      await answer.body.dump();
      if (++doneN === messagesN) {
        const seconds = Number(process.hrtime.bigint() - started) / 1e9;
        console.log(doneN / seconds);
        process.exit(0);
      }
    },
  },
});
