// A proxy in front of weft that tests use to spoil answers and lines: everything passes as it is,
// WebSockets included, unless `spoil` takes the request into its own hands.
import http from "node:http";
import net from "node:net";

// spoil({request, response, forward}): true when it answers itself. forward() gives {status,
// headers, body} of the real answer.
export async function proxy(origin, spoil) {
  const target = new URL(origin);
  const server = http.createServer(async (request, response) => {
    const forward = () => forwarded(target, request);
    try {
      if (await spoil({ request, response, forward })) return;
      const { status, headers, body } = await forward();
      response.writeHead(status, headers).end(body);
    } catch {
      response.destroy();
    }
  });
  const lines = [];
  server.on("upgrade", (request, socket) => lines.push([tunnel(target, request, socket), socket]));
  const sockets = new Set();
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    origin: `http://127.0.0.1:${server.address().port}`,
    // Like a cable that is pulled: the WebSockets of now stay open at both ends and carry nothing.
    silence: () => {
      for (const [upstream, socket] of lines.splice(0)) {
        upstream.unpipe(socket);
        socket.unpipe(upstream);
      }
    },
    close: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

// The headers as if they had been sent to the target itself.
function rewritten(target, headers) {
  const { host, origin } = target;
  return { ...headers, host, ...(headers.origin ? { origin } : {}) };
}

function forwarded(target, request) {
  const { method, url } = request;
  const headers = rewritten(target, request.headers);
  return new Promise((resolve, reject) => {
    const outgoing = http.request(new URL(url, target), { method, headers }, (answer) => {
      const pieces = [];
      answer.on("data", (piece) => pieces.push(piece));
      answer.on("end", () => {
        const body = Buffer.concat(pieces);
        resolve({ status: answer.statusCode, headers: answer.headers, body });
      });
    });
    outgoing.on("error", reject);
    request.pipe(outgoing);
  });
}

// Repeats a WebSocket's handshake to the target and carries what follows; gives the other end.
function tunnel(target, request, socket) {
  const upstream = net.connect(Number(target.port), target.hostname, () => {
    const head = Object.entries(rewritten(target, request.headers))
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join("");
    upstream.write(`GET ${request.url} HTTP/1.1\r\n${head}\r\n`);
    upstream.pipe(socket);
    socket.pipe(upstream);
  });
  upstream.on("error", () => socket.destroy());
  socket.on("error", () => upstream.destroy());
  return upstream;
}
