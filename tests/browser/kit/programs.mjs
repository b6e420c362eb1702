// Programs that the tests need: Hooklatch itself, on free ports and in a folder of its own.
import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import readline from "node:readline";
import { fileURLToPath } from "node:url";

const root = path.resolve(fileURLToPath(import.meta.url), "../../../..");
const binary = process.env.HOOKLATCH_TEST_BINARY ?? path.join(root, "target/debug/hooklatch");

/** Ports that were free a moment ago, all different. */
async function freePorts(n) {
  const servers = await Promise.all(Array.from({ length: n }, () => new Promise((resolve) => {
    const server = net.createServer().listen(0, "127.0.0.1", () => resolve(server));
  })));
  const ports = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

/** Waits until `look` returns something; on a timeout the error names what was awaited. */
export async function until(what, look, withinMs = 30_000) {
  const end = Date.now() + withinMs;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`this was awaited for ${withinMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** A running Hooklatch: `config(ports)` is its file; `isDev` starts it as newcomers do. */
export async function start(config, { isDev = false } = {}) {
  const [port, adminPort] = await freePorts(2);
  const folder = await mkdtemp(path.join(tmpdir(), "hooklatch-browser-"));
  const listen = { server: `127.0.0.1:${port}`, admin: `127.0.0.1:${adminPort}` };
  await writeFile(path.join(folder, "hooklatch.toml"), config(listen));
  const child = spawn(binary, ["serve", ...(isDev ? ["--dev"] : []), "--config", "hooklatch.toml"], {
    cwd: folder,
    env: { PATH: process.env.PATH },
    stdio: ["ignore", "pipe", "pipe"],
  });
  process.once("exit", () => child.kill("SIGKILL"));
  const said = [];
  let banner = "";
  child.stdout.on("data", (text) => { banner += text; });
  await new Promise((resolve, reject) => {
    const lines = readline.createInterface({ input: child.stderr });
    lines.on("line", (line) => {
      said.push(line);
      if (line.includes('"message":"started"')) resolve();
    });
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`hooklatch ended with ${code}:\n${said.join("\n")}`)));
  });
  return {
    receiver: `http://${listen.server}`,
    url: `http://${listen.admin}`,
    banner: () => banner,
    async stop() {
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGTERM");
      await ended;
      await rm(folder, { recursive: true });
    },
  };
}
