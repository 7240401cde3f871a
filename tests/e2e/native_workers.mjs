// `weft worker` from its first line to its goodbye: who it is, and how it leaves.
import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import {
  mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync,
} from "node:fs";
import { get } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { proxy } from "./lib/proxy.mjs";
import {
  complete, eventually, nativeWorker, packageOf, reasonToSkip, serve, swarmOf,
} from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny");
const kServer = ["--context", "256", "--sessions", "2", "--no-worker"];

// body({server, line, cache, start, idOf}): `start` starts a worker on the one cache, over `line`,
// `idOf` reads an id file.
function workersTest(name, body) {
  test(name, { skip, timeout: 120_000 }, async () => {
    const cache = mkdtempSync(join(tmpdir(), "weft-cache-"));
    const server = await serve(packageOf("weft-tiny"), kServer);
    const line = await proxy(server.origin, () => false);
    const workers = [];
    const start = async (workerName) => {
      const worker = nativeWorker(line.origin,
        ["--memory", "256MiB", "--threads", "1", "--cache", cache, "--name", workerName]);
      workers.push(worker);
      await eventually(async () => {
        const { workers: joined } = await swarmOf(server.origin);
        assert.ok(joined.some((each) => each.name === workerName), worker.output);
      });
      return worker;
    };
    const idOf = (file) => readFileSync(join(cache, file), "utf8");
    try {
      await body({ server, line, cache, start, idOf });
    } finally {
      for (const worker of workers) worker.child.kill("SIGKILL");
      line.close();
      server.child.kill("SIGCONT");
      await server.stop();
      rmSync(cache, { recursive: true });
    }
  });
}

workersTest("workers that share a cache are different devices, each the same when it starts again",
  async ({ start, idOf }) => {
    await start("first");
    const second = await start("second");
    const ids = [idOf("worker-id"), idOf("worker-id-2")];
    assert.match(ids[0], /^[0-9a-f]{32}$/);
    assert.match(ids[1], /^[0-9a-f]{32}$/);
    assert.notEqual(ids[0], ids[1]);
    await second.stop();
    await start("second again");
    assert.equal(idOf("worker-id-2"), ids[1]);
  });

async function story(server) {
  return await eventually(async () => {
    const { workers } = await swarmOf(server.origin);
    assert.equal(workers.length, 1);
    const messages = [{ role: "user", content: "Tell me a story." }];
    const answer = await complete(server.origin, { model: "weft-tiny", messages, max_tokens: 8 });
    return answer.choices[0].message.content;
  }, 60_000);
}

test("a join token is told in four ways, and other users see it in none of them",
  { skip, timeout: 120_000 }, async () => {
    const token = "t".repeat(32);
    const folder = mkdtempSync(join(tmpdir(), "weft-token-"));
    const file = join(folder, "token");
    writeFileSync(file, `${token}\n`);
    const server = await serve(packageOf("weft-tiny"), kServer, { WEFT_JOIN_TOKEN: token });
    const ways = [["#" + token, [], {}], ["", ["--token", token], {}],
      ["", ["--token-file", file], {}], ["", [], { WEFT_JOIN_TOKEN: token }]];
    try {
      for (const [fragment, args, environment] of ways) {
        const worker = nativeWorker(server.origin + fragment,
          ["--memory", "256MiB", "--threads", "1", "--cache", folder, ...args], environment);
        try {
          await worker.waitFor(/connected to/);
          for (const kind of ["cmdline", "environ"]) {
            const shown = readFileSync(`/proc/${worker.child.pid}/${kind}`, "utf8");
            assert.doesNotMatch(shown, new RegExp(token));
          }
          assert.doesNotMatch(worker.output, new RegExp(token));
        } finally {
          await worker.stop();
        }
      }
      const none = nativeWorker(server.origin, ["--token-file", join(folder, "nothing")]);
      assert.equal(await none.exited, 3);
      assert.match(none.output, /nothing' cannot be read: No such file or directory/);
    } finally {
      await server.stop();
      rmSync(folder, { recursive: true });
    }
  });

workersTest("a damaged file of the cache is noticed and downloaded again",
  async ({ server, cache, start }) => {
    const first = await start("first");
    const expected = await story(server);
    await first.stop();
    const blobs = join(cache, "blobs");
    const sizes = readdirSync(blobs).map((name) => [statSync(join(blobs, name)).size, name]);
    const largest = sizes.reduce((a, b) => (b[0] > a[0] ? b : a))[1];
    const bytes = readFileSync(join(blobs, largest));
    bytes[bytes.length >> 1] ^= 1;
    writeFileSync(join(blobs, largest), bytes);
    const second = await start("second");
    assert.equal(await story(server), expected);
    assert.match(second.output, new RegExp(`${largest}.*does not match`));
    assert.ok(readdirSync(blobs).includes(`${largest}.corrupt`));
  });

workersTest("a worker that is told to stop says that it leaves", async ({ server, start }) => {
  const worker = await start("only");
  await story(server);
  worker.child.kill("SIGINT");
  assert.equal(await worker.exited, 0);
  await server.waitFor(/closed: it left/);
});

workersTest("a second signal ends a worker at once", async ({ server, start }) => {
  const worker = await start("only");
  const ended = new Promise((resolve) => {
    worker.child.on("exit", (code, signal) => resolve(signal ?? code));
  });
  server.child.kill("SIGSTOP"); // it answers no goodbye
  worker.child.kill("SIGTERM");
  await worker.waitFor(/once more ends at once/);
  worker.child.kill("SIGINT");
  assert.equal(await ended, "SIGINT");
});

workersTest("a worker that hears nothing for three pings closes its line and takes another",
  async ({ server, line, start }) => {
    const worker = await start("far away");
    await story(server);
    line.silence();
    // The server may notice the silence first, and end the line.
    await worker.waitFor(/not connected \((nothing came for 3000 ms|End of file)\); trying again/);
    await eventually(() => assert.equal(worker.output.match(/ connected to /g)?.length, 2));
    await story(server);
  });

test("no more devices than --worker-limit says are let in", { skip, timeout: 60_000 },
  async (t) => {
    const server = await serve(packageOf("weft-tiny"), [...kServer, "--worker-limit", "1"]);
    t.after(() => server.stop());
    const cache = mkdtempSync(join(tmpdir(), "weft-cache-"));
    t.after(() => rmSync(cache, { recursive: true }));
    const start = (workerName) => {
      const worker = nativeWorker(server.origin,
        ["--memory", "64MiB", "--threads", "1", "--cache", cache, "--name", workerName]);
      t.after(() => worker.stop());
      return worker;
    };
    start("first");
    const names = async () => (await swarmOf(server.origin)).workers.map(({ name }) => name);
    await eventually(async () => assert.deepEqual(await names(), ["first"]));
    await start("second").waitFor(/This swarm has 1 workers already, its limit: try again later/);
    assert.deepEqual((await names()).filter(Boolean), ["first"]);
  });

// Node's own TLS is the judge: what it trusts is the authority alone, as a phone does.
test("the certificate that a phone installs vouches for this server and for no other",
  { skip, timeout: 60_000 }, async (t) => {
    const start = async () => {
      const state = mkdtempSync(join(tmpdir(), "weft-state-"));
      t.after(() => rmSync(state, { recursive: true }));
      const server = await serve(packageOf("weft-tiny"), [...kServer, "--tls", "auto"],
        { XDG_STATE_HOME: state });
      t.after(() => server.stop());
      return server;
    };
    const ask = (url, options) => new Promise((resolve, reject) => {
      get(url, options, (answer) => {
        const pieces = [];
        answer.on("data", (piece) => pieces.push(piece));
        answer.on("end", () => resolve({ answer, body: Buffer.concat(pieces) }));
      }).on("error", reject);
    });
    const [one, other] = [await start(), await start()];
    const { answer, body } = await ask(`${one.origin}/certificate.crt`,
      { rejectUnauthorized: false });
    assert.equal(answer.statusCode, 200, body.toString());
    assert.equal(answer.headers["content-type"], "application/x-x509-ca-cert");
    const ca = new X509Certificate(body);
    assert.ok(ca.ca, "an authority");
    const trusting = { ca: ca.toString() };
    assert.equal((await ask(`${one.origin}/healthz`, trusting)).answer.statusCode, 200);
    await assert.rejects(ask(`${other.origin}/healthz`, trusting), /certificate/);
    await assert.rejects(ask(`${one.origin}/healthz`, {}), /certificate/);
  });
