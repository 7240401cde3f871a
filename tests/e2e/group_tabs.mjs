// A dense model whose MLPs are in neuron groups, and attention and output head in ranges. GPUs
// compute some of them: a tab of headless Chromium and `weft worker --gpu`, both on a software
// adapter. By margins the text is a native worker's. Sums of groups lie on grids, but a GPU's
// groups are not a native worker's bit for bit.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { buildHarness, harness, launchBrowser, noBrowser, Tab } from "./lib/tabs.mjs";
import {
  complete, eventually, gpuWorker, groupedPackageOf, nativeWorker, noDawn, reasonToSkip, serve,
  settled, stream, swarmOf,
} from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny") || noDawn();
const kLimits = ["--context", "256", "--sessions", "2", "--journal", "off", "--threads", "1"];
// With a twentieth of its groups the model takes 16 MB here, with all of them 25.
const kHub = "16MiB";
const kHelper = 64 << 20;
const kRequest = {
  model: "weft-tiny", max_tokens: 40,
  messages: [{ role: "user", content: "Tell me a story about a little fox who lost a red ball." }],
};

const textOf = ({ choices: [choice] }) => choice.message.content;

let folder, model, expected;
before(async () => {
  if (skip) return;
  folder = mkdtempSync(join(tmpdir(), "weft-group-tabs-"));
  model = groupedPackageOf("weft-tiny", "--attention", "divided");
  await withServer(["--plan", "layers"], async (server) => {
    expected = textOf(await eventually(() => complete(server.origin, kRequest)));
  });
});
after(() => {
  if (folder) rmSync(folder, { recursive: true, force: true });
});

// body(server, help) with a server of the package; help(name) starts a headless worker.
async function withServer(args, body) {
  const server = await serve(model.folder, [...kLimits, ...args]);
  const helpers = [];
  const help = (name) => {
    const own = ["--name", name, "--cache", join(folder, name), "--memory", String(kHelper)];
    helpers.push(gpuWorker(server.origin, own));
    return helpers.at(-1);
  };
  try {
    await body(server, help);
  } catch (error) {
    for (const helper of helpers) error.stack += `\nA worker said:\n${helper.output}`;
    error.stack += `\nThe server said:\n${server.output.slice(-4000)}`;
    throw error;
  } finally {
    for (const helper of helpers) helper.child.kill("SIGKILL");
    await server.stop();
  }
}

test("a GPU alone runs all layers in groups", { skip, timeout: 240_000 }, async () => {
  await withServer(["--plan", "layers", "--no-worker"], async (server, help) => {
    await help("whole").waitFor(/Ready: the whole model/, 180_000);
    assert.equal(textOf(await complete(server.origin, kRequest)), expected);
  });
});

test("a headless worker computes a hub's groups and ranges, until it is killed",
  { skip, timeout: 360_000 }, async () => {
    const plan = ["--plan", "tensor", "--worker-memory", kHub];
    await withServer(plan, async (server, help) => {
      const native = nativeWorker(server.origin, ["--memory", String(kHelper), "--threads", "1",
        "--name", "native", "--cache", join(folder, "native")]);
      try {
        const gpu = help("gpu");
        await settled(server, 3, 2 * model.groups);
        assert.equal(textOf(await complete(server.origin, kRequest)), expected);
        const { workers } = await swarmOf(server.origin);
        const own = workers.find(({ name }) => name === "gpu");
        assert.equal(own.kind, "headless");
        assert.ok(own.experts_held > model.groups / 2, JSON.stringify(own));
        assert.ok(own.expert_messages > 0, JSON.stringify(own));
        let killed = false;
        const { text } = await stream(server.origin, kRequest, () => {
          if (killed) return;
          killed = true;
          gpu.child.kill("SIGKILL");
        });
        assert.ok(killed);
        assert.equal(text, expected);
      } finally {
        await native.stop();
      }
    });
  });

test("a tab computes a hub's groups and ranges, alone with it",
  { skip: skip || noBrowser(), timeout: 480_000 }, async () => {
    await buildHarness();
    const browser = await launchBrowser();
    const plan = ["--plan", "tensor", "--worker-memory", kHub, "--web-root", harness];
    try {
      await withServer(plan, async (server) => {
        const tab = await Tab.open(await browser.newContext(), server.origin);
        await tab.start({ name: "tab", memoryBytes: kHelper, engine: "webgpu" });
        await settled(server, 2, model.groups);
        const text = textOf(await complete(server.origin, { ...kRequest, max_tokens: 12 }));
        assert.ok(text.length > 12 && expected.startsWith(text), `${text} is not of ${expected}`);
        const { workers } = await swarmOf(server.origin);
        const own = workers.find(({ name }) => name === "tab");
        assert.ok(own.experts_held > model.groups / 2, JSON.stringify(own));
        assert.ok(own.expert_messages > 12, JSON.stringify(own));
        assert.deepEqual(tab.errors.filter((text) => !text.includes("404")), []); // no favicon
      });
    } finally {
      await browser.close();
    }
  });
