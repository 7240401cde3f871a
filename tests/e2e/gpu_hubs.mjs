// Hubs on GPUs: a tab, or `weft worker --gpu`, computes attention, router and head of a model whose
// experts or neuron groups others hold. The server asks these for it. By margins the text is a
// native worker's. All GPUs here are a software adapter.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { buildHarness, harness, launchBrowser, noBrowser, Tab } from "./lib/tabs.mjs";
import {
  complete, eventually, gpuWorker, groupedPackageOf, noDawn, packageOf, reasonToSkip, serve,
  swarmOf, textWhileLosing,
} from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny-moe", "weft-tiny") || noDawn();
const kLimits = ["--context", "256", "--sessions", "2", "--journal", "off", "--no-worker"];
const kMemory = 48 << 20; // room for all experts, or for a hub
const kUpMs = 240_000;
const kRequest = {
  model: "weft-tiny-moe", max_tokens: 24, temperature: 0,
  messages: [{ role: "user", content: "Tell me a story about a little fox who lost a red ball." }],
};

const textOf = ({ choices: [choice] }) => choice.message.content;

let folder, expected;
before(async () => {
  if (skip) return;
  folder = mkdtempSync(join(tmpdir(), "weft-gpu-hubs-"));
  expected = await textAlone(packageOf("weft-tiny-moe"), kRequest);
});
after(() => {
  if (folder) rmSync(folder, { recursive: true, force: true });
});

// What one native worker answers that holds all of it.
async function textAlone(model, request) {
  const server = await serve(model, ["--context", "256", "--sessions", "2", "--journal", "off"]);
  try {
    return textOf(await eventually(() => complete(server.origin, request)));
  } finally {
    await server.stop();
  }
}

// body(server, help) with a server of the model; help(name) starts a headless worker.
async function withServer(model, args, body) {
  const server = await serve(model, [...kLimits, ...args]);
  const helpers = new Map();
  const help = (name) => {
    const own = ["--name", name, "--cache", join(folder, name), "--memory", String(kMemory)];
    helpers.set(name, gpuWorker(server.origin, own));
    return helpers.get(name);
  };
  try {
    await body(server, help, helpers);
  } catch (error) {
    for (const [name, helper] of helpers) error.stack += `\n${name} said:\n${helper.output}`;
    error.stack += `\nThe server said:\n${server.output.slice(-4000)}`;
    throw error;
  } finally {
    for (const helper of helpers.values()) helper.child.kill("SIGKILL");
    await server.stop();
  }
}

// The picture once the model serves from a hub, and everybody holds what he was told to.
async function servedByHub(server, count, copies = 1) {
  return await eventually(async () => {
    const picture = await swarmOf(server.origin);
    const held = picture.workers.reduce((sum, each) => sum + each.experts_held, 0);
    assert.equal(picture.state, "up", JSON.stringify(picture));
    assert.equal(picture.workers.length, count);
    assert.ok(picture.experts_needed > 0 && held >= copies * picture.experts_needed,
      JSON.stringify(picture));
    assert.ok(picture.workers.every((each) => each.experts_held === each.experts_told));
    return picture;
  }, kUpMs);
}

const hubOf = ({ stages: [stage], workers }) => workers.find(({ id }) => id === stage.worker);

test("a swarm of headless workers alone answers with a mixture's hub among them",
  { skip, timeout: 420_000 }, async () => {
    await withServer(packageOf("weft-tiny-moe"), ["--plan", "experts"], async (server, help) => {
      for (const name of ["one", "two"]) help(name);
      const picture = await servedByHub(server, 2);
      const hub = hubOf(picture);
      assert.equal(hub.kind, "headless");
      assert.equal(hub.experts_held, 0, "a hub that the server serves holds nothing");
      assert.equal(textOf(await complete(server.origin, kRequest)), expected);
      const holder = (await swarmOf(server.origin)).workers.find(({ id }) => id !== hub.id);
      assert.ok(holder.holder.calls > 0, JSON.stringify(holder));
    });
  });

test("an answer goes on where a holder or the hub is killed in its middle",
  { skip, timeout: 480_000 }, async () => {
    await withServer(packageOf("weft-tiny-moe"), ["--plan", "experts"],
      async (server, help, helpers) => {
        for (const name of ["one", "two", "three"]) help(name);
        const hub = hubOf(await servedByHub(server, 3, 2)).name;
        const holder = ["one", "two", "three"].find((name) => name !== hub);
        assert.equal(await textWhileLosing(server.origin, kRequest, helpers.get(holder)), expected);
        help("four");
        await servedByHub(server, 3);
        const next = hubOf(await swarmOf(server.origin)).name;
        assert.equal(await textWhileLosing(server.origin, kRequest, helpers.get(next)), expected);
      });
  });

test("a headless worker is the hub of a dense model in neuron groups",
  { skip, timeout: 420_000 }, async () => {
    const model = groupedPackageOf("weft-tiny", "--whole-head").folder;
    const request = { ...kRequest, model: "weft-tiny" };
    const alone = await textAlone(model, request);
    await withServer(model, ["--plan", "tensor"], async (server, help) => {
      for (const name of ["one", "two"]) help(name);
      assert.equal(hubOf(await servedByHub(server, 2)).kind, "headless");
      assert.equal(textOf(await complete(server.origin, request)), alone);
    });
  });

test("two tabs alone answer with a mixture that neither holds",
  { skip: skip || noBrowser(), timeout: 480_000 }, async () => {
    await buildHarness();
    const browser = await launchBrowser();
    const args = ["--plan", "experts", "--web-root", harness];
    try {
      await withServer(packageOf("weft-tiny-moe"), args, async (server) => {
        const tabs = [];
        for (const name of ["one", "two"]) {
          const tab = await Tab.open(await browser.newContext(), server.origin);
          await tab.start({ name, memoryBytes: kMemory, engine: "webgpu" });
          tabs.push(tab);
        }
        assert.equal(hubOf(await servedByHub(server, 2)).kind, "web");
        const text = textOf(await complete(server.origin, { ...kRequest, max_tokens: 12 }));
        assert.ok(text.length > 12 && expected.startsWith(text), `${text} is not of ${expected}`);
        for (const { errors } of tabs)
          assert.deepEqual(errors.filter((each) => !each.includes("404")), []); // no favicon
      });
    } finally {
      await browser.close();
    }
  });
