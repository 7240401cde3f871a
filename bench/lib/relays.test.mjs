// Links between real sockets: what passes, what a cut and silence do, how slow a slow one is.
import assert from "node:assert/strict";
import { once } from "node:events";
import http from "node:http";
import net from "node:net";
import { test } from "node:test";

import { Relays } from "./relays.mjs";
import { until } from "./weft_processes.mjs";

// body(relays, link origin, connect) with an echo server behind the link.
function linkTest(name, body) {
  test(name, { timeout: 60_000 }, async () => {
    const echo = net.createServer((socket) => socket.on("error", () => {}).pipe(socket));
    echo.listen(0, "127.0.0.1");
    await once(echo, "listening");
    const relays = new Relays(`http://127.0.0.1:${echo.address().port}`);
    const sockets = [];
    try {
      const port = Number(new URL(await relays.add()).port);
      await body(relays, () => {
        const socket = net.connect(port, "127.0.0.1");
        socket.on("error", () => {});
        socket.received = 0;
        socket.on("data", (bytes) => (socket.received += bytes.length));
        sockets.push(socket);
        return socket;
      });
    } finally {
      sockets.forEach((socket) => socket.destroy());
      await relays.close();
      echo.close();
    }
  });
}

const come = (socket, byteCount) =>
  until(() => socket.received >= byteCount, () => `${byteCount} bytes`, 40_000);
const closed = (socket) => until(() => socket.closed, () => "a closed connection", 40_000);

// Milliseconds until all of it has come back.
async function echoed(socket, bytes) {
  const began = performance.now();
  const wanted = socket.received + bytes.length;
  socket.write(bytes);
  await come(socket, wanted);
  return performance.now() - began;
}

linkTest("bytes pass both ways, and a cut link resets old and new connections",
  async (relays, connect) => {
    const socket = connect();
    await echoed(socket, Buffer.alloc(3 << 20));
    await relays.cut(0);
    await closed(socket);
    await closed(connect());
    await relays.heal(0);
    await echoed(connect(), Buffer.from("again"));
  });

linkTest("a silent link keeps what it is given until it is healed", async (relays, connect) => {
  const socket = connect();
  await echoed(socket, Buffer.from("a"));
  await relays.silence(0);
  socket.write("bcd");
  const late = connect();
  late.write("e");
  await new Promise((resolve) => setTimeout(resolve, 200));
  assert.deepEqual([socket.received, late.received, socket.closed], [1, 0, false]);
  await relays.heal(0);
  await come(socket, 4);
  await come(late, 1);
});

linkTest("a slow link takes its delay each way, and its rate", async (relays, connect) => {
  const socket = connect();
  await relays.shape(0, { delayMs: 20 });
  const pingMs = await echoed(socket, Buffer.from("a"));
  assert.ok(pingMs >= 39, `${pingMs}`);
  await relays.shape(0, { delayMs: 0, upBytesPerS: 1e6 });
  const bulkMs = await echoed(socket, Buffer.alloc(400_000));
  assert.ok(bulkMs >= 399, `${bulkMs}`);
});

test("the server sees its own name", { timeout: 60_000 }, async () => {
  const server = http.createServer((request, response) =>
    response.end(`${request.headers.host} ${request.headers.origin}`));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const origin = `http://127.0.0.1:${server.address().port}`;
  const relays = new Relays(origin);
  try {
    const link = await relays.add();
    const answer = await fetch(link, { headers: { Origin: link } });
    assert.equal(await answer.text(), `${new URL(origin).host} ${origin}`);
  } finally {
    await relays.close();
    server.closeAllConnections();
    server.close();
  }
});
