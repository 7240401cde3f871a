// How long a chat waits for its first token when others have the same long system prompt, one after
// another and together, and how long the next turn of a conversation waits that was there before
// them: a server with its own worker only.
//
//   ./dev bench shared-prompts [--model tiny] [--layers N] [--prompt 1000] [--chats 10]
//       [--rounds 3]
//
// One line of JSON: medians of times to the first token in ms. `first` computes the system prompt
// and a message of half its length, `later` are the other chats, with short messages, one after
// another, `next_turn` is that of the first one behind them. `together` are as many chats with
// another system prompt that ask at the same moment: the first token of any, and of the last one.
import { parseArgs } from "node:util";

import { askQuietly, promptOf } from "./lib/chat_client.mjs";
import { packageOf } from "./lib/packages.mjs";
import { median, rounded } from "./lib/statistics.mjs";
import { until, WeftProcess } from "./lib/weft_processes.mjs";

const { values } = parseArgs({
  options: {
    weft: { type: "string", default: "build/release/weft" },
    model: { type: "string", default: "tiny" },
    layers: { type: "string" },
    prompt: { type: "string", default: "1000" },
    chats: { type: "string", default: "10" },
    rounds: { type: "string", default: "3" },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log("Options: --model tiny --layers N --prompt TOKENS --chats N --rounds N " +
    "--weft PROGRAM");
  process.exit(0);
}
const kAnswerTokens = 8;
const chats = Number(values.chats);
const { folder, manifest } = packageOf(values.weft, values.model, values.layers);

const short = (number) => `${number}: what is to be done?`;

function messagesOf(system, content) {
  return [{ role: "system", content: system }, { role: "user", content }];
}

async function firstToken(origin, messages) {
  const { sentAt, times, text } = await askQuietly(origin,
    { model: manifest.name, messages, max_tokens: kAnswerTokens });
  return { ms: times[0] - sentAt, text };
}

async function measure(origin, round) {
  const wanted = Number(values.prompt);
  const prompt = async (number, tokens) =>
    `${round} ${await promptOf(origin, manifest.name, 3 * round + number, tokens)}`;
  const system = await prompt(0, wanted);
  const long = messagesOf(system, await prompt(1, wanted / 2));
  const first = await firstToken(origin, long);
  const later = [];
  for (let i = 1; i < chats; ++i)
    later.push((await firstToken(origin, messagesOf(system, short(i)))).ms);
  const next = await firstToken(origin, [...long, { role: "assistant", content: first.text },
    { role: "user", content: "And then?" }]);
  const other = await prompt(2, wanted);
  const waits = (await Promise.all(Array.from({ length: chats },
    (_, i) => firstToken(origin, messagesOf(other, short(i)))))).map((each) => each.ms);
  return { first_ms: first.ms, later_ms: median(later), next_turn_ms: next.ms,
    together_first_ms: Math.min(...waits), together_last_ms: Math.max(...waits) };
}

// The longest prompt is one and a half times `--prompt`.
const context = Math.max(2048, 2 * Number(values.prompt));
const server = new WeftProcess(values.weft, ["serve", folder, "--port", "0", "--journal", "off",
  "--context", String(context), "--sessions", String(chats + 2)]);
try {
  const origin = await until(() => {
    if (server.exited) throw new Error(`weft serve ended: ${server.lines.join("\n")}`);
    return server.lines.join("\n").match(/chat:\s+(http:\S+?)\/?\s*$/m)?.[1];
  }, () => server.lines.join("\n"), 60_000);
  await firstToken(origin, [{ role: "user", content: "hello" }]);
  const measured = [];
  for (let round = 0; round < Number(values.rounds); ++round)
    measured.push(await measure(origin, round));
  const line = { chats, prompt_tokens: Number(values.prompt) };
  for (const name of Object.keys(measured[0]))
    line[name] = rounded(median(measured.map((each) => each[name])), 0);
  console.log(JSON.stringify(line));
} finally {
  await server.end();
}
process.exit(0);
