// How soon a server alone answers, how long an answer takes, and what memory it has, beside another
// build of weft, in turns.
//
//   ./dev bench server-start [--against PROGRAM] [--package packages/weft-tiny] [--rounds 5]
//                            [--requests 40] [--tokens 16] [--port 9300]
//
// One line of JSON for each program: medians of rounds. A server begins with an empty state folder.
// `keyed_ms` is an answer to a request with an Idempotency-Key, which the server keeps a record of.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { median, rounded } from "./lib/statistics.mjs";
import { WeftProcess, memoryMiB, sleep } from "./lib/weft_processes.mjs";

const { values } = parseArgs({
  options: {
    weft: { type: "string", default: "build/release/weft" },
    against: { type: "string" },
    package: { type: "string", default: "packages/weft-tiny" },
    rounds: { type: "string", default: "5" },
    requests: { type: "string", default: "40" },
    tokens: { type: "string", default: "16" },
    port: { type: "string", default: "9300" },
  },
});
const rounds = Number(values.rounds), requests = Number(values.requests);

async function ask(origin, content, headers = {}) {
  const begin = performance.now();
  const answer = await fetch(`${origin}/v1/chat/completions`, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: JSON.stringify({
      messages: [{ role: "user", content }],
      max_tokens: Number(values.tokens), temperature: 1, ignore_eos: true,
    }),
  });
  const body = await answer.text();
  if (!answer.ok) throw new Error(body);
  return performance.now() - begin;
}

async function isReady(origin) {
  try {
    const answer = await fetch(`${origin}/readyz`);
    await answer.text();
    return answer.ok;
  } catch {
    return false; // it does not listen yet
  }
}

async function oneRound(program, port) {
  const state = mkdtempSync(join(tmpdir(), "weft-server-start-"));
  process.env.XDG_STATE_HOME = state;
  const origin = `http://127.0.0.1:${port}`;
  const begin = performance.now();
  const server = new WeftProcess(program,
    ["serve", values.package, "--port", String(port), "--context", "256", "--sessions", "8"]);
  while (!(await isReady(origin))) {
    if (server.exited) throw new Error(server.lines.join("\n"));
    await sleep(2);
  }
  const readyMs = performance.now() - begin;
  for (let i = 0; i < 5; ++i) await ask(origin, `Warm ${i}`);
  const plain = [], keyed = [];
  // One after the other: what is written for a key is still written after its answer.
  for (let i = 0; i < requests; ++i) plain.push(await ask(origin, `Hello ${i}`));
  for (let i = 0; i < requests; ++i) {
    keyed.push(await ask(origin, `Hello ${i}`, { "Idempotency-Key": `key-${i}` }));
  }
  const rssMiB = memoryMiB(server.pid);
  await server.end();
  rmSync(state, { recursive: true });
  return { ready_ms: readyMs, plain_ms: median(plain), keyed_ms: median(keyed),
    rss_mib: rssMiB };
}

const programs = [values.weft, ...(values.against ? [values.against] : [])];
const results = new Map(programs.map((program) => [program, []]));
for (let round = 0; round < rounds; ++round) {
  const order = round % 2 === 0 ? programs : [...programs].reverse();
  for (const program of order)
    results.get(program).push(await oneRound(program, Number(values.port)));
}
for (const [program, all] of results) {
  const medians = Object.keys(all[0]).map(
    (field) => [field, rounded(median(all.map((each) => each[field])), 2)]);
  console.log(JSON.stringify({ program, ...Object.fromEntries(medians) }));
}
