// A proxy in front of weft that tests use to spoil answers and lines: everything passes as it is,
// WebSockets included, unless `spoil` takes the request into its own hands.
import http from "node:http";
import net from "node:net";

// spoil({request, response, forward}): true when it answers itself. forward() gives {status,
// headers, body} of the real answer. rewrite(message): what is sent on in the place of a message of
// a WebSocket's client. `added`: headers of every WebSocket's handshake. `delayMs`: how much longer
// what a WebSocket's server sends takes.
export async function proxy(origin, spoil, { rewrite = null, added = {}, delayMs = 0 } = {}) {
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
  server.on("upgrade", (request, socket) =>
    lines.push([tunnel(target, request, socket, { rewrite, added, delayMs }), socket]));
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
    // The WebSockets of now break, and others may be opened.
    cut: () => {
      for (const [upstream, socket] of lines.splice(0)) {
        upstream.destroy();
        socket.destroy();
      }
    },
    // The server notices first: who comes again at once does not meet the old line there.
    close: () => {
      for (const [upstream] of lines) upstream.destroy();
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
function tunnel(target, request, socket, { rewrite, added, delayMs }) {
  const upstream = net.connect(Number(target.port), target.hostname, () => {
    const head = Object.entries({ ...rewritten(target, request.headers), ...added })
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join("");
    upstream.write(`GET ${request.url} HTTP/1.1\r\n${head}\r\n`);
    if (delayMs === 0) upstream.pipe(socket);
    else upstream.on("data", (bytes) => setTimeout(() => socket.write(bytes), delayMs));
    if (rewrite === null) return socket.pipe(upstream);
    const take = messageReader((opcode, message) =>
      upstream.write(masked(opcode, opcode === kBinary ? rewrite(message) : message)));
    socket.on("data", take);
    socket.on("end", () => upstream.end());
  });
  upstream.on("error", () => socket.destroy());
  socket.on("error", () => upstream.destroy());
  return upstream;
}

const kBinary = 2;

// Takes a client's bytes, and hands on each of its messages when it is whole.
function messageReader(onMessage) {
  let bytes = Buffer.alloc(0);
  let pieces = [];
  let begun = 0;
  return (more) => {
    bytes = Buffer.concat([bytes, more]);
    for (let frame = readFrame(bytes); frame !== null; frame = readFrame(bytes)) {
      bytes = bytes.subarray(frame.end);
      if (frame.opcode >= 8) {
        onMessage(frame.opcode, frame.payload);
        continue;
      }
      if (frame.opcode !== 0) begun = frame.opcode;
      pieces.push(frame.payload);
      if (!frame.isLast) continue;
      onMessage(begun, Buffer.concat(pieces));
      pieces = [];
    }
  };
}

function readFrame(bytes) {
  if (bytes.length < 2) return null;
  const short = bytes[1] & 127;
  const mask = short < 126 ? 2 : short === 126 ? 4 : 10;
  if (bytes.length < mask + 4) return null;
  const length = short < 126 ? short
    : short === 126 ? bytes.readUInt16BE(2) : Number(bytes.readBigUInt64BE(2));
  const end = mask + 4 + length;
  if (bytes.length < end) return null;
  const payload = Buffer.from(bytes.subarray(mask + 4, end));
  for (let i = 0; i < length; ++i) payload[i] ^= bytes[mask + (i & 3)];
  return { opcode: bytes[0] & 15, isLast: bytes[0] >= 128, payload, end };
}

// One frame, with a mask of zeros.
function masked(opcode, payload) {
  const { length } = payload;
  const head = Buffer.alloc(length < 126 ? 6 : length < 65_536 ? 8 : 14);
  head[0] = 0x80 | opcode;
  head[1] = 0x80 | (length < 126 ? length : length < 65_536 ? 126 : 127);
  if (length >= 65_536) head.writeBigUInt64BE(BigInt(length), 2);
  else if (length >= 126) head.writeUInt16BE(length, 2);
  return Buffer.concat([head, payload]);
}
