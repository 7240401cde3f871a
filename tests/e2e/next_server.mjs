// Workers that know several addresses: where one does not answer they go on at the next one, with
// the keys and values that they hold. And devices that come before their model is loaded.
import assert from "node:assert/strict";
import { cpSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { proxy } from "./lib/proxy.mjs";
import {
  eventually, nativeWorker, packageOf, reasonToSkip, serve, stream, swarmOf,
} from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny");
const kServer = ["--context", "1024", "--sessions", "2", "--no-worker"];
const kStory = "A fox found a lantern in the snow and carried it home over the hill. ";
const kFewPositions = 60; // steps under way, and rows that a device is checked with

// Many tokens to read, and enough to write that the line breaks in the middle of them.
const about = (word, { stories, tokens }) => ({
  model: "weft-tiny", ignore_eos: true, max_tokens: tokens,
  messages: [{ role: "user", content: `${word}. ${kStory.repeat(stories)}` }],
});

async function up(server) {
  return await eventually(async () => {
    const swarm = await swarmOf(server.origin);
    assert.equal(swarm.state, "up", JSON.stringify(swarm));
    return swarm;
  }, 60_000);
}

// One worker that knows a proxy and the server behind it; the proxy ends in the middle of an
// answer.
function goesOnTest(name, size, start) {
  test(name, { skip, timeout: 120_000 }, async () => {
    const folder = mkdtempSync(join(tmpdir(), "weft-next-"));
    const server = await serve(packageOf("weft-tiny"), kServer);
    const front = await proxy(server.origin, () => false);
    const worker = start([front.origin, server.origin], join(folder, "cache"));
    try {
      const { workers, stages } = await up(server);
      const positions = async () => (await swarmOf(server.origin)).computed_positions;
      const before = await positions();
      const alone = await stream(server.origin, about("Once", size));
      const costs = await positions() - before;
      assert.ok(costs > 2 * kFewPositions, `${costs} positions`);

      const begun = await positions();
      let broken = false;
      const answer = await stream(server.origin, about("Twice", size), (text) => {
        if (text.length < 40 || broken) return;
        broken = true;
        front.close();
      });
      assert.ok(broken);
      assert.equal(answer.finishReason, "length");
      const after = await swarmOf(server.origin);
      assert.equal(after.workers.length, 1);
      assert.notEqual(after.workers[0].id, workers[0].id, "it came again");
      const cost = after.computed_positions - begun;
      assert.ok(cost < costs + kFewPositions, `${cost} positions, without a break ${costs}`);
      // Nothing was loaded again, and nothing is different.
      assert.equal(after.stages[0].binding, stages[0].binding);
      assert.equal((await stream(server.origin, about("Once", size))).text, alone.text);
    } catch (error) {
      error.stack += `\nThe worker said:\n${worker.output}\nThe server said:\n${server.output}`;
      throw error;
    } finally {
      worker.child.kill("SIGKILL");
      front.close();
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    }
  });
}

const socketsOf = (origins) => origins.map((origin) => origin.replace(/^http/, "ws"));

goesOnTest("a native worker goes on at its next server with its keys and values",
  { stories: 20, tokens: 120 },
  ([first, ...others], cache) =>
    nativeWorker(first, [...socketsOf(others), "--threads", "1", "--cache", cache]));

test("a worker starts where its first server does not answer", { skip, timeout: 60_000 },
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "weft-next-"));
    const server = await serve(packageOf("weft-tiny"), kServer);
    const worker = nativeWorker("http://127.0.0.1:9",
      [...socketsOf([server.origin]), "--threads", "1", "--cache", folder]);
    try {
      await up(server);
      const wrong = nativeWorker(server.origin, [...socketsOf([server.origin, server.origin]),
        "--fingerprint", "ab", "--fingerprint", "cd"]);
      assert.equal(await wrong.exited, 2);
      assert.match(wrong.output, /--fingerprint is given 2 times for 3 servers; expected one/);
    } finally {
      worker.child.kill("SIGKILL");
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    }
  });

// A WebSocket of which the first message of the server counts: "init", or "close CODE REASON".
function firstMessage(origin) {
  const { hostname, port, host } = new URL(origin);
  return new Promise((resolve, reject) => {
    const socket = net.connect(Number(port), hostname);
    let bytes = Buffer.alloc(0);
    socket.on("error", reject);
    socket.on("close", () => reject(new Error("the socket closed without a word")));
    socket.on("data", (more) => {
      bytes = Buffer.concat([bytes, more]);
      const head = bytes.indexOf("\r\n\r\n");
      const frame = bytes.subarray(head + 4);
      if (head < 0 || frame.length < 4) return;
      const isClose = (frame[0] & 0x0f) === 8;
      const [code, reason] = [frame.readUInt16BE(2), frame.subarray(4, 2 + frame[1]).toString()];
      resolve(isClose ? `close ${code} ${reason}`.trim() : "init");
      socket.destroy();
    });
    socket.write(`GET /worker HTTP/1.1\r\nHost: ${host}\r\nUpgrade: websocket\r\n` +
      "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n" +
      `Sec-WebSocket-Key: ${Buffer.alloc(16, 7).toString("base64")}\r\n\r\n`);
  });
}

test("who comes before a model is loaded waits, and is not refused", { skip, timeout: 60_000 },
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "weft-library-"));
    mkdirSync(join(folder, "packages"));
    cpSync(packageOf("weft-tiny"), join(folder, "packages", "tiny"), { recursive: true });
    const server = await serve([], ["--context", "256", "--threads", "1"], { WEFT_HOME: folder });
    try {
      assert.equal(await firstMessage(server.origin), "close 4307");
      const waiting = firstMessage(server.origin);
      await stream(server.origin, { ...about("Hello", { stories: 0, tokens: 4 }), model: "tiny" });
      assert.equal(await waiting, "init");
    } finally {
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    }
  });
