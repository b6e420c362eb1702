// The destinations of messages: each answers by its path, and records its requests.
import http from "node:http";

/** A destination on a free port: `/done` takes it, `/refuse` never does, and says so as `refusal` has it; `/lost`
 * hangs up without an answer. */
export async function farSide() {
  const calls = [];
  const says = { refusal: "no such customer" };
  const server = http.createServer((request, response) => {
    request.resume().once("end", () => {
      calls.push({ path: request.url, key: request.headers["idempotency-key"] });
      if (request.url === "/lost") return request.socket.destroy();
      response.writeHead(request.url === "/refuse" ? 422 : 200, { "content-type": "text/plain" });
      return response.end(request.url === "/refuse" ? says.refusal : "ok");
    });
  });
  await new Promise((resolve) => { server.listen(0, "127.0.0.1", resolve); });
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    calls,
    says,
    stop: () => new Promise((resolve) => {
      server.close(resolve);
      server.closeAllConnections();
    }),
  };
}
