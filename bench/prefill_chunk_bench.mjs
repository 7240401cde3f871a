// How long the tokens of one conversation wait while the prompt of another is read, and how long
// that prompt takes, for several `weft serve --prefill-chunk`: a server with its own worker only.
//
//   ./dev bench prefill-chunk [--model 0.6b] [--chunks 20,50,200,10000] [--prompt 700] [--rounds 3]
//
// One line of JSON a chunk: medians of the time to the prompt's first token alone and beside the
// conversation, and of the conversation's longest wait between two tokens, all in ms. A chunk of
// 10,000 ms is none: frames have up to 1,024 rows.
import { parseArgs } from "node:util";

import { askQuietly, messagesOf, promptOf, textOf } from "./lib/chat_client.mjs";
import { packageOf } from "./lib/packages.mjs";
import { median, rounded } from "./lib/statistics.mjs";
import { sleep, until, WeftProcess } from "./lib/weft_processes.mjs";

const { values } = parseArgs({
  options: {
    weft: { type: "string", default: "build/release/weft" },
    model: { type: "string", default: "0.6b" },
    chunks: { type: "string", default: "20,50,200,10000" },
    prompt: { type: "string", default: "700" },
    rounds: { type: "string", default: "3" },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log("Options: --model 0.6b --chunks MS,... --prompt TOKENS --rounds N");
  process.exit(0);
}
const rounds = Number(values.rounds);
const kTalkTokens = 160;
const kTalkAloneMs = 1000;
const { folder, manifest } = packageOf(values.weft, values.model);
const model = manifest.name;

async function ask(origin, content, tokens) {
  const { sentAt, times } = await askQuietly(origin,
    { model, messages: messagesOf(content), max_tokens: tokens });
  const waits = times.slice(1).map((at, i) => at - times[i]);
  return { firstMs: times[0] - sentAt, longestWaitMs: Math.max(0, ...waits) };
}

async function measure(origin) {
  const alone = [];
  const beside = [];
  const waits = [];
  for (let i = 0; i < rounds; ++i) {
    const prompt = async (number) => await promptOf(origin, model, number, Number(values.prompt));
    // Prompts that were asked before would be found in a session's prefix.
    alone.push((await ask(origin, `${i} ${await prompt(20 + i)}`, 4)).firstMs);
    const next = `${rounds + i} ${await prompt(40 + i)}`;
    const talk = ask(origin, textOf(60 + i, 5), kTalkTokens);
    await sleep(kTalkAloneMs);
    beside.push((await ask(origin, next, 4)).firstMs);
    waits.push((await talk).longestWaitMs);
  }
  return { prompt_alone_ms: rounded(median(alone), 0), prompt_beside_ms: rounded(median(beside), 0),
    longest_wait_ms: rounded(median(waits), 0) };
}

for (const chunk of values.chunks.split(",")) {
  const server = new WeftProcess(values.weft, ["serve", folder, "--port", "0", "--journal", "off",
    "--context", "4096", "--prefill-chunk", chunk]);
  try {
    const origin = await until(() => {
      if (server.exited) throw new Error(`weft serve ended: ${server.lines.join("\n")}`);
      return server.lines.join("\n").match(/chat:\s+(http:\S+?)\/?\s*$/m)?.[1];
    }, () => server.lines.join("\n"), 60_000);
    await ask(origin, "hello", 8);
    console.log(JSON.stringify({ chunk_ms: Number(chunk), ...(await measure(origin)) }));
  } finally {
    await server.end();
  }
}
process.exit(0);
