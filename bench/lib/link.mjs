// One worker's link to the server: a TCP relay that can be cut, go silent, or be slow. Everything
// that the worker opens, its WebSocket and its downloads, goes through it.
import net from "node:net";

import {
  MessageReader, decodePrepareStage, decodePrepared, decodeStep,
} from "./websocket_frames.mjs";

// What may lie in a slow direction before the sender has to wait.
const kQueueBytes = 1 << 20;
const kRequestHead = /^(GET|HEAD|POST) /;

// One direction: what is taken off comes out `delayMs` later, `bytesPerS` (0: no limit) at most.
class Direction {
  #queued = 0;
  #freeAtMs = 0;
  #timers = [];

  constructor(from, to, link, rateName, look) {
    Object.assign(this, { from, to, link, rateName });
    from.on("data", (chunk) => {
      link.byteCount += chunk.length;
      this.#queued += chunk.length;
      if (this.#queued > kQueueBytes) from.pause();
      this.#later(chunk.length, () => {
        this.#queued -= chunk.length;
        if (!to.destroyed && !to.write(look(chunk))) from.pause();
        else this.resume();
      });
    });
    from.on("end", () => this.#later(0, () => to.end()));
    to.on("drain", () => this.resume());
  }

  // Calls back at once where the link is not slow. Node's timers count whole milliseconds.
  #later(byteCount, callBack) {
    const { delayMs } = this.link.shape;
    const bytesPerS = this.link.shape[this.rateName];
    const now = performance.now();
    const busyMs = bytesPerS > 0 ? (byteCount / bytesPerS) * 1000 : 0;
    this.#freeAtMs = Math.max(this.#freeAtMs, now) + busyMs;
    const waitMs = this.#freeAtMs - now + delayMs;
    if (waitMs === 0) callBack();
    else this.#timed(waitMs, callBack);
  }

  // In the order in which they came, also where the link became faster meanwhile.
  #timed(waitMs, callBack) {
    this.#timers.push(callBack);
    setTimeout(() => this.#timers.shift()(), waitMs);
  }

  resume() {
    const full = this.to.writableNeedDrain || this.#queued > kQueueBytes;
    if (!this.link.silent && !full) this.from.resume();
  }
}

export class Link {
  cut = false;
  silent = false;
  shape = { delayMs: 0, downBytesPerS: 0, upBytesPerS: 0 };
  prepares = []; // {at, first, end, ms}: from PrepareStage to Prepared, ms null until then
  webSockets = 0; // open now
  byteCount = 0; // both ways
  #ranges = new Map(); // binding -> its entry of prepares, of the connection that is open
  #pairs = new Set();

  // `target` is the server's {host, port}; steps are told to `onStep(range, runs)`.
  constructor(target, onStep) {
    this.target = target;
    this.onStep = onStep;
    this.server = net.createServer((socket) => this.#open(socket));
  }

  async listen() {
    await new Promise((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    return this.server.address().port;
  }

  // Both ends see a reset, and new connections are reset as well.
  cutOff() {
    this.cut = true;
    for (const pair of this.#pairs) pair.destroy();
  }

  // A pulled cable: bytes stay where they are, nobody is told. They go on when it is plugged in.
  goSilent() {
    this.silent = true;
    for (const pair of this.#pairs) pair.pause();
  }

  heal() {
    this.cut = false;
    this.silent = false;
    for (const pair of this.#pairs) pair.resume();
  }

  #open(client) {
    if (this.cut) return client.resetAndDestroy();
    const upstream = net.connect(this.target.port, this.target.host);
    const pair = this.#pair(client, upstream);
    this.#pairs.add(pair);
    for (const [from, to] of [[client, upstream], [upstream, client]]) {
      from.setNoDelay(true);
      from.on("error", () => to.destroy());
      from.on("close", () => this.#pairs.delete(pair));
    }
    if (this.silent) pair.pause();
  }

  #pair(client, upstream) {
    const { down, up } = this.#readers(upstream);
    const directions = [
      new Direction(client, upstream, this, "upBytesPerS", (chunk) => {
        up.push(chunk);
        return this.#renamed(chunk);
      }),
      new Direction(upstream, client, this, "downBytesPerS", (chunk) => {
        down.push(chunk);
        return chunk;
      }),
    ];
    return {
      pause: () => directions.forEach(({ from }) => from.pause()),
      resume: () => directions.forEach((direction) => direction.resume()),
      destroy: () => [client, upstream].forEach((socket) => socket.resetAndDestroy()),
    };
  }

  // The server answers to its own name only.
  #renamed(chunk) {
    if (!kRequestHead.test(chunk.toString("latin1", 0, 5))) return chunk;
    const own = `127.0.0.1:${this.server.address().port}`;
    const name = `${this.target.host}:${this.target.port}`;
    const end = chunk.indexOf("\r\n\r\n");
    const head = chunk.toString("latin1", 0, end < 0 ? chunk.length : end);
    const rest = end < 0 ? Buffer.alloc(0) : chunk.subarray(end);
    return Buffer.concat([Buffer.from(head.replaceAll(own, name), "latin1"), rest]);
  }

  #readers(upstream) {
    const down = new MessageReader((head) => {
      const opened = head.startsWith("HTTP/1.1 101");
      if (opened) {
        this.#ranges.clear();
        ++this.webSockets;
        upstream.on("close", () => --this.webSockets);
      }
      return opened;
    }, (head) => this.#onServerMessage(head));
    const up = new MessageReader(
      (head) => /^upgrade: *websocket/im.test(head), (head) => this.#onWorkerMessage(head));
    return { down, up };
  }

  #onServerMessage(head) {
    const step = decodeStep(head);
    if (step) {
      const range = this.#ranges.get(step.binding);
      if (range) this.onStep(range, step.runs);
      return;
    }
    const prepare = decodePrepareStage(head);
    if (!prepare) return;
    const entry = { at: performance.now(), first: prepare.first, end: prepare.end, ms: null };
    this.#ranges.set(prepare.binding, entry);
    this.prepares.push(entry);
  }

  #onWorkerMessage(head) {
    const entry = this.#ranges.get(decodePrepared(head)?.binding);
    if (entry && entry.ms === null) entry.ms = performance.now() - entry.at;
  }
}
