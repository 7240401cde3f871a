// `weft serve` and the GPU beside it: the headless worker comes by itself where it is asked for a
// software adapter, answers, and ends with the server; without Node.js a line says what is missing.
import assert from "node:assert/strict";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

import {
  complete, eventually, noDawn, packageOf, reasonToSkip, serve, softwareGpu, swarmOf,
} from "./lib/weft.mjs";

const kServer = ["--context", "256", "--sessions", "2"];
const kRequest = {
  model: "weft-tiny", max_tokens: 8,
  messages: [{ role: "user", content: "Tell me a story about a little fox." }],
};

// Processes whose command line names this server.
function workersOf(origin) {
  const address = origin.replace(/^http/, "ws");
  return readdirSync("/proc").filter((id) => /^\d+$/.test(id)).filter((id) => {
    try {
      return readFileSync(`/proc/${id}/cmdline`, "utf8").split("\0").includes(address);
    } catch {
      return false;
    }
  });
}

test("a server with a GPU has its worker beside the built-in one, and ends it", {
  skip: reasonToSkip("weft-tiny") || noDawn(), timeout: 300_000,
}, async () => {
  const server = await serve(packageOf("weft-tiny"), [...kServer, "--gpu", "software"],
    softwareGpu);
  try {
    await eventually(async () => {
      const { workers } = await swarmOf(server.origin);
      const kinds = workers.map(({ name, kind }) => `${name} ${kind}`).sort();
      assert.deepEqual(kinds, ["the GPU of this server headless", "this server native"]);
    }, 120_000);
    assert.equal(workersOf(server.origin).length, 1);
    const { choices: [{ message }] } = await complete(server.origin, kRequest);
    assert.notEqual(message.content, "");
  } finally {
    await server.stop();
  }
  await eventually(() => assert.deepEqual(workersOf(server.origin), []), 5_000);
});

test("without Node.js a line says how the GPU could help, and the server serves", {
  skip: reasonToSkip("weft-tiny"),
}, async () => {
  const server = await serve(packageOf("weft-tiny"), [...kServer, "--gpu", "software"],
    { PATH: "/nowhere" });
  try {
    await server.waitFor(/this machine's GPU does not help: install Node\.js 20 or newer/);
    await complete(server.origin, kRequest);
  } finally {
    await server.stop();
  }
});

test("a machine without a GPU serves without a word about it", {
  skip: reasonToSkip("weft-tiny") ||
    (existsSync("/dev/nvidia0") || existsSync("/dev/dri") ? "this machine has a GPU" : false),
}, async () => {
  const server = await serve(packageOf("weft-tiny"), [...kServer, "--gpu", "auto"]);
  try {
    await complete(server.origin, kRequest);
    assert.doesNotMatch(server.output, /GPU/);
  } finally {
    await server.stop();
  }
});
