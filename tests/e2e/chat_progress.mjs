// What a request hears while it waits, over weft itself and without a browser: comments in its
// stream, which OpenAI's own client does not see.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";

import { eventually, packageOf, reasonToSkip, root, serve, swarmOf } from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny");
const require = createRequire(join(root, "web/package.json"));
const kComment =
  /^: progress \{("requests_ahead":\d+|"prompt_tokens":\d+,"prompt_done":\d+)\}$/;
const kStory = "Tell me a story about a little fox who lost a red ball.";

// One conversation at a time: whatever else is asked waits.
async function withServer(body) {
  const server = await serve(packageOf("weft-tiny"), ["--sessions", "1", "--threads", "1"]);
  try {
    await eventually(async () => assert.equal((await swarmOf(server.origin)).state, "up"));
    await body(server);
  } finally {
    await server.stop();
  }
}

const question = (tokens) => ({
  model: "weft-tiny",
  messages: [{ role: "user", content: kStory }],
  temperature: 0,
  max_tokens: tokens,
});

// A stream that goes on until `signal` ends it, as text.
async function open(origin, request, signal) {
  const response = await fetch(`${origin}/v1/chat/completions`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...request, stream: true }),
    signal,
  });
  const heard = { text: "", done: null };
  heard.done = (async () => {
    for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
      heard.text += text;
    }
  })().catch((error) => assert.equal(error.name, "AbortError"));
  return heard;
}

test("a request that waits hears how many come first, then is answered", { skip }, () =>
  withServer(async ({ origin }) => {
    const stop = new AbortController();
    const first = await open(origin, { ...question(3000), ignore_eos: true }, stop.signal);
    await eventually(() => assert.match(first.text, /"content":"[^"]/));
    const second = await open(origin, question(5));
    await eventually(() => assert.match(second.text, /^: progress \{"requests_ahead":0\}$/m));
    const third = await open(origin, question(5));
    await eventually(() => assert.match(third.text, /^: progress \{"requests_ahead":1\}$/m));
    stop.abort();
    await Promise.all([first.done, second.done, third.done]);
    for (const { text } of [second, third]) {
      assert.match(text, /data: \[DONE\]\n\n$/);
      for (const line of text.split("\n").filter((it) => it.startsWith(":"))) {
        assert.match(line, kComment);
      }
    }
  }));

test("OpenAI's client reads a stream with such comments as one without", { skip }, () =>
  withServer(async ({ origin }) => {
    const { default: OpenAI } = await import(require.resolve("openai"));
    const client = new OpenAI({ baseURL: `${origin}/v1`, apiKey: "none" });
    const textOf = async () => {
      let text = "";
      for await (const chunk of await client.chat.completions.create({
        ...question(20), stream: true,
      })) {
        assert.equal(chunk.object, "chat.completion.chunk");
        text += chunk.choices[0]?.delta?.content ?? "";
      }
      return text;
    };
    const expected = await textOf();
    assert.notEqual(expected, "");
    const stop = new AbortController();
    const first = await open(origin, { ...question(3000), ignore_eos: true }, stop.signal);
    await eventually(() => assert.match(first.text, /"content":"[^"]/));
    const waiting = textOf();
    await eventually(async () => assert.equal((await swarmOf(origin)).queued_requests, 1));
    await new Promise((resolve) => setTimeout(resolve, 400)); // at least one comment
    stop.abort();
    assert.equal(await waiting, expected);
    await first.done;
  }));
