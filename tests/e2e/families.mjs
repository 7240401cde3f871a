// Three tabs with our WebGPU engine (on a software adapter) answer with the families of 2026:
// recurrent layers (Qwen3.5), heads of 512 columns whose keys are their values (Gemma 4), layers
// that are kept together (Gemma 4 E2B). The judge is the native engine, which is itself held
// against transformers.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { buildHarness, harness, launchBrowser, noBrowser, Tab } from "./lib/tabs.mjs";
import { complete, data, eventually, reasonToSkip, serve, swarmOf, weft } from "./lib/weft.mjs";

const checkpoints = join(data, "checkpoints-2026");
const skip = noBrowser() || reasonToSkip("stories260K") ||
  (existsSync(checkpoints) ? false : `there is no ${checkpoints}`);

let folder = "";
let browser = null;
before(async () => {
  if (skip) return;
  folder = mkdtempSync(join(tmpdir(), "weft-families-"));
  await buildHarness();
  browser = await launchBrowser();
});
after(async () => {
  await browser?.close();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

// The character that stands for a byte in byte-level vocabularies: itself where it can be seen,
// else one from U+0100 on.
function byteCharacters() {
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    const isSeen = (byte >= 33 && byte <= 126) || (byte >= 161 && byte !== 173);
    return String.fromCodePoint(isSeen ? byte : next++);
  });
}

// Three special tokens, one for each byte, and words up to the 320 rows of the twins' tables.
function tokenizer() {
  const special = ["<pad>", "<s>", "</s>"];
  const words = Array.from({ length: 320 - 259 }, (_, i) => `Ġword${i}`);
  const vocabulary = [...special, ...byteCharacters(), ...words];
  return {
    version: "1.0",
    added_tokens: special.map((content, id) => ({
      id, content, special: true, single_word: false, lstrip: false, rstrip: false,
      normalized: false,
    })),
    normalizer: null,
    pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, trim_offsets: true,
      use_regex: true },
    post_processor: null,
    decoder: { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true },
    model: {
      type: "BPE", vocab: Object.fromEntries(vocabulary.map((token, id) => [token, id])),
      merges: [],
    },
  };
}

// The twin with a tokenizer, which it comes without, in f32.
function packageOfTwin(name) {
  const source = join(folder, name);
  cpSync(join(checkpoints, name), source, { recursive: true });
  writeFileSync(join(source, "tokenizer.json"), JSON.stringify(tokenizer()));
  writeFileSync(join(source, "tokenizer_config.json"), JSON.stringify({
    eos_token: "</s>",
    chat_template: "{% for message in messages %}{{ message.content }}{% endfor %}",
  }));
  const target = join(folder, `${name}-package`);
  execFileSync(weft, ["convert", source, target, "--quant", "f32"], { stdio: "pipe" });
  return target;
}

async function answer(server, name) {
  const { choices: [choice], usage } = await complete(server.origin, {
    model: name, max_tokens: 12, temperature: 0,
    messages: [{ role: "user", content: "The loom goes to and fro." }],
  });
  return { text: choice.message.content, tokens: usage.completion_tokens };
}

for (const name of ["qwen3_5", "gemma4", "gemma4-e"]) {
  test(`a swarm of three tabs answers with ${name}`, { skip, timeout: 480_000 }, async () => {
    const twin = packageOfTwin(name);
    const native = await serve(twin, ["--context", "128"]);
    const expected = await answer(native, name).finally(() => native.stop());
    assert.ok(expected.tokens > 4, JSON.stringify(expected));

    const server = await serve(twin, ["--context", "128", "--no-worker", "--web-root", harness]);
    const context = await browser.newContext();
    try {
      const tabs = [];
      for (const tabName of ["one", "two", "three"]) {
        const tab = await Tab.open(context, server.origin);
        await tab.start({ name: tabName, memoryBytes: 64e6, engine: "webgpu" });
        tabs.push(tab);
      }
      await eventually(async () => {
        const { state, message, workers } = await swarmOf(server.origin);
        assert.equal(state, "up", message);
        assert.equal(workers.length, 3);
      }, 240_000);
      assert.deepEqual(await answer(server, name), expected);
      for (const tab of tabs) assert.equal((await tab.status()).engine, "webgpu");
    } catch (error) {
      error.stack += `\nThe server said:\n${server.output.slice(-4000)}`;
      throw error;
    } finally {
      await context.close();
      await server.stop();
    }
  });
}
