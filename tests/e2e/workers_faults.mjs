// Tabs that meet trouble: spoiled and interrupted downloads, another protocol version, wrong
// tokens, too small an offer, stopping.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { fakeServer } from "./lib/fake_server.mjs";
import { proxy } from "./lib/proxy.mjs";
import { Tab, buildHarness, harness, launchBrowser, noBrowser } from "./lib/tabs.mjs";
import { eventually, packageOf, reasonToSkip, serve, stream, swarmOf } from "./lib/weft.mjs";

const skip = noBrowser() || reasonToSkip("weft-tiny", "stories260K");
const kContext = ["--context", "256", "--sessions", "2", "--no-worker"];

let browser = null;
before(async () => {
  if (skip) return;
  await buildHarness();
  browser = await launchBrowser();
});
after(async () => browser?.close());

// body({context, server, closing}): `closing` takes what is to be closed afterwards.
function swarmTest(name, { model = "stories260K", args = [], environment = {} }, body) {
  test(name, { skip, timeout: 120_000 }, async () => {
    const folder = packageOf(model);
    const server = await serve(
      folder, ["--web-root", harness, ...kContext, ...args], environment);
    const context = await browser.newContext();
    const closing = [];
    try {
      await body({ context, server, closing });
    } catch (error) {
      error.stack += `\nThe server said:\n${server.output.slice(-4000)}`;
      throw error;
    } finally {
      await context.close();
      for (const each of closing) each.close();
      await server.stop();
    }
  });
}

const kReadMs = 500;
const isBlob = (request) => request.url.startsWith("/package/blobs/");

swarmTest("a blob with a flipped bit is refused", {}, async ({ context, server, closing }) => {
  let spoils = true;
  const spoiled = await proxy(server.origin, async ({ request, response, forward }) => {
    if (!isBlob(request) || !spoils) return false;
    const { status, headers, body } = await forward();
    body[body.length >> 1] ^= 0x10;
    response.writeHead(status, headers).end(body);
    return true;
  });
  closing.push(spoiled);
  const tab = await Tab.open(context, spoiled.origin);
  await tab.start({ name: "careful", memoryBytes: 256e6 });
  await eventually(async () => {
    const { phase, message } = await tab.status();
    assert.match(message, /is not what the package promises/);
    assert.notEqual(phase, "ready");
  });
  const { cachedBytes, layers } = await tab.status();
  assert.equal(layers, null);
  assert.equal(cachedBytes, 0, "a spoiled chunk was kept");
  assert.notEqual((await swarmOf(server.origin)).state, "up");
  spoils = false; // the cache is not broken: the same tab starts again and computes
  await tab.stop();
  await tab.start({ name: "careful again", memoryBytes: 256e6 });
  await tab.waitFor("ready");
});

swarmTest(
  "an interrupted download goes on, and a reload finds the cache",
  { model: "weft-tiny" },
  async ({ context, server, closing }) => {
    let cut = 0;
    const ranges = [];
    const flaky = await proxy(server.origin, async ({ request, response, forward }) => {
      if (!isBlob(request)) return false;
      if (request.headers.range) ranges.push(request.headers.range);
      const { status, headers, body } = await forward();
      // Large blobs break after a whole chunk and a bit, twice.
      if (body.length < 1.5e6 || cut >= 2) {
        response.writeHead(status, headers).end(body);
        return true;
      }
      ++cut;
      response.writeHead(status, headers);
      // Not at once: an error drops what the browser has, but the page has not yet read.
      const cutOff = () => setTimeout(() => response.destroy(), kReadMs);
      response.write(body.subarray(0, (1 << 20) + 1000), cutOff);
      return true;
    });
    closing.push(flaky);
    const tab = await Tab.open(context, flaky.origin);
    await tab.start({ name: "patient", memoryBytes: 500e6 });
    const { cachedBytes } = await tab.waitFor("ready");
    assert.ok(cut >= 1 && ranges.includes("bytes=1048576-"), `${cut} cuts, ${ranges}`);
    assert.ok(cachedBytes > 10e6);
    await tab.page.reload();
    await tab.page.waitForFunction(() => window.help !== undefined);
    ranges.length = 0;
    await tab.start({ name: "patient", memoryBytes: 500e6 });
    await tab.waitFor("ready");
    const statuses = await tab.statuses();
    assert.ok(statuses.every(({ phase }) => phase !== "downloading"), "downloaded again");
    assert.equal(statuses.at(-1).cachedBytes, cachedBytes);
    await tab.page.evaluate(() => window.help.forgetCache());
    await eventually(async () => assert.equal((await tab.status()).cachedBytes, 0));
  },
);

swarmTest("a torn cache file heals itself", {}, async ({ context, server }) => {
  const tab = await Tab.open(context, server.origin);
  await tab.start({ name: "before", memoryBytes: 256e6 });
  await tab.waitFor("ready");
  await tab.stop();
  // One file gets other bytes of the same length, another is cut short.
  const spoiled = await tab.page.evaluate(async () => {
    const root = await navigator.storage.getDirectory();
    const folder = await root.getDirectoryHandle("weft-blobs");
    const files = [];
    for await (const handle of folder.values()) files.push(handle);
    for (const [index, handle] of files.slice(0, 2).entries()) {
      const { size } = await handle.getFile();
      const writable = await handle.createWritable();
      await writable.write(new Uint8Array(index === 0 ? size : size >> 1).fill(7));
      await writable.close();
    }
    return files.length;
  });
  assert.ok(spoiled >= 2);
  await tab.page.reload();
  await tab.page.waitForFunction(() => window.help !== undefined);
  await tab.start({ name: "after", memoryBytes: 256e6 });
  await tab.waitFor("ready");
  const request = {
    model: "stories260K",
    messages: [{ role: "user", content: "Once upon a time" }],
    max_tokens: 12,
  };
  const { text } = await stream(server.origin, request);
  assert.match(text, /^, there was a little girl named Lily\./);
});

test("another protocol version is told to reload", { skip, timeout: 60_000 }, async () => {
  // ServerMessage.init (field 1): protocol_version 9, program_version 1, package_format 1.
  const init = Buffer.from([0x01, 0x0a, 6, 0x08, 9, 0x10, 1, 0x18, 1]);
  const server = await fakeServer(harness, init);
  const context = await browser.newContext();
  try {
    const tab = await Tab.open(context, server.origin);
    await tab.start({ name: "old page", memoryBytes: 256e6 });
    const { message } = await tab.waitFor("refused");
    assert.equal(message, "The server speaks protocol version 9, this worker version 5: " +
      "reload the page, or update weft on this device.");
    await new Promise((resolve) => setTimeout(resolve, 1500));
    assert.equal(server.connections(), 1, "a refused page tries again");
  } finally {
    await context.close();
    server.close();
  }
});

const kToken = "0123456789abcdef0123456789abcdef";

swarmTest(
  "the join token is asked for",
  { args: ["--address", "0.0.0.0"], environment: { WEFT_JOIN_TOKEN: kToken } },
  async ({ context, server }) => {
    const origin = server.origin.replace(/\/\/[^:]+:/, "//127.0.0.1:");
    const tab = await Tab.open(context, origin);
    await tab.start({ name: "no token", memoryBytes: 256e6 });
    assert.match((await tab.waitFor("refused")).message, /join token/);
    await tab.start({ name: "wrong", memoryBytes: 256e6, joinToken: kToken.replace("0", "1") });
    assert.match((await tab.waitFor("refused")).message, /join token/);
    await tab.start({ name: "right", memoryBytes: 256e6, joinToken: kToken });
    await tab.waitFor("ready");
  },
);

swarmTest(
  "too small an offer is said, not exceeded",
  { model: "weft-tiny" },
  async ({ context, server }) => {
    const tab = await Tab.open(context, server.origin);
    await tab.start({ name: "small", memoryBytes: 20e6 });
    await tab.waitFor("idle");
    await eventually(async () => {
      const swarm = await swarmOf(server.origin);
      assert.equal(swarm.workers.length, 1);
      assert.ok(swarm.missing_memory_bytes > 0, swarm.message);
    });
    const statuses = await tab.statuses();
    assert.ok(statuses.every(({ usedBytes }) => usedBytes <= 20e6));
  },
);

swarmTest("stop stops at once, also while it computes", {}, async ({ context, server }) => {
  const tab = await Tab.open(context, server.origin);
  await tab.start({ name: "stopping", memoryBytes: 256e6 });
  await tab.waitFor("ready");
  const request = {
    model: "stories260K",
    messages: [{ role: "user", content: "Once upon a time" }],
    max_tokens: 200,
  };
  let took = null;
  const answer = stream(server.origin, request, async () => {
    if (took !== null) return;
    took = 0;
    took = await tab.page.evaluate(async () => {
      const begin = performance.now();
      window.help.stop();
      while (window.help.status.phase !== "stopped") {
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      return performance.now() - begin;
    });
  });
  await eventually(async () => {
    assert.ok(took > 0);
    assert.equal((await swarmOf(server.origin)).workers.length, 0);
  });
  assert.ok(took < 1000, `${took} ms`);
  // The answer waits for somebody who computes, and goes on.
  await tab.start({ name: "back again", memoryBytes: 256e6 });
  const { finishReason } = await answer;
  assert.ok(finishReason === "stop" || finishReason === "length");
});
