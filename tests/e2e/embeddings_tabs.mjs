// Embeddings that tabs compute: with onnxruntime, whose graph of the head is the norm alone, too,
// and in company with a native worker.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { buildHarness, harness, launchBrowser, noBrowser, Tab } from "./lib/tabs.mjs";
import {
  eventually, modelFolder, nativeWorker, reasonToSkip, serve, swarmOf, weft,
} from "./lib/weft.mjs";

const skip = noBrowser() || reasonToSkip("weft-tiny");
const kArguments = ["--context", "256", "--sessions", "2", "--threads", "1", "--web-root", harness];
const kTexts = [
  "A fox carries a lantern.", "Once",
  "The bear looked at the moon, and the moon looked at the bear. ".repeat(8),
];

let browser = null;
let work = "";
before(async () => {
  if (skip) return;
  work = mkdtempSync(join(tmpdir(), "weft-embeddings-"));
  await buildHarness();
  browser = await launchBrowser();
});
after(async () => {
  await browser?.close();
  if (work) rmSync(work, { recursive: true });
});

function packageThatGives(pooling) {
  const folder = join(work, pooling);
  execFileSync(weft, ["convert", modelFolder("weft-tiny"), folder, "--embedding", pooling],
    { stdio: "pipe" });
  return folder;
}

async function isUp(server, stages) {
  await eventually(async () => {
    const swarm = await swarmOf(server.origin);
    assert.equal(swarm.state, "up", swarm.message);
    assert.equal(swarm.stages.length, stages);
  }, 60_000);
}

async function embed(origin, input) {
  const response = await fetch(`${origin}/v1/embeddings`,
    { method: "POST", body: JSON.stringify({ input }) });
  const answer = await response.json();
  assert.equal(response.status, 200, JSON.stringify(answer));
  return answer.data.map(({ embedding }) => embedding);
}

// Vectors have a length of 1.
const cosine = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

function assertAlike(given, expected) {
  given.forEach((vector, i) => {
    const far = 1 - cosine(vector, expected[i]);
    assert(far < 1e-4, `input ${i}: ${far}`);
  });
}

for (const pooling of ["mean", "last"]) {
  test(`${pooling}: a tab's onnxruntime, alone and behind a native worker`,
    { skip, timeout: 180_000 }, async () => {
      const folder = packageThatGives(pooling);
      const own = await serve(folder, kArguments);
      let expected = [];
      try {
        await isUp(own, 1);
        expected = await embed(own.origin, kTexts);
      } finally {
        await own.stop();
      }
      const server = await serve(folder, [...kArguments, "--no-worker"]);
      const context = await browser.newContext();
      const native = [];
      try {
        const tab = await Tab.open(context, server.origin);
        await tab.start({ name: "tab", memoryBytes: 200_000_000 });
        await isUp(server, 1);
        const { workers } = await swarmOf(server.origin);
        assert.equal(workers[0].engine, "ort-wasm");
        const alone = await embed(server.origin, kTexts);
        assertAlike(alone, expected);
        assert.deepEqual(await embed(server.origin, kTexts[2]), [alone[2]], "by itself");
        await tab.close();
        // Neither holds the model; the tab, that keeps more memory for itself, the smaller part.
        native.push(nativeWorker(server.origin, ["--memory", "16000000", "--threads", "1"]));
        const other = await Tab.open(context, server.origin);
        await other.start({ name: "other tab", memoryBytes: 40_000_000 });
        await isUp(server, 2);
        assertAlike(await embed(server.origin, kTexts), expected);
        assert.deepEqual(other.errors.filter((text) => !text.includes("404")), []); // no favicon
      } catch (error) {
        error.stack += `\nThe server said:\n${server.output.slice(-3000)}`;
        throw error;
      } finally {
        for (const worker of native) worker.child.kill("SIGKILL");
        await context.close();
        await server.stop();
      }
    });
}
