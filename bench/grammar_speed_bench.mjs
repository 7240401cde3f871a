// What structured output costs an answer: tokens a second of one chat with a grammar and without,
// in turns on one server, so that both meet the same machine. `./dev bench grammar-speed --package
// DIR --tokens 200 --rounds 5`. The grammar is a list of strings without an end, so that answers
// are as long as they are asked to be; `logprobs` has its own line, because a device that holds the
// whole model makes tokens by itself where nobody wants to see each.
import { spawn } from "node:child_process";
import { parseArgs } from "node:util";

const { values } = parseArgs({
  options: {
    weft: { type: "string", default: "build/release/weft" },
    package: { type: "string", default: "packages/weft-tiny" },
    tokens: { type: "string", default: "400" },
    rounds: { type: "string", default: "5" },
  },
});
const kStrings = { type: "array", items: { type: "string" }, minItems: 200 };
const kWays = {
  free: { ignore_eos: true },
  logprobs: { ignore_eos: true, logprobs: true },
  schema: {
    response_format: { type: "json_schema", json_schema: { name: "a", schema: kStrings } },
  },
};

const server = spawn(values.weft, ["serve", values.package, "--port", "0", "--journal", "off"]);
let said = "";
server.stdout.on("data", (text) => (said += text));
server.stderr.on("data", (text) => (said += text));

async function until(find) {
  for (let i = 0; i < 600; ++i) {
    const found = await find();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`weft serve did not come up: ${said}`);
}

async function tokensPerSecond(origin, model, fields, seed) {
  const begin = performance.now();
  const response = await fetch(`${origin}/v1/chat/completions`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({
      model, seed, temperature: 0.7, max_tokens: Number(values.tokens),
      messages: [{ role: "user", content: "Tell me names of foxes." }],
      ...fields,
    }),
  });
  const { usage, error } = await response.json();
  if (error) throw new Error(error.message);
  return (1000 * usage.completion_tokens) / (performance.now() - begin);
}

function median(list) {
  const sorted = list.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

try {
  const origin = await until(() => /API:\s+(http:\S+)\/v1/.exec(said)?.[1]);
  await until(async () => (await (await fetch(`${origin}/api/swarm`)).json()).state === "up");
  const model = (await (await fetch(`${origin}/v1/models`)).json()).data[0].id;
  const measured = Object.fromEntries(Object.keys(kWays).map((name) => [name, []]));
  for (let round = 0; round <= Number(values.rounds); ++round)
    for (const [name, fields] of Object.entries(kWays)) {
      const speed = await tokensPerSecond(origin, model, fields, round);
      if (round > 0) measured[name].push(speed); // the first ones warm up
    }
  const of = Object.fromEntries(Object.entries(measured).map(([name, list]) =>
    [name, Number(median(list).toFixed(1))]));
  console.log(JSON.stringify({
    ...of, of_free: Number((of.schema / of.free).toFixed(3)),
    of_logprobs: Number((of.schema / of.logprobs).toFixed(3)),
  }));
} finally {
  server.kill("SIGTERM");
}
