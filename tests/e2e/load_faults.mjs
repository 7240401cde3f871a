// Layers that do not get onto a device: a cache that takes no more, a package that is damaged, a
// download that hardly moves. Each is told by name at once, and others are asked.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import {
  closeSync, cpSync, existsSync, mkdtempSync, openSync, readSync, readdirSync, rmSync, statSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { proxy } from "./lib/proxy.mjs";
import {
  complete, eventually, nativeWorker, packageOf, reasonToSkip, serve, stream, swarmOf, weft,
} from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny");
const kServer = ["--context", "256", "--sessions", "2", "--no-worker"];
const kRequest = {
  model: "weft-tiny", max_tokens: 8,
  messages: [{ role: "user", content: "Tell me a story." }],
};

// body({server, folder, help}): `help(name, memory, origin)` starts a worker, whose cache is its
// own.
function loadTest(name, body, makePackage = () => packageOf("weft-tiny")) {
  test(name, { skip, timeout: 180_000 }, async () => {
    const folder = mkdtempSync(join(tmpdir(), "weft-load-"));
    const server = await serve(makePackage(folder), kServer);
    const workers = [];
    const help = (workerName, memory = "256MiB", origin = server.origin) => {
      const worker = nativeWorker(origin, ["--memory", memory, "--threads", "1",
        "--cache", join(folder, workerName), "--name", workerName]);
      workers.push(worker);
      return worker;
    };
    try {
      await body({ server, folder, help });
    } finally {
      for (const worker of workers) worker.child.kill("SIGKILL");
      await server.stop();
      rmSync(folder, { recursive: true });
    }
  });
}

// A file of a megabyte is the longest that this helper may write: its disk is as good as full.
loadTest("a cache that takes no more is told at once, and another helper serves at once",
  async ({ server, folder, help }) => {
    const script = `trap '' XFSZ; ulimit -f 1000; exec "$0" "$@"`;
    const full = spawn("sh", ["-c", script, weft, "worker", server.origin.replace(/^http/, "ws"),
      "--memory", "256MiB", "--threads", "1", "--cache", join(folder, "full"), "--name", "full"]);
    try {
      const { message } = await eventually(async () => {
        const swarm = await swarmOf(server.origin);
        assert.match(swarm.workers[0]?.problem ?? "", /cache of this device fails/);
        return swarm;
      }, 5000);
      assert.match(message, /full cannot load layers: The cache of this device fails/);
      help("good");
      await eventually(async () => {
        assert.equal((await swarmOf(server.origin)).state, "up");
      }, 5000);
      await complete(server.origin, kRequest);
    } finally {
      full.kill("SIGKILL");
    }
  });

// In the middle, where it lies: the server has the file mapped.
function flipByte(path) {
  const file = openSync(path, "r+");
  const at = statSync(path).size >> 1;
  const byte = Buffer.alloc(1);
  readSync(file, byte, 0, 1, at);
  byte[0] ^= 1;
  writeSync(file, byte, 0, 1, at);
  closeSync(file);
}

let damaged = "";
loadTest("a damaged package is named, stays where it is, and is not the helper's fault",
  async ({ server, help }) => {
    help("helper");
    const digest = damaged.split("/").at(-1);
    const swarm = await eventually(async () => {
      const picture = await swarmOf(server.origin);
      assert.match(picture.message, /The package on the server is damaged/);
      return picture;
    }, 10_000);
    assert.match(swarm.message, new RegExp(digest));
    await server.waitFor(new RegExp(`package on the server is damaged.*${digest}`));
    assert.ok(existsSync(damaged));
    // It is asked again, and serves as soon as its server can.
    flipByte(damaged);
    await eventually(async () => {
      assert.equal((await swarmOf(server.origin)).state, "up");
    }, 40_000);
  },
  (folder) => {
    const copy = join(folder, "package");
    cpSync(packageOf("weft-tiny"), copy, { recursive: true });
    const blobs = readdirSync(join(copy, "blobs")).map((name) => join(copy, "blobs", name));
    damaged = blobs.reduce((a, b) => (statSync(b).size > statSync(a).size ? b : a));
    flipByte(damaged);
    return copy;
  });

// While a repair was under way nobody else was asked, and whatever moved, however slowly, put off
// its end: an answer waited for as long as the slowest line took, beside a device that was free.
loadTest("a repair that hardly moves is given up, and another device is taken",
  async ({ server, help }) => {
    let isSlow = false;
    const line = await proxy(server.origin, async ({ request, response, forward }) => {
      if (!isSlow || !request.url.startsWith("/package/blobs/")) return false;
      const { status, headers, body } = await forward();
      response.writeHead(status, headers);
      for (let at = 0; at < body.length && !response.destroyed; at += 4096) {
        response.write(body.subarray(at, at + 4096));
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
      response.end();
      return true;
    });
    try {
      const half = "15MB";
      const workers = { one: help("one", half), two: help("two", half) };
      const { stages, workers: joined } = await eventually(async () => {
        const swarm = await swarmOf(server.origin);
        assert.equal(swarm.state, "up");
        assert.equal(swarm.stages.length, 2);
        return swarm;
      }, 30_000);
      const back = joined.find(({ id }) => id === stages[1].worker).name;
      isSlow = true;
      help("slow", half, line.origin);
      await eventually(async () => {
        assert.equal((await swarmOf(server.origin)).workers.length, 3);
      });
      workers[back].child.kill("SIGKILL");
      const begin = performance.now();
      const answer = stream(server.origin, { ...kRequest, max_tokens: 16 });
      await eventually(async () => {
        const swarm = await swarmOf(server.origin);
        assert.equal(swarm.state, "repairing");
        const slow = swarm.workers.find(({ name }) => name === "slow");
        assert.equal(slow.state, "preparing");
      });
      help("free", half);
      const { text } = await answer;
      assert.notEqual(text, "");
      const seconds = (performance.now() - begin) / 1000;
      assert.ok(seconds < 40, `the answer waited for ${seconds.toFixed(1)} s`);
    } finally {
      line.close();
    }
  });
