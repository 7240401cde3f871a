// A server of the page that speaks another version: sends one binary WebSocket message to every
// worker that connects, and nothing else.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import http from "node:http";
import { extname, join } from "node:path";

const kTypes = { ".html": "text/html", ".js": "text/javascript", ".wasm": "application/wasm" };
const kWebSocketGuid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

export async function fakeServer(webRoot, firstMessage) {
  const server = http.createServer((request, response) => {
    const path = request.url === "/" ? "/index.html" : new URL(request.url, "http://x").pathname;
    try {
      const body = readFileSync(join(webRoot, path));
      response.writeHead(200, { "Content-Type": kTypes[extname(path)] ?? "text/plain" }).end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  const sockets = new Set();
  let connections = 0;
  server.on("upgrade", (request, socket) => {
    ++connections;
    sockets.add(socket);
    const key = request.headers["sec-websocket-key"] + kWebSocketGuid;
    const accept = createHash("sha1").update(key).digest("base64");
    socket.write(
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
        `Sec-WebSocket-Accept: ${accept}\r\n\r\n`,
    );
    // One final binary frame of less than 126 bytes.
    socket.write(Buffer.concat([Buffer.from([0x82, firstMessage.length]), firstMessage]));
    socket.on("error", () => {});
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    origin: `http://127.0.0.1:${server.address().port}`,
    connections: () => connections,
    close: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
