// Sampling over the API, where most of the distribution lies beyond the best few tokens: what is
// drawn at temperature 2 has the probabilities that the log probabilities at temperature 0 give.
import assert from "node:assert/strict";
import { test } from "node:test";

import { eventually, packageOf, reasonToSkip, serve, swarmOf } from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny");
const kDraws = 600;
// Nothing of the kind was ever trained: the model expects much.
const kQuestion = "zq xv 8 kk?";

async function withServer(body) {
  const server = await serve(packageOf("weft-tiny"), ["--threads", "1"]);
  try {
    await eventually(async () => assert.equal((await swarmOf(server.origin)).state, "up"));
    await body(async (request) => {
      const response = await fetch(`${server.origin}/v1/chat/completions`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({
          model: "weft-tiny",
          messages: [{ role: "user", content: kQuestion }],
          max_tokens: 1,
          ignore_eos: true,
          logprobs: true,
          top_k: 0, // the model's own recommendation cuts the tail off
          top_p: 1,
          ...request,
        }),
      });
      const answer = await response.json();
      assert.equal(response.status, 200, JSON.stringify(answer));
      return answer.choices[0];
    });
  } finally {
    await server.stop();
  }
}

test("the first token at temperature 2 follows the model's probabilities", { skip }, () =>
  withServer(async (ask) => {
    const greedy = await ask({ temperature: 0, top_logprobs: 20 });
    const best = greedy.logprobs.content[0].top_logprobs;
    assert.equal(best.length, 20);
    const weights = new Map(best.map(({ token, logprob }) => [token, Math.exp(logprob / 2)]));
    assert.equal(weights.size, 20);
    const counts = new Map();
    let beyond = 0;
    for (let seed = 0; seed < kDraws; ++seed) {
      const { token } = (await ask({ temperature: 2, seed })).logprobs.content[0];
      if (weights.has(token)) counts.set(token, (counts.get(token) ?? 0) + 1);
      else ++beyond;
    }
    // Given that a token is one of the best 20, its probability is known.
    const within = kDraws - beyond;
    const sum = [...weights.values()].reduce((a, b) => a + b, 0);
    let chiSquare = 0;
    for (const [token, weight] of weights) {
      const expected = (within * weight) / sum;
      chiSquare += ((counts.get(token) ?? 0) - expected) ** 2 / expected;
    }
    assert.ok(within > kDraws / 10, `${within} of ${kDraws} draws were of the best 20`);
    assert.ok(beyond > kDraws / 20, `${beyond} of ${kDraws} draws were beyond the best 20`);
    // 19 degrees of freedom: beyond 60 once in 200,000 runs, and the seeds are fixed.
    assert.ok(chiSquare < 60, `chi-square ${chiSquare}`);
  }));

test("a seed gives the same answer at temperature 2, another one another", { skip }, () =>
  withServer(async (ask) => {
    const request = { temperature: 2, max_tokens: 40 };
    const textOf = async (seed) => (await ask({ ...request, seed })).message.content;
    const first = await textOf(5);
    assert.equal(await textOf(5), first);
    assert.notEqual(await textOf(6), first);
  }));

test("logit_bias lifts a token from far beyond the best ones", { skip }, () =>
  withServer(async (ask) => {
    const { logprobs } = await ask({ temperature: 1, logit_bias: { 777: 100 }, max_tokens: 3 });
    assert.equal(logprobs.content.length, 3);
    for (const { token, logprob } of logprobs.content) {
      assert.equal(token, logprobs.content[0].token);
      assert.ok(logprob < -3, `the model itself gives it ${logprob}`);
    }
  }));
