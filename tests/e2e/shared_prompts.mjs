// Conversations with one long system prompt: it is computed once, by a native worker and a tab, for
// chats that come one after another and for those that come together; and prefixes kept by name.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { Tab, buildHarness, harness, launchBrowser, noBrowser } from "./lib/tabs.mjs";
import {
  complete, eventually, nativeWorker, packageOf, reasonToSkip, serve, swarmOf,
} from "./lib/weft.mjs";

const skip = noBrowser() || reasonToSkip("weft-tiny");
const kModel = "weft-tiny";
const kChats = 10;
const kAnswerTokens = 4;
// Some hundred tokens of weft-tiny's.
const kSystem = { role: "system", content: "You tell short stories about a fox and a lantern. "
  .repeat(20) };
const kContext = ["--context", "512", "--sessions", "12"];

let browser = null;
before(async () => {
  if (skip) return;
  await buildHarness();
  browser = await launchBrowser();
});
after(async () => browser?.close());

function chatOf(number) {
  const names = ["Ann", "Bob", "Cid", "Dan", "Eve", "Fay", "Gus", "Hal", "Ida", "Joe"];
  return { model: kModel, max_tokens: kAnswerTokens, ignore_eos: true,
    messages: [kSystem, { role: "user", content: `${names[number]} wants to hear one.` }] };
}

const cachedOf = (answer) => answer.usage.prompt_tokens_details?.cached_tokens ?? 0;
const textOf = (answer) => answer.choices[0].message.content;

// What ten answers cost: their prompts and tokens, without what they share.
function positionsOf(answers) {
  const rows = answers.map((each) => each.usage.prompt_tokens - cachedOf(each) +
    each.usage.completion_tokens - 1);
  return rows.reduce((sum, each) => sum + each, 0);
}

async function restOf(origin, method, name = "", body = undefined) {
  const response = await fetch(`${origin}/v1/prefixes${name && `/${name}`}`, { method,
    body: body && JSON.stringify(body), headers: { "Content-Type": "application/json" } });
  return { status: response.status, body: await response.json() };
}

test("ten chats of a native worker and a tab compute their system prompt once",
  { skip, timeout: 240_000 }, async () => {
    const server = await serve(packageOf(kModel),
      ["--web-root", harness, "--no-worker", ...kContext]);
    const context = await browser.newContext();
    const native = nativeWorker(server.origin, ["--memory", "35000000", "--threads", "1"]);
    try {
      const tab = await Tab.open(context, server.origin);
      await tab.start({ name: "tab", memoryBytes: 75e6 });
      await eventually(async () => {
        const { state, stages, message } = await swarmOf(server.origin);
        assert.equal(state, "up", message);
        assert.equal(new Set(stages.map((stage) => stage.worker)).size, 2, JSON.stringify(stages));
      }, 120_000);

      const before = (await swarmOf(server.origin)).computed_positions;
      const first = [];
      for (let i = 0; i < kChats / 2; ++i) first.push(await complete(server.origin, chatOf(i)));
      const together = await Promise.all(Array.from({ length: kChats / 2 },
        (_, i) => complete(server.origin, chatOf(kChats / 2 + i))));
      const answers = [...first, ...together];
      const computed = (await swarmOf(server.origin)).computed_positions - before;
      const [{ usage }, ...others] = answers;
      assert.ok(usage.prompt_tokens > 200, `${usage.prompt_tokens} tokens are no long prompt`);
      assert.equal(cachedOf(answers[0]), 0);
      for (const each of others)
        assert.ok(each.usage.prompt_tokens - cachedOf(each) < 40, JSON.stringify(each.usage));
      assert.equal(computed, positionsOf(answers));
      assert.ok(computed < usage.prompt_tokens + kChats * 50, `${computed} positions`);

      // The first conversation is whole: its next turn computes what is new alone.
      const next = { ...chatOf(0) };
      next.messages = [...next.messages, { role: "assistant", content: textOf(answers[0]) },
        { role: "user", content: "And then?" }];
      const turn = await complete(server.origin, next);
      assert.ok(turn.usage.prompt_tokens - cachedOf(turn) < 40, JSON.stringify(turn.usage));

      // And what was shared is what would have been computed.
      await native.stop();
      const alone = await serve(packageOf(kModel), ["--web-root", harness, "--sessions", "1",
        "--context", "512"]);
      try {
        for (const i of [3, 8])
          assert.equal(textOf(await complete(alone.origin, chatOf(i))), textOf(answers[i]));
      } finally {
        await alone.stop();
      }
    } catch (error) {
      error.stack += `\nThe server said:\n${server.output.slice(-4000)}`;
      throw error;
    } finally {
      await native.stop();
      await context.close();
      await server.stop();
    }
  });

test("a prefix that is kept by name is there after a restart, until it is forgotten",
  { skip: reasonToSkip(kModel), timeout: 120_000 }, async () => {
    const folder = mkdtempSync(join(tmpdir(), "weft-kept-"));
    const args = ["--journal", join(folder, "journal"), "--context", "512", "--sessions", "2"];
    let server = await serve(packageOf(kModel), args);
    try {
      const put = await restOf(server.origin, "PUT", "fox", { model: kModel, messages: [kSystem] });
      assert.equal(put.status, 200, JSON.stringify(put.body));
      assert.deepEqual([put.body.id, put.body.status], ["fox", "kept"]);
      const { tokens } = put.body;
      assert.ok(tokens > 200);
      // One place of two is the prefix's: each chat takes the other one.
      for (const i of [0, 1]) {
        const cached = cachedOf(await complete(server.origin, chatOf(i)));
        assert.ok(cached >= tokens - 2, `${cached} of ${tokens}`);
      }
      const full = await restOf(server.origin, "PUT", "hen", { model: kModel,
        messages: [{ role: "system", content: "You are a hen." }] });
      assert.equal(full.status, 409);
      assert.match(full.body.error.message, /--sessions/);

      await server.stop();
      server = await serve(packageOf(kModel), args);
      await eventually(async () => {
        const { body } = await restOf(server.origin, "GET");
        assert.deepEqual(body.data.map((each) => [each.id, each.status, each.tokens]),
          [["fox", "kept", tokens]]);
      });
      assert.equal((await swarmOf(server.origin)).kept_prefixes, 1);
      const cached = cachedOf(await complete(server.origin, chatOf(2)));
      assert.ok(cached >= tokens - 2, `${cached} of ${tokens}`);

      assert.equal((await restOf(server.origin, "DELETE", "fox")).body.deleted, true);
      assert.equal((await restOf(server.origin, "DELETE", "fox")).status, 404);
      assert.deepEqual((await restOf(server.origin, "GET")).body.data, []);
      // A chat names what it begins with.
      const chat = await complete(server.origin, { ...chatOf(3), keep: "fox" });
      assert.ok(chat.usage.completion_tokens > 0);
      await eventually(async () => {
        const { body } = await restOf(server.origin, "GET");
        assert.deepEqual(body.data.map((each) => [each.id, each.status]), [["fox", "kept"]]);
      });
    } catch (error) {
      error.stack += `\nThe server said:\n${server.output.slice(-4000)}`;
      throw error;
    } finally {
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    }
  });

test("a prompt_cache_key keeps a long beginning while there is room",
  { skip: reasonToSkip(kModel), timeout: 120_000 }, async () => {
    const server = await serve(packageOf(kModel), ["--context", "1536", "--sessions", "4"]);
    try {
      const long = (animal) => ({ role: "system",
        content: `You tell short stories about a ${animal} and a lantern. `.repeat(110) });
      const chat = (system, key) => complete(server.origin,
        { ...chatOf(0), messages: [system, chatOf(0).messages[1]], prompt_cache_key: key });
      const kept = async () => {
        const { body } = await restOf(server.origin, "GET");
        assert.deepEqual(body.data.map((each) => each.status), ["kept"]);
        assert.match(body.data[0].id, /^prompt_cache_key\.[0-9a-f]{24}$/);
        return body.data[0];
      };
      await chat(kSystem, "short"); // not worth a place
      assert.deepEqual((await restOf(server.origin, "GET")).body.data, []);
      await chat(long("fox"), "one");
      const fox = await eventually(kept);
      assert.ok(fox.tokens >= 1024, `${fox.tokens}`);
      // Three other conversations take all other places, and what was kept is still there.
      for (const i of [1, 2, 3]) await complete(server.origin, chatOf(i));
      const again = await chat(long("fox"), "one");
      assert.ok(cachedOf(again) >= fox.tokens - 2, `${cachedOf(again)} of ${fox.tokens}`);
      await chat(long("hen"), "two"); // one place of four may be used so
      await eventually(async () => assert.notEqual((await kept()).id, fox.id));
    } finally {
      await server.stop();
    }
  });
