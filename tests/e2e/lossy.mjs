// Neuron groups over lines that lose datagrams (serve --lossy), in a network namespace of its own
// whose firewall drops some at random. Without loss the answer is that of one device; with it the
// answer ends and says what it did without; what is not to be lost never is.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, test } from "node:test";
import { fileURLToPath } from "node:url";

import {
  complete, eventually, groupedPackageOf, nativeWorker, reasonToSkip, serve, settled,
  swarmOf, textWhileLosing, weft,
} from "./lib/weft.mjs";

function run(...args) {
  return execFileSync(args[0], args.slice(1), { stdio: "pipe" }).toString();
}

// Namespaces want root, and a kernel that has numgen.
function noNamespaces() {
  try {
    run("unshare", "--net", "sh", "-c", "ip link set lo up && nft add table inet weft");
    return false;
  } catch (error) {
    return `network namespaces with nft cannot be had: ${error.message}`;
  }
}

const isInside = process.env.WEFT_LOSSY_TEST === "inside";
const skip = reasonToSkip("weft-tiny") || (!isInside && noNamespaces());

if (!isInside) {
  test("in a network namespace", { skip, timeout: 900_000 }, async () => {
    const arguments_ = ["--test-reporter=spec", fileURLToPath(import.meta.url)];
    const env = { ...process.env, WEFT_LOSSY_TEST: "inside", NODE_TEST_CONTEXT: "" };
    const child = spawn("unshare", ["--net", process.execPath, ...arguments_],
      { env, stdio: ["ignore", "pipe", "inherit"] });
    let said = "";
    child.stdout.setEncoding("utf8").on("data", (text) => (said += text));
    const code = await new Promise((resolve) => child.on("close", resolve));
    assert.equal(code, 0, said);
    console.log(said);
  });
}

// Tests that only make sense there.
const inside = isInside ? test : () => {};

const kLimits = ["--context", "512", "--sessions", "2", "--journal", "off", "--threads", "1"];
// With a twentieth of its groups the model takes 16.7 MB, all groups alone take 14.2 MB: helpers
// cannot be hubs.
const kHub = "16MiB", kHelper = "14MiB";
const kRequest = {
  model: "weft-tiny",
  messages: [{ role: "user", content: "Tell me a story about a fox and a bear." }],
  max_tokens: 120,
  temperature: 0,
};
let expected, model;

// Of a hundred datagrams so many do not arrive.
function lose(percent) {
  run("nft", "flush", "chain", "inet", "weft", "in");
  const some = percent === 100 ? [] : ["numgen", "random", "mod", "100", "<", String(percent)];
  if (percent > 0)
    run("nft", "add", "rule", "inet", "weft", "in", "meta", "l4proto", "udp", ...some, "drop");
}

before(async () => {
  if (!isInside) return;
  run("ip", "link", "set", "lo", "up");
  run("nft", "add", "table", "inet", "weft");
  run("nft", "add", "chain", "inet", "weft", "in", "{ type filter hook input priority 0; }");
  model = groupedPackageOf("weft-tiny", "--whole-head");
  const alone = await serve(model.folder, [...kLimits, "--plan", "layers"]);
  try {
    expected = await eventually(async () => {
      const answer = await complete(alone.origin, kRequest);
      assert.equal(answer.usage.lost_groups, undefined);
      return answer.choices[0].message.content;
    });
  } finally {
    await alone.stop();
  }
});

// body({server, workers}): a hub, and two helpers that have almost all groups, each twice.
async function withSwarm(args, body) {
  lose(0);
  const cache = mkdtempSync(join(tmpdir(), "weft-cache-"));
  const server = await serve(model.folder,
    [...kLimits, "--plan", "tensor", "--worker-memory", kHub, ...args]);
  const workers = [1, 2].map((number) => nativeWorker(server.origin,
    ["--memory", kHelper, "--threads", "1", "--cache", join(cache, `${number}`),
      "--name", `helper ${number}`]));
  try {
    await settled(server, 3, 2 * model.groups);
    await body({ server, workers });
  } finally {
    for (const worker of workers) worker.child.kill("SIGKILL");
    await server.stop();
    rmSync(cache, { recursive: true });
  }
}

// Of all hubs: on a busy machine a helper may compute a part of the layers, and then it is one.
async function lossesOf(server) {
  const { losses } = await swarmOf(server.origin);
  const sum = (valueOf) => losses.reduce((total, each) => total + valueOf(each), 0);
  return {
    hubs: losses,
    lines: losses.flatMap((each) => each.lines),
    lost: sum((each) => each.lost),
    counted: sum((each) => each.fragments.counted),
  };
}
async function isReady(server) {
  await eventually(async () => {
    const losses = await lossesOf(server);
    assert.ok(losses.lines.length >= 2, JSON.stringify(losses));
    assert.ok(losses.lines.every((line) => line.ready), JSON.stringify(losses));
  });
}
const kLostGroups = /^weft_lost_groups_total (\d+)/m;
async function metric(server, pattern) {
  const text = await (await fetch(`${server.origin}/metrics`)).text();
  return Number(text.match(pattern)?.[1] ?? NaN);
}

inside("without loss the answer is that of one device", { timeout: 240_000 }, async () => {
  await withSwarm(["--lossy"], async ({ server }) => {
    await isReady(server);
    const wrong = [];
    // Losses come with the next Pong. On a busy machine a line fails, and is tried again soon.
    await eventually(async () => {
      const answer = await complete(server.origin, kRequest);
      const text = answer.choices[0].message.content;
      if (text !== expected || answer.usage.lost_groups !== 0) wrong.push(answer);
      const losses = await lossesOf(server);
      assert.ok(losses.hubs.some(({ state }) => state === "lossy"), JSON.stringify(losses));
      assert.ok(losses.counted > 100, JSON.stringify(losses));
      assert.equal(losses.lost, 0);
    });
    assert.deepEqual(wrong, []);
    assert.ok(await metric(server, /^weft_sum_fragments_total\{outcome="counted"\} (\d+)/m) > 100);
  });
});

inside("what is lost is counted, and the answer ends", { timeout: 240_000 }, async () => {
  await withSwarm(["--lossy", "--loss-limit", "1"], async ({ server }) => {
    await isReady(server);
    lose(5);
    // A line's loss is known after 256 of its datagrams: it is asked until they have come.
    let told = 0, failures = 0;
    await eventually(async () => {
      // What a request lost that failed is told in no answer.
      const answer = await complete(server.origin, kRequest).catch((error) => {
        ++failures;
        throw error;
      });
      told += answer.usage.lost_groups;
      assert.ok(answer.choices[0].message.content.length > 0);
      assert.ok(answer.usage.lost_groups > 0, JSON.stringify(answer.usage));
      assert.ok(answer.usage.completion_tokens > 0);
      const losses = await lossesOf(server);
      assert.ok(losses.lines.some((line) => line.loss > 0), JSON.stringify(losses));
    });
    // With the next Pong. On a busy machine another device may have been the hub before, whose
    // losses the server alone knows then.
    await eventually(async () => {
      const losses = await lossesOf(server);
      assert.ok(losses.lost > 0, JSON.stringify(losses));
      assert.ok(await metric(server, kLostGroups) >= told, `fewer than ${told} are counted`);
    });
    const counted = await metric(server, kLostGroups);
    assert.ok(failures > 0 ? counted >= told : counted === told, `${counted}, ${told} are told`);
    // Without datagrams it takes the other road, and says so.
    lose(100);
    for (let i = 0; i < 2; ++i) await complete(server.origin, kRequest);
    await eventually(async () => {
      const { lines } = await lossesOf(server);
      assert.ok(lines.every((line) => !line.ready), JSON.stringify(lines));
    });
    const whole = await complete(server.origin, kRequest);
    assert.equal(whole.choices[0].message.content, expected);
    assert.equal(whole.usage.lost_groups, 0);
  });
});

inside("what is too much is reliable for a while", { timeout: 240_000 }, async () => {
  await withSwarm(["--lossy", "--loss-limit", "0.01"], async ({ server, workers }) => {
    await isReady(server);
    lose(20);
    await eventually(async () => {
      await complete(server.origin, kRequest);
      const losses = await lossesOf(server);
      const fallen = losses.hubs.find(({ state }) => state === "reliable");
      assert.match(fallen?.message ?? "", /nothing may be lost/, JSON.stringify(losses));
    });
    const output = [server, ...workers].map((each) => each.output).join("\n");
    assert.match(output, /of the neuron groups' weight was lost/);
    // On a busy machine there may be two hubs, of which each falls by itself.
    await eventually(async () => {
      const answer = await complete(server.origin, kRequest);
      assert.equal(answer.usage.lost_groups, 0);
      assert.equal(answer.choices[0].message.content, expected);
    });
  });
});

inside("without --lossy nothing is lost", { timeout: 240_000 }, async () => {
  await withSwarm(["--exact"], async ({ server }) => {
    lose(50);
    const answer = await complete(server.origin, kRequest);
    assert.equal(answer.choices[0].message.content, expected);
    assert.equal(answer.usage.lost_groups, undefined);
    assert.deepEqual((await swarmOf(server.origin)).losses, []);
  });
});

inside("a helper that is killed in mid-answer", { timeout: 240_000 }, async () => {
  await withSwarm(["--lossy"], async ({ server, workers }) => {
    await isReady(server);
    const text = await textWhileLosing(server.origin, kRequest, workers[0]);
    assert.ok(text.length > 0);
    await settled(server, 2, model.groups);
    const answer = await complete(server.origin, kRequest);
    assert.equal(answer.choices[0].message.content, expected);
  });
});

inside("what cannot be served so says what to do", () => {
  const refusal = (...args) => {
    try {
      execFileSync(weft, ["serve", model.folder, "--port", "0", "--journal", "off", ...args],
        { stdio: "pipe", timeout: 20_000 });
    } catch (error) {
      return error.stderr.toString();
    }
    return "none";
  };
  assert.match(refusal("--lossy"), /--plan tensor/);
  assert.match(refusal("--plan", "tensor", "--lossy", "--exact"), /--lossy excludes --exact/);
  assert.match(refusal("--plan", "tensor", "--loss-limit", "0.1"), /--loss-limit requires --lossy/);
});
