// Tokens a second of /v1/embeddings, beside those of reading the same prompts for a text: a server
// with its own worker only, layers of Qwen3-0.6B in q4.
//
//   ./dev bench embeddings [--layers 8] [--inputs 16] [--tokens 128] [--rounds 5]
//
// One line of JSON: medians over the rounds. `text` are requests to /v1/completions for one token
// each, all at the same moment; `mean` and `last` one request to /v1/embeddings with all inputs.
// The three take turns in every round, with tokens that none of them has had.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { cacheFolder, root } from "./lib/packages.mjs";
import { median, rounded } from "./lib/statistics.mjs";
import { until, WeftProcess } from "./lib/weft_processes.mjs";

const { values } = parseArgs({
  options: {
    weft: { type: "string", default: "build/release/weft" },
    layers: { type: "string", default: "8" },
    inputs: { type: "string", default: "16" },
    tokens: { type: "string", default: "128" },
    rounds: { type: "string", default: "5" },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log("Options: --layers N --inputs N --tokens N --rounds N --weft PROGRAM");
  process.exit(0);
}
const kVocabulary = 4096;
const kinds = { text: [], mean: ["--embedding", "mean"], last: ["--embedding", "last"] };

const folderOf = (kind) => join(cacheFolder(), `embeddings-${values.layers}-layers-${kind}`);

function makePackages() {
  if (Object.keys(kinds).every((kind) => existsSync(folderOf(kind)))) return;
  mkdirSync(cacheFolder(), { recursive: true });
  const checkpoint = join(cacheFolder(), "embeddings.checkpoint");
  rmSync(checkpoint, { recursive: true, force: true });
  execFileSync("python3", [join(root, "tools/random_checkpoint.py"), checkpoint,
    "--layers", values.layers, "--vocab", String(kVocabulary), "--untied",
    "--tokenizer", join(root, "models/weft-tiny/tokenizer.json")]);
  for (const [kind, how] of Object.entries(kinds))
    execFileSync(values.weft,
      ["convert", checkpoint, folderOf(kind), "--quant", "q4", "--name", kind, "--force", ...how],
      { stdio: "pipe" });
  rmSync(checkpoint, { recursive: true });
}

async function post(origin, path, body) {
  const response = await fetch(`${origin}${path}`, { method: "POST", body: JSON.stringify(body) });
  const answer = await response.json();
  if (response.status !== 200) throw new Error(JSON.stringify(answer));
  return answer;
}

const ask = {
  text: (origin, inputs) => Promise.all(inputs.map((prompt) =>
    post(origin, "/v1/completions", { prompt, max_tokens: 1, temperature: 0 }))),
  mean: (origin, input) => post(origin, "/v1/embeddings", { input, encoding_format: "base64" }),
  last: (origin, input) => post(origin, "/v1/embeddings", { input, encoding_format: "base64" }),
};

// Tokens of text that differ from input to input and from round to round.
function inputsOf(round) {
  const length = Number(values.tokens);
  return Array.from({ length: Number(values.inputs) }, (_, i) =>
    Array.from({ length }, (_, at) => 300 + (round * 7919 + i * 104729 + at * 31) % 3500));
}

makePackages();
const servers = {};
for (const kind of Object.keys(kinds)) {
  const process = new WeftProcess(values.weft, ["serve", folderOf(kind), "--port", "0",
    "--context", String(2 * Number(values.tokens))]);
  await until(() => process.lines.some((line) => /Ready: /.test(line)), () => process.lines);
  const line = process.lines.find((each) => each.includes("/v1"));
  servers[kind] = { process, origin: line.match(/https?:\/\/[^/\s]+/)[0], rates: [] };
}
const count = Number(values.inputs) * Number(values.tokens);
for (let round = -1; round < Number(values.rounds); ++round) {
  for (const [kind, { origin, rates }] of Object.entries(servers)) {
    const begun = performance.now();
    await ask[kind](origin, inputsOf(round + 1));
    if (round >= 0) rates.push(count / (performance.now() - begun) * 1000);
  }
}
const result = { layers: Number(values.layers), inputs: Number(values.inputs),
  tokens: Number(values.tokens) };
for (const [kind, { rates }] of Object.entries(servers)) result[kind] = rounded(median(rates), 0);
console.log(JSON.stringify(result));
process.exit(0);
