// A proxy that shows the operator side under a path, as those of companies do.
import http from "node:http";

/** A proxy on a free port; `to.url` says where to, once that is known. Below its path alone is anything. */
export async function proxy(path) {
  const to = { url: undefined };
  const server = http.createServer((request, response) => {
    if (!request.url.startsWith(`${path}/`)) {
      response.writeHead(404).end("nothing of ours");
      return;
    }
    const { method, headers } = request;
    const onwards = http.request(to.url + request.url.slice(path.length), { method, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    onwards.on("error", () => response.destroy());
    response.on("close", () => onwards.destroy());
    request.pipe(onwards);
  });
  await new Promise((resolve) => { server.listen(0, "127.0.0.1", resolve); });
  return {
    url: `http://127.0.0.1:${server.address().port}${path}`,
    to,
    stop: () => new Promise((resolve) => {
      server.close(resolve);
      server.closeAllConnections();
    }),
  };
}
