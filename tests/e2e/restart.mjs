// A server that is killed and started again: its workers come back with what they hold, nothing is
// loaded a second time, and whoever asks again gets the same answer.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { Tab, buildHarness, harness, launchBrowser, noBrowser } from "./lib/tabs.mjs";
import { eventually, nativeWorker, packageOf, reasonToSkip, serve } from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny");
const skipTabs = noBrowser() || skip;
const kServer = ["--context", "512", "--sessions", "2", "--no-worker"];
// Neither of two workers can hold the model alone.
const kMemory = "20MiB";
const kRequest = {
  model: "weft-tiny",
  messages: [{ role: "user", content: "Tell me a story about a fox and a lantern." }],
  temperature: 1, // without a seed: two runs of their own would differ
  ignore_eos: true,
  max_tokens: 300,
  stream: true,
};

// A server that can be killed and started again on its port, and two workers.
class Swarm {
  constructor(args, environment = {}) {
    this.folder = mkdtempSync(join(tmpdir(), "weft-restart-"));
    this.journal = join(this.folder, "journal");
    this.args = [...kServer, "--journal", this.journal, ...args];
    this.environment = environment;
    this.workers = [];
    this.headers = {};
  }

  async start() {
    const port = this.server ? ["--port", new URL(this.server.origin).port] : [];
    this.server = await serve(packageOf("weft-tiny"), [...this.args, ...port], this.environment);
    this.origin = this.server.origin;
  }

  async kill() {
    this.server.child.kill("SIGKILL");
    await this.server.exited;
  }

  // The plan may be another one than a moment ago.
  async lookAndKill() {
    this.atKill = await this.picture();
    await this.kill();
  }

  help(name, environment = {}) {
    const cache = join(this.folder, name);
    this.workers.push(nativeWorker(this.origin, ["--memory", kMemory, "--threads", "1",
      "--cache", cache, "--name", name], environment));
  }

  async picture() {
    return await (await fetch(`${this.origin}/api/swarm`, { headers: this.headers })).json();
  }

  async up() {
    return await eventually(async () => {
      const picture = await this.picture();
      assert.equal(picture.state, "up", JSON.stringify(picture));
      return picture;
    }, 60_000);
  }

  // The stages by the names of their workers: [["one", 0, 5, 1], ["two", 5, 10, 2]]. The last
  // number is that of the binding: another one would have been asked for and loaded.
  static stagesOf(picture) {
    const names = new Map(picture.workers.map(({ id, name }) => [id, name]));
    return picture.stages.map((stage) =>
      [names.get(stage.worker), stage.first_layer, stage.end_layer, stage.binding]);
  }

  // Streams an answer; resolves with its text, also where the stream breaks off.
  async ask(key, { request = kRequest, onText = () => {} } = {}) {
    const response = await fetch(`${this.origin}/v1/chat/completions`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "Idempotency-Key": key, ...this.headers },
      body: JSON.stringify(request),
    });
    if (response.status !== 200) return { status: response.status, error: await response.json() };
    let text = "", finishReason = null, pending = "";
    try {
      for await (const bytes of response.body.pipeThrough(new TextDecoderStream())) {
        pending += bytes;
        const events = pending.split("\n\n");
        pending = events.pop();
        for (const each of events) {
          const event = each.replace(/^id: \d+\n/, "");
          if (!event.startsWith("data: {")) continue;
          const [choice] = JSON.parse(event.slice("data: ".length)).choices;
          finishReason = choice?.finish_reason ?? finishReason;
          text += choice?.delta?.content ?? "";
          onText(text);
        }
      }
    } catch {
      return { text, broken: true };
    }
    return { text, finishReason, broken: finishReason === null };
  }

  // Kills the server when the answer has so many characters.
  async killInAnswer(key, { characters = 60, request = kRequest } = {}) {
    let killed;
    const cut = await this.ask(key, {
      request,
      onText: (text) => {
        if (text.length > characters) killed ??= this.lookAndKill();
      },
    });
    assert.ok(cut.broken && cut.text.length > characters, JSON.stringify(cut));
    await killed;
    return cut.text;
  }

  async stop() {
    for (const worker of this.workers) worker.child.kill("SIGKILL");
    await this.server?.stop();
    rmSync(this.folder, { recursive: true });
  }
}

function restartTest(name, { args = [], environment = {}, skip: why = skip }, body) {
  test(name, { skip: why, timeout: 180_000 }, async () => {
    const swarm = new Swarm(args, environment);
    try {
      await swarm.start();
      await body(swarm);
    } catch (error) {
      const said = [swarm.server, ...swarm.workers].map((each) => each?.output.slice(-3000));
      error.stack += `\nWhat they said:\n${said.join("\n--\n")}`;
      throw error;
    } finally {
      await swarm.stop();
    }
  });
}

restartTest("a killed server has its plan back without loading, and its answers again", {},
  async (swarm) => {
    swarm.help("one");
    swarm.help("two");
    const before = await swarm.up();
    assert.equal(before.stages.length, 2);
    const cut = await swarm.killInAnswer("first-key");
    await swarm.start();
    const after = await swarm.up();
    assert.deepEqual(Swarm.stagesOf(after), Swarm.stagesOf(swarm.atKill));
    for (const worker of after.workers) assert.equal(worker.downloaded_bytes, 0);

    const again = await swarm.ask("first-key");
    assert.equal(again.finishReason, "length");
    assert.ok(again.text.startsWith(cut), `${cut}\nis not how it begins:\n${again.text}`);
    assert.equal((await swarm.ask("first-key")).text, again.text, "nor a third time");
    const other = await swarm.ask("another-key");
    assert.notEqual(other.text, again.text, "the seed came from the key");

    const refused = await swarm.ask("first-key", { request: { ...kRequest, max_tokens: 5 } });
    assert.equal(refused.status, 422);
    assert.equal(refused.error.error.code, "idempotency_key_reused");

    assert.equal(statSync(swarm.journal).mode & 0o777, 0o600);
    for (const ending of ["", "-wal"]) {
      const bytes = readFileSync(swarm.journal + ending);
      assert.equal(bytes.indexOf("first-key"), -1, "keys are not kept");
      assert.equal(bytes.indexOf("lantern"), -1, "nor what was asked");
    }
  });

restartTest("with journalled prompts an answer goes on by itself", { args: ["--journal-prompts"] },
  async (swarm) => {
    swarm.help("one");
    swarm.help("two");
    await swarm.up();
    const cut = await swarm.killInAnswer("the-key");
    await swarm.start();
    assert.match((await swarm.server.waitFor(/(\d+) interrupted requests go on/))[1], /^1$/);
    await swarm.up();
    await eventually(async () => {
      const picture = await swarm.picture();
      assert.equal(picture.active_requests + picture.queued_requests, 0);
      assert.equal(picture.completed_requests, 1, "nobody had asked for it");
    }, 60_000);
    const answer = await swarm.ask("the-key");
    assert.equal(answer.finishReason, "length");
    assert.ok(answer.text.startsWith(cut));
    assert.equal((await swarm.picture()).completed_requests, 1, "it was there already");
    // Computed once more, it is the same.
    assert.equal((await swarm.ask("the-key")).text, answer.text);
    assert.equal((await swarm.picture()).completed_requests, 2);
  });

restartTest("an answer that goes on does not have its prompt read again",
  { args: ["--journal-prompts"] }, async (swarm) => {
    swarm.help("one");
    swarm.help("two");
    await swarm.up();
    const story = "A fox found a lantern in the snow and carried it home over the hill. ";
    // On a busy machine workers may come back when the server has waited for them long enough.
    let computed;
    for (let i = 0; i < 3 && !(computed < 130); ++i) {
      const messages = [{ role: "user", content: `Story ${i}: ${story.repeat(20)}` }];
      const request = { ...kRequest, messages, max_tokens: 100 };
      const cut = await swarm.killInAnswer(`long-prompt-${i}`, { request });
      assert.ok(swarm.atKill.computed_positions > 250, `${swarm.atKill.computed_positions}`);
      await swarm.start();
      await swarm.up();
      const answer = await swarm.ask(`long-prompt-${i}`, { request });
      assert.equal(answer.finishReason, "length");
      assert.ok(answer.text.startsWith(cut));
      // What is left of the answer, and a few tokens that had not come to the disk.
      computed = (await swarm.picture()).computed_positions;
    }
    assert.ok(computed < 130, `${computed} positions`);
  });

restartTest("workers wait for a server that is away for five seconds",
  { args: ["--journal-prompts"] },
  async (swarm) => {
    swarm.help("one");
    swarm.help("two");
    await swarm.up();
    const cut = await swarm.killInAnswer("long-key");
    await new Promise((resolve) => setTimeout(resolve, 5000));
    await swarm.start();
    const after = await swarm.up();
    assert.deepEqual(Swarm.stagesOf(after), Swarm.stagesOf(swarm.atKill));
    for (const worker of after.workers) assert.equal(worker.downloaded_bytes, 0);
    const answer = await swarm.ask("long-key");
    assert.equal(answer.finishReason, "length");
    assert.ok(answer.text.startsWith(cut), `${cut}\nis not how it begins:\n${answer.text}`);
    for (const { output, child } of swarm.workers) {
      assert.equal(child.exitCode, null, "nobody was refused");
      assert.doesNotMatch(output, /refuses|stopped/);
    }
  });

let browser = null;
before(async () => {
  if (skipTabs) return;
  await buildHarness();
  browser = await launchBrowser();
});
after(async () => browser?.close());

restartTest("a tab comes back with what it holds",
  { args: ["--web-root", harness], skip: skipTabs },
  async (swarm) => {
    const context = await browser.newContext();
    try {
      const tab = await Tab.open(context, swarm.origin);
      await tab.start({ name: "tab", memoryBytes: 256e6 });
      await swarm.up();
      const known = (await tab.statuses()).length;
      const request = { ...kRequest, max_tokens: 60 };
      const cut = await swarm.killInAnswer("tab-key", { request, characters: 20 });
      await swarm.start();
      const picture = await swarm.up();
      assert.deepEqual(Swarm.stagesOf(picture), Swarm.stagesOf(swarm.atKill));
      assert.equal(picture.workers[0].kind, "web");
      assert.equal(picture.workers[0].downloaded_bytes, 0);
      const again = await swarm.ask("tab-key", { request });
      assert.equal(again.finishReason, "length");
      assert.ok(again.text.startsWith(cut), `${cut}\nis not how it begins:\n${again.text}`);
      const phases = (await tab.statuses()).slice(known).map(({ phase }) => phase);
      assert.ok(phases.includes("computing"), JSON.stringify(phases));
      assert.ok(!phases.includes("loading") && !phases.includes("downloading"),
        JSON.stringify(phases));
    } finally {
      await context.close();
    }
  });

restartTest("keys and links of before let in, until somebody ends that",
  { args: ["--host-name", "weft.test"] },
  async (swarm) => {
    const secretsOf = () => ({
      key: swarm.server.output.match(/API key:\s+(\w+)/)[1],
      token: swarm.server.output.match(/join token:\s+(\w+)/)[1],
    });
    const first = secretsOf();
    swarm.headers = { Authorization: `Bearer ${first.key}` };
    swarm.help("one", { WEFT_JOIN_TOKEN: first.token });
    swarm.help("two", { WEFT_JOIN_TOKEN: first.token });
    await swarm.up();
    await swarm.kill();
    await swarm.start();
    const second = secretsOf();
    assert.notEqual(second.key, first.key);
    assert.match(swarm.server.output, /of earlier starts are as good/);
    await swarm.up(); // the workers' token and the key of the first start
    const told = await fetch(`${swarm.origin}/api/share`, { headers: swarm.headers });
    const share = await told.json();
    assert.ok(share.join_url.endsWith(`#${first.token}`), "a page of before shows its link");
    await swarm.kill();
    swarm.args.push("--new-secrets");
    await swarm.start();
    assert.doesNotMatch(swarm.server.output, /of earlier starts are as good/);
    for (const { key } of [first, second]) {
      const answer = await fetch(`${swarm.origin}/api/swarm`,
        { headers: { Authorization: `Bearer ${key}` } });
      assert.equal(answer.status, 401);
    }
    for (const worker of swarm.workers) assert.notEqual(await worker.exited, 0);
  });

restartTest("a file that is no journal is put aside", {}, async (swarm) => {
  await swarm.kill();
  // With what SQLite keeps beside a file it could be made whole again.
  for (const ending of ["-wal", "-shm"]) rmSync(swarm.journal + ending, { force: true });
  writeFileSync(swarm.journal, "a letter");
  await swarm.start();
  assert.match(swarm.server.output,
    /cannot be used: The file '[^']*' cannot be read as a database/);
  assert.equal(readFileSync(`${swarm.journal}.bad`, "utf8"), "a letter");
});
