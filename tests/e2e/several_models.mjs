// `weft serve` of a library: models are loaded when they are asked, beside each other or in turn.
import assert from "node:assert/strict";
import {
  cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, truncateSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import { proxy } from "./lib/proxy.mjs";
import { buildHarness, harness, launchBrowser, noBrowser, Tab } from "./lib/tabs.mjs";
import {
  complete, endAll, eventually, gpuWorker, modelFolder, nativeWorker, noDawn, packageOf,
  reasonToSkip, serve, stream, within,
} from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny", "weft-tiny-moe");
const kServer = ["--context", "256", "--sessions", "2", "--threads", "1"];
const question = (text) => ({
  messages: [{ role: "user", content: text }], max_tokens: 12,
});

after(endAll);

// A library of these packages; body({library, start}), `start` starts a server of all of it.
function libraryTest(name, packages, body, reason = skip) {
  test(name, { skip: reason, timeout: 120_000 }, async () => {
    const folder = mkdtempSync(join(tmpdir(), "weft-library-"));
    const library = join(folder, "packages");
    mkdirSync(library);
    for (const [as, from] of Object.entries(packages))
      cpSync(packageOf(from), join(library, as), { recursive: true });
    const servers = [];
    const start = async (args = [], names = []) => {
      const server = await serve(names, [...kServer, ...args], { WEFT_HOME: folder });
      servers.push(server);
      return server;
    };
    try {
      await body({ library, start });
    } finally {
      for (const server of servers) await server.stop();
      rmSync(folder, { recursive: true });
    }
  });
}

async function get(server, path) {
  const response = await fetch(`${server.origin}${path}`);
  return { status: response.status, text: await response.text() };
}

async function statesOf(server) {
  const { data } = JSON.parse((await get(server, "/v1/models")).text);
  return Object.fromEntries(data.map(({ id, state }) => [id, state]));
}

async function ask(server, model, extra = {}) {
  const response = await fetch(`${server.origin}/v1/chat/completions`, {
    method: "POST", headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ model, temperature: 0, ...question("Tell me a story."), ...extra }),
  });
  return { status: response.status, headers: response.headers, json: await response.json() };
}

libraryTest("models are loaded when they are asked, and answer side by side",
  { one: "weft-tiny", two: "weft-tiny-moe" }, async ({ library, start }) => {
    const server = await start();
    assert.match(server.output, /serves 2 models: one, two/);
    assert.deepEqual(await statesOf(server), { one: "on disk", two: "on disk" });
    assert.equal((await get(server, "/readyz")).status, 200);
    assert.equal(JSON.parse((await get(server, "/api/swarm")).text).state, "idle");
    const [first, second] = await Promise.all(["one", "two"].map((model) => ask(server, model)));
    assert.equal(first.status, 200, JSON.stringify(first.json));
    assert.equal(second.status, 200, JSON.stringify(second.json));
    assert.equal(first.json.model, "one");
    assert.equal(second.json.model, "two");
    assert.deepEqual(await statesOf(server), { one: "loaded", two: "loaded" });
    // Each says what it says alone.
    for (const [{ json }, from] of [[first, "weft-tiny"], [second, "weft-tiny-moe"]]) {
      const alone = await serve(packageOf(from), kServer);
      const answer = await complete(alone.origin, { model: "", ...question("Tell me a story.") });
      await alone.stop();
      assert.equal(json.choices[0].message.content, answer.choices[0].message.content);
    }
    const ps = JSON.parse((await get(server, "/api/ps")).text);
    assert.deepEqual(ps.models.map(({ name }) => name), ["one", "two"]);
    assert.ok(Date.parse(ps.models[0].expires_at) < Date.now() + 301_000);
    const tags = JSON.parse((await get(server, "/api/tags")).text);
    assert.deepEqual(tags.models.map(({ name }) => name), ["one", "two"]);
    const metrics = (await get(server, "/metrics")).text;
    assert.match(metrics, /weft_up\{model="one"\} 1\n/);
    assert.match(metrics, /weft_up\{model="two"\} 1\n/);
    assert.equal(metrics.match(/# TYPE weft_up /g).length, 1);
    // The picture is that of the model that was asked last, or of the one that is named.
    const named = JSON.parse((await get(server, "/api/swarm?model=one")).text);
    assert.equal(named.model.name, "one");
    await ask(server, "two");
    const { model } = JSON.parse((await get(server, "/api/swarm")).text);
    assert.equal(model.name, "two");

    const unknown = await ask(server, "tow");
    assert.equal(unknown.status, 404);
    assert.match(unknown.json.error.message, /no model 'tow' here\. Did you mean 'two'\?/);
    // What comes to the library is there at once.
    cpSync(packageOf("weft-tiny"), join(library, "late"), { recursive: true });
    assert.equal((await ask(server, "late")).status, 200);
    assert.equal((await ask(server, "late:latest")).json.model, "late");
  });

libraryTest("without memory for two, one goes when it idles, and an answer is let end",
  { one: "weft-tiny", two: "weft-tiny-moe" }, async ({ library, start }) => {
    // Less than both take with their conversations, more than each.
    const server = await start(["--no-worker", "--wait", "1"]);
    const worker = nativeWorker(server.origin, ["--memory", "160MiB", "--threads", "1",
      "--cache", join(library, "..", "cache")]);
    try {
      const askWhenThere = async (model) => await eventually(async () => {
        const answer = await ask(server, model);
        assert.equal(answer.status, 200, JSON.stringify(answer.json));
        return answer;
      });
      await askWhenThere("one");
      await askWhenThere("two");
      assert.deepEqual(await statesOf(server), { one: "on disk", two: "loaded" });
      // While one answers the other waits, and is told so in the end.
      let refused = null;
      const { text } = await within(60_000, stream(server.origin,
        { model: "two", ...question("Once"), max_tokens: 200, ignore_eos: true }, async () => {
          if (refused) return;
          worker.child.kill("SIGSTOP");
          refused = await ask(server, "one");
          worker.child.kill("SIGCONT");
        }));
      assert.ok(text.length > 0);
      assert.equal(refused.status, 503);
      assert.ok(Number(refused.headers.get("retry-after")) > 0);
      assert.match(refused.json.error.message,
        /no memory for 'one' while the devices hold 'two'\. Its turn did not come within 1 s/);
      await askWhenThere("one");
    } catch (error) {
      const end = worker.child.exitCode ?? worker.child.signalCode;
      error.stack += `\nThe worker (ended: ${end}) said:\n${worker.output}`;
      error.stack += `\nThe server said:\n${server.output}`;
      throw error;
    } finally {
      await worker.stop();
    }
  });

libraryTest("an idle model is unloaded, and a damaged one leaves the others alone",
  { one: "weft-tiny", damaged: "weft-tiny" }, async ({ library, start }) => {
    const blobs = join(library, "damaged", "blobs");
    const sizes = readdirSync(blobs).map((each) =>
      ({ name: each, size: statSync(join(blobs, each)).size }));
    const { name, size } = sizes.reduce((a, b) => (a.size > b.size ? a : b));
    truncateSync(join(blobs, name), Math.floor(size / 2));
    const server = await start(["--keep-alive", "0"]);
    const { status, json } = await ask(server, "damaged");
    assert.equal(status, 503);
    assert.match(json.error.message, /'damaged' cannot be loaded\. .*blob/i);
    assert.equal((await ask(server, "one")).status, 200);
    await eventually(async () =>
      assert.deepEqual(await statesOf(server), { damaged: "on disk", one: "on disk" }));
    assert.equal((await ask(server, "one")).status, 200);
  });

libraryTest("models that are named are loaded at the start and stay",
  { one: "weft-tiny", two: "weft-tiny-moe", three: "weft-tiny" }, async ({ start }) => {
    const server = await start(["--keep-alive", "0"], ["one", "two"]);
    await eventually(async () =>
      assert.deepEqual(await statesOf(server), { one: "loaded", two: "loaded" }));
    assert.equal((await ask(server, "two")).status, 200);
    assert.equal((await ask(server, "three")).status, 404);
    assert.deepEqual(await statesOf(server), { one: "loaded", two: "loaded" });
  });

libraryTest("a native worker helps every model that is loaded, and its loss ends no answer",
  { one: "weft-tiny", two: "weft-tiny-moe" }, async ({ library, start }) => {
    const server = await start(["--no-worker", "--keep-alive", "60"]);
    const workers = [];
    const help = (name, memory) => {
      const cache = join(library, "..", `cache-${name}`);
      const worker = nativeWorker(server.origin,
        ["--name", name, "--memory", memory, "--threads", "1", "--cache", cache]);
      workers.push(worker);
      return worker;
    };
    const namesIn = async (model) => {
      const { text } = await get(server, `/api/swarm?model=${model}`);
      return JSON.parse(text).workers.map(({ name }) => name).sort();
    };
    try {
      const first = help("first", "600MiB");
      const story = { ...question("Tell me a story."), max_tokens: 100, ignore_eos: true };
      const texts = await Promise.all(["one", "two"].map(async (model) =>
        (await complete(server.origin, { model, ...story })).choices[0].message.content));
      assert.deepEqual(await namesIn("one"), ["first"]);
      assert.deepEqual(await namesIn("two"), ["first"]);
      help("second", "600MiB");
      for (const model of ["one", "two"])
        await eventually(async () =>
          assert.deepEqual(await namesIn(model), ["first", "second"]));
      let begun = 0;
      const again = await Promise.all(["one", "two"].map((model) =>
        stream(server.origin, { model, ...story }, () => {
          begun += 1;
          if (begun === 8) first.child.kill("SIGKILL");
        })));
      assert.deepEqual(again.map(({ text }) => text), texts);
      assert.ok(begun >= 8);
    } finally {
      for (const worker of workers) await worker.stop();
    }
  });

libraryTest("a headless worker helps all models that are loaded, in one process",
  { one: "weft-tiny", two: "weft-tiny" }, async ({ library, start }) => {
    const server = await start(["--no-worker", "--keep-alive", "-1"]);
    // It comes before any model is loaded, and waits for one.
    const worker = gpuWorker(server.origin,
      ["--name", "gpu", "--memory", "512MiB", "--cache", join(library, "..", "cache")]);
    try {
      await eventually(() => assert.match(worker.output, /No model is loaded/));
      const answers = await Promise.all(
        ["one", "two"].map((model) => ask(server, model, { max_tokens: 2 })));
      for (const { status, json } of answers) assert.equal(status, 200, JSON.stringify(json));
      const [first, second] = answers.map(({ json }) => json.choices[0].message.content);
      assert.equal(second, first);
      assert.deepEqual(await statesOf(server), { one: "loaded", two: "loaded" });
      for (const model of ["one", "two"]) {
        const { workers } = JSON.parse((await get(server, `/api/swarm?model=${model}`)).text);
        assert.deepEqual(workers.map(({ name }) => name), ["gpu"]);
        assert.match(worker.output, new RegExp(`${model}: Ready: `));
      }
      await worker.stop();
      assert.match(worker.output, /Leaving/);
    } catch (error) {
      error.stack += `\nThe worker said:\n${worker.output}`;
      throw error;
    } finally {
      await worker.stop();
    }
  }, skip || noDawn());

libraryTest("a tab helps the model that needs it, and the next tab goes on with what it leaves",
  { large: "weft-tiny-moe", small: "weft-tiny" }, async ({ library, start }) => {
    await buildHarness();
    const browser = await launchBrowser();
    const server = await start(["--no-worker", "--web-root", harness], ["large", "small"]);
    const { models } = JSON.parse((await get(server, "/api/admin/models")).text);
    // So much that the native worker has nothing left for the second model.
    const memory = models.find(({ name }) => name === "large").need_bytes;
    const worker = nativeWorker(server.origin, ["--memory", String(memory), "--threads", "1",
      "--cache", join(library, "..", "cache")]);
    const devicesOf = async (model) =>
      JSON.parse((await get(server, `/api/swarm?model=${model}`)).text);
    const open = async (name) => {
      const tab = await Tab.open(await browser.newContext(), server.origin);
      await tab.start({ name, memoryBytes: 256 << 20 });
      return tab;
    };
    try {
      await eventually(async () => assert.equal((await devicesOf("large")).state, "up"), 60_000);
      assert.equal((await devicesOf("small")).state, "down");
      const first = await open("first tab");
      await eventually(async () => assert.equal((await devicesOf("small")).state, "up"), 60_000);
      assert.deepEqual((await devicesOf("small")).workers.map(({ kind }) => kind), ["web"]);
      assert.deepEqual((await devicesOf("large")).workers.map(({ kind }) => kind), ["native"]);
      const story = { ...question("Tell me a story."), max_tokens: 60, ignore_eos: true };
      const ask = async (model, onDelta) =>
        (await stream(server.origin, { model, ...story }, onDelta)).text;
      const expected = await Promise.all(["large", "small"].map((model) => ask(model)));
      assert.ok(expected.every((text) => text.length > 20));
      let pieces = 0;
      const again = await Promise.all([ask("large"), ask("small", async () => {
        pieces += 1;
        if (pieces !== 8) return;
        await first.close();
        await open("second tab");
      })]);
      assert.deepEqual(again, expected);
    } finally {
      await browser.close();
      await worker.stop();
    }
  }, skip || noBrowser());

libraryTest("a tab whose connection breaks goes on with the model that it held",
  { one: "weft-tiny", two: "weft-tiny-moe" }, async ({ start }) => {
    await buildHarness();
    const browser = await launchBrowser();
    const server = await start(["--no-worker", "--web-root", harness], ["one", "two"]);
    const line = await proxy(server.origin, () => false);
    const swarm = async (model) =>
      JSON.parse((await get(server, `/api/swarm?model=${model}`)).text);
    const states = async () => [(await swarm("one")).state, (await swarm("two")).state];
    const statesBecome = (wanted) =>
      eventually(async () => assert.deepEqual(await states(), wanted), 60_000);
    const open = async (name, origin) => {
      const tab = await Tab.open(await browser.newContext(), origin);
      await tab.start({ name, memoryBytes: 256 << 20 });
      return tab;
    };
    try {
      const first = await open("first", server.origin);
      await statesBecome(["up", "down"]);
      await open("second", line.origin);
      await statesBecome(["up", "up"]);
      await first.close();
      await statesBecome(["down", "up"]);
      const [{ id: before }] = (await swarm("two")).workers;
      line.cut();
      // Who has helped nothing yet would be given the first of two that are down.
      await eventually(async () => {
        const [{ workers: [second] }, now] = [await swarm("two"), await states()];
        assert.deepEqual(now, ["down", "up"]);
        assert.notEqual(second.id, before);
      }, 30_000);
    } finally {
      await browser.close();
      line.close();
    }
  }, skip || noBrowser());

// A worker whose downloads take a while, so that one sees its model being loaded: until `open` is
// called each blob comes late.
async function slowWorker(server, library) {
  let isOpen = false;
  const line = await proxy(server.origin, async ({ request, response, forward }) => {
    if (!request.url.startsWith("/package/blobs/") || isOpen) return false;
    await new Promise((resolve) => setTimeout(resolve, 400));
    const { status, headers, body } = await forward();
    response.writeHead(status, headers).end(body);
    return true;
  });
  const worker = nativeWorker(line.origin, ["--memory", "600MiB", "--threads", "1",
    "--cache", join(library, "..", "cache")]);
  return {
    open: () => {
      isOpen = true;
    },
    kill: () => worker.child.kill("SIGKILL"),
    stop: async () => {
      await worker.stop();
      line.close();
    },
  };
}

// The status and the text of a stream; onText(text so far).
async function textOf(server, path, body, onText = () => {}) {
  const response = await fetch(`${server.origin}${path}`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  });
  let text = "";
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    text += piece;
    onText(text);
  }
  return { status: response.status, text };
}

const kLoading = /^: progress \{"loading":"one"(,"percent":\d+)?\}\n\n/m;
const kAsked = { model: "one", stream: true, max_tokens: 12 };

libraryTest("a stream tells that its model is being loaded, and then the answer",
  { one: "weft-tiny" }, async ({ library, start }) => {
    const server = await start(["--no-worker"]);
    const worker = await slowWorker(server, library);
    try {
      const { status, text } = await textOf(server, "/v1/chat/completions",
        { ...kAsked, ...question("Tell me a story.") }, (soFar) => {
          if (kLoading.test(soFar)) worker.open();
        });
      assert.equal(status, 200, text);
      assert.match(text, kLoading);
      assert.match(text, /"finish_reason":"(length|stop)"/);
      assert.ok(text.endsWith("data: [DONE]\n\n"), text);
    } finally {
      await worker.stop();
    }
  });

libraryTest("what goes wrong while a model is loaded is told as each kind of stream tells it",
  { one: "weft-tiny" }, async ({ library, start }) => {
    const server = await start(["--no-worker", "--wait", "5"]);
    const worker = await slowWorker(server, library);
    const { messages } = question("Tell me a story.");
    const kinds = [
      ["/v1/chat/completions", { messages }, /data: \{"error":.*\n\ndata: \[DONE\]\n\n$/],
      ["/v1/completions", { prompt: "Once" }, /data: \{"error":.*\n\ndata: \[DONE\]\n\n$/],
      ["/v1/messages", { messages }, /event: error\ndata: .*overloaded_error.*\n\n$/],
    ];
    let told = 0;
    try {
      // Lines of JSON have no comments: Ollama's clients wait for the status.
      const lines = textOf(server, "/api/chat", { model: "one", messages });
      const ends = await Promise.all(kinds.map(async ([path, body]) => {
        let hasTold = false;
        return await textOf(server, path, { ...kAsked, ...body }, (soFar) => {
          if (hasTold || !kLoading.test(soFar)) return;
          hasTold = true;
          told += 1;
          if (told === kinds.length) worker.kill();
        });
      }));
      ends.forEach(({ status, text }, i) => {
        const [path, , end] = kinds[i];
        assert.equal(status, 200, `${path}: ${text}`);
        assert.match(text, end, path);
      });
      assert.equal((await lines).status, 503);
    } finally {
      await worker.stop();
    }
  });

test("a checkpoint's folder is served as it is, converted once", { skip }, async () => {
  const home = mkdtempSync(join(tmpdir(), "weft-local-"));
  try {
    const times = [];
    for (let i = 0; i < 2; ++i) {
      const server = await serve(modelFolder("weft-tiny"), kServer, { WEFT_HOME: home });
      assert.match(server.output, /serves weft-tiny /);
      assert.equal((await ask(server, "weft-tiny")).status, 200);
      await server.stop();
      times.push(statSync(join(home, "packages/weft-tiny/weft.json")).mtimeMs);
    }
    assert.equal(times[0], times[1]);
  } finally {
    rmSync(home, { recursive: true });
  }
});
