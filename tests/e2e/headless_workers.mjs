// `weft worker --gpu`: the engine of a tab without a browser, on Dawn's software adapter. What it
// computes beside a native worker and a tab, what it keeps, how it leaves, and what it says where
// it may not help.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { buildHarness, harness, launchBrowser, noBrowser, Tab } from "./lib/tabs.mjs";
import {
  complete, eventually, gpuWorker, kQuantPackageOf, nativeWorker, noDawn, packageOf, reasonToSkip,
  serve, stream, swarmOf,
} from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny") || noDawn();
const kServer = ["--context", "256", "--sessions", "2"];
const kRequest = {
  model: "weft-tiny", max_tokens: 40,
  messages: [{ role: "user", content: "Tell me a story about a little fox who lost a red ball." }],
};
const kShort = { ...kRequest, max_tokens: 8 };
// No two of them hold the model, which takes some 15 MB in f16.
const kNativeBytes = 11_600_000;
const kTabBytes = 24_600_000;
const kGpuBytes = 17_000_000;

let folder = "";
before(() => (folder = mkdtempSync(join(tmpdir(), "weft-gpu-"))));
after(() => rmSync(folder, { recursive: true, force: true }));

const textOf = ({ choices: [choice] }) => choice.message.content;

// A server, and what ends with it: body({server, help}), `help` starts a headless worker.
function headlessTest(name, serverArguments, body, reason = skip) {
  test(name, { skip: reason, timeout: 300_000 }, async () => {
    const server = await serve(packageOf("weft-tiny"), [...kServer, ...serverArguments]);
    const workers = [];
    const help = (args, origin = server.origin, environment = {}) => {
      const worker = gpuWorker(origin, ["--cache", join(folder, name), ...args], true, environment);
      workers.push(worker);
      return worker;
    };
    try {
      await body({ server, help, cache: join(folder, name) });
    } catch (error) {
      for (const worker of workers) error.stack += `\nA worker said:\n${worker.output}`;
      error.stack += `\nThe server said:\n${server.output.slice(-4000)}`;
      throw error;
    } finally {
      for (const worker of workers) worker.child.kill("SIGKILL");
      await server.stop();
    }
  });
}

async function isUp(server, deviceCount) {
  return await eventually(async () => {
    const swarm = await swarmOf(server.origin);
    assert.equal(swarm.state, "up", JSON.stringify(swarm));
    assert.equal(swarm.stages.length, deviceCount);
    return swarm;
  }, 120_000);
}

async function answerAlone() {
  const server = await serve(packageOf("weft-tiny"), kServer);
  try {
    await isUp(server, 1);
    return textOf(await complete(server.origin, kRequest));
  } finally {
    await server.stop();
  }
}

headlessTest("a native worker, a tab and a headless worker answer together, and it may leave",
  ["--no-worker", "--web-root", harness],
  async ({ server, help }) => {
    const expected = await answerAlone();
    const browser = await launchBrowser();
    const native = nativeWorker(server.origin,
      ["--memory", String(kNativeBytes), "--threads", "1"]);
    try {
      const tab = await Tab.open(await browser.newContext(), server.origin);
      await tab.start({ name: "tab", memoryBytes: kTabBytes });
      const first = help(["--name", "first GPU", "--memory", String(kGpuBytes)]);
      const { workers } = await isUp(server, 3);
      const { kind, engine, device } = workers.find(({ name }) => name === "first GPU");
      assert.deepEqual([kind, engine], ["headless", "webgpu"]);
      assert.match(device, /SwiftShader.*Node/);
      assert.equal(textOf(await complete(server.origin, kRequest)), expected);

      // It goes in the middle of an answer; with another one the same answer goes on.
      let second = null;
      const { text, finishReason } = await stream(server.origin, kRequest, async () => {
        if (second) return;
        first.child.kill("SIGINT");
        assert.equal(await first.exited, 0);
        second = help(["--name", "second GPU", "--memory", String(kGpuBytes)]);
      });
      assert.deepEqual([text, finishReason], [expected, "length"]);
      await server.waitFor(/closed: it left/);
      assert.deepEqual(tab.errors.filter((text) => !text.includes("404")), []); // no favicon
    } finally {
      await browser.close();
      await native.stop();
    }
  }, skip || noBrowser());

// Its integers are the native engine's, its activations are not: by margins the text is the same.
for (const [form, packaged] of [
  ["q4s", () => packageOf("weft-tiny", "q4s")],
  ["a GGUF file", () => kQuantPackageOf("weft-tiny")],
]) test(`superblocks of ${form} make the text of a native worker`, { skip, timeout: 120_000 },
  async () => {
    const server = await serve(packaged(), [...kServer, "--no-worker"]);
    try {
      const native = nativeWorker(server.origin, ["--threads", "1"]);
      await isUp(server, 1);
      const expected = textOf(await complete(server.origin, kRequest));
      await native.stop();
      const worker = gpuWorker(server.origin,
        ["--cache", join(folder, `cache of ${form}`), "--memory", "400MiB"]);
      await worker.waitFor(/Ready: the whole model/, 60_000);
      assert.equal(textOf(await complete(server.origin, kRequest)), expected);
      await worker.stop();
    } finally {
      await server.stop();
    }
  });

headlessTest("what it downloaded is there the next time, and what is torn is downloaded again",
  ["--no-worker"], async ({ server, help, cache }) => {
    const args = ["--name", "GPU", "--memory", "400MiB"];
    const first = help(args);
    await isUp(server, 1);
    const expected = textOf(await complete(server.origin, kShort));
    assert.match(first.output, /Ready: the whole model of weft-tiny\./);
    first.child.kill("SIGTERM");
    assert.equal(await first.exited, 0);
    const id = readFileSync(join(cache, "gpu-worker-id-0"), "utf8");
    const blobs = readdirSync(join(cache, "blobs"));
    assert.ok(blobs.every((name) => /^[0-9a-f]{64}$/.test(name)), blobs.join());

    const torn = blobs.map((name) => join(cache, "blobs", name))
      .find((path) => readFileSync(path).length > 100_000);
    const bytes = readFileSync(torn);
    const original = Buffer.from(bytes);
    bytes[bytes.length >> 1] ^= 1;
    writeFileSync(torn, bytes);
    const second = help(args);
    await second.waitFor(/Ready: the whole model/, 60_000);
    assert.doesNotMatch(second.output, /Downloading/);
    assert.equal(textOf(await complete(server.origin, kShort)), expected);
    assert.deepEqual(readFileSync(torn), original);
    assert.equal(readFileSync(join(cache, "gpu-worker-id-0"), "utf8"), id);
  });

headlessTest("over TLS with the fingerprint that the server prints, and with no other",
  ["--no-worker", "--share", "--address", "127.0.0.1"], async ({ server, help }) => {
    const [, token, line] = await server.waitFor(/WEFT_JOIN_TOKEN=(\w+) weft worker (wss:.*)/);
    const [address, , fingerprint] = line.trim().split(" ");
    assert.match(fingerprint, /^[0-9a-f]{64}$/);
    const refused = async (args, words) => {
      const worker = help(args, address);
      assert.equal(await worker.exited, 1, worker.output);
      assert.match(worker.output, words);
    };
    const wrong = "0".repeat(64);
    const memory = ["--memory", "400MiB"];
    await refused(["--token", token, ...memory],
      /certificate of .* is not trusted \((self-signed|unable)/);
    await refused(["--token", token, "--fingerprint", wrong, ...memory],
      new RegExp(`fingerprint ${fingerprint}, not ${wrong}`));
    await refused(["--token", "wrong", "--fingerprint", fingerprint, ...memory],
      /refuses this worker \(401\): .*join token/);
    // However it is told the token, nobody else on the machine can read it while it helps.
    const trusted = ["--fingerprint", fingerprint, "--name", "GPU", ...memory];
    const told = [[`${address}#${token}`, {}], [address, { WEFT_JOIN_TOKEN: token }]];
    for (const [at, environment] of told) {
      const worker = help(trusted, at, environment);
      await worker.waitFor(/Ready: the whole model of weft-tiny/, 60_000);
      const shown = readFileSync(`/proc/${worker.child.pid}/cmdline`, "utf8");
      assert.match(shown, /worker/);
      assert.doesNotMatch(shown, new RegExp(token));
      await worker.stop();
    }
  });

test("a software adapter is not taken without a word, and an adapter that is not there is named",
  { skip, timeout: 60_000 }, async () => {
    const said = async (args) => {
      const worker = gpuWorker("http://127.0.0.1:9", args, false);
      const status = await worker.exited;
      return [status, worker.output];
    };
    const [status, words] = await said([]);
    assert.equal(status, 1);
    assert.match(words, /is a software adapter: .* --allow-software/);
    const [, unknown] = await said(["--adapter", "7"]);
    assert.match(unknown, /There is no adapter 7: 'weft worker --gpu --adapter list' names those/);
    const [listed, list] = await said(["--list"]);
    assert.equal(listed, 0);
    assert.match(list, /^0 {2}SwiftShader.*only with --allow-software/m);
  });

before(async () => {
  if (!skip && !noBrowser()) await buildHarness();
});
