// A proxy in front of weft that tests use to spoil answers: everything passes as it is, WebSockets
// included, unless `spoil` takes the request into its own hands.
import http from "node:http";
import net from "node:net";

// spoil({request, response, forward}): true when it answers itself. forward() gives {status,
// headers, body} of the real answer.
export async function proxy(origin, spoil) {
  const target = new URL(origin);
  const rewritten = (headers) => ({
    ...headers,
    host: target.host,
    ...(headers.origin ? { origin } : {}),
  });
  const sockets = new Set();
  const forward = (request) =>
    new Promise((resolve, reject) => {
      const { method, url, headers } = request;
      const outgoing = http.request(
        {
          host: target.hostname,
          port: target.port,
          method,
          path: url,
          headers: rewritten(headers),
        },
        (answer) => {
          const pieces = [];
          answer.on("data", (piece) => pieces.push(piece));
          answer.on("end", () =>
            resolve({
              status: answer.statusCode,
              headers: answer.headers,
              body: Buffer.concat(pieces),
            }),
          );
        },
      );
      outgoing.on("error", reject);
      request.pipe(outgoing);
    });
  const server = http.createServer(async (request, response) => {
    try {
      if (await spoil({ request, response, forward: () => forward(request) })) return;
      const { status, headers, body } = await forward(request);
      response.writeHead(status, headers).end(body);
    } catch {
      response.destroy();
    }
  });
  server.on("upgrade", (request, socket) => {
    const headers = Object.entries(rewritten(request.headers));
    const upstream = net.connect(Number(target.port), target.hostname, () => {
      const lines = headers.map(([name, value]) => `${name}: ${value}`).join("\r\n");
      upstream.write(`GET ${request.url} HTTP/1.1\r\n${lines}\r\n\r\n`);
      upstream.pipe(socket);
      socket.pipe(upstream);
    });
    upstream.on("error", () => socket.destroy());
    socket.on("error", () => upstream.destroy());
  });
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    origin: `http://127.0.0.1:${server.address().port}`,
    close: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
