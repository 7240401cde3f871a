// How long a new prompt waits when the last stage's device has gone and a standby takes its place,
// with and without idle conversations whose rows that standby has to be fed again: a server, and
// three native workers of which two serve.
//
//   ./dev bench idle-takeover [--model 0.6b] [--idle 0,3] [--idle-tokens 900] [--prompt 153]
//                             [--rounds 3] [--weft build/release/weft]
//
// One line of JSON for each number of idle conversations: the median time from the loss to the
// prompt's first token in ms, beside the same prompt's without a loss.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { askQuietly, messagesOf, promptOf } from "./lib/chat_client.mjs";
import { offerFor } from "./lib/offers.mjs";
import { packageOf } from "./lib/packages.mjs";
import { median, rounded } from "./lib/statistics.mjs";
import { settledSwarm, startServer, startWorker, swarmOf } from "./lib/weft_processes.mjs";

const { values } = parseArgs({
  options: {
    weft: { type: "string", default: "build/release/weft" },
    model: { type: "string", default: "0.6b" },
    idle: { type: "string", default: "0,3" },
    "idle-tokens": { type: "string", default: "900" },
    prompt: { type: "string", default: "153" },
    rounds: { type: "string", default: "3" },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log("Options: --model 0.6b --idle LIST --idle-tokens N --prompt N --rounds N " +
    "--weft PROGRAM");
  process.exit(0);
}
const kContext = 2048;
const { folder, manifest } = packageOf(values.weft, values.model);

async function ask(origin, content, max_tokens) {
  const { sentAt, times } = await askQuietly(origin,
    { model: manifest.name, messages: messagesOf(content), max_tokens });
  return times[0] - sentAt;
}

// Three workers of which two hold the model; what the last one of the plan computes is lost.
async function round(number, idleCount) {
  const scratch = mkdtempSync(join(tmpdir(), "weft-idle-"));
  const server = await startServer(values.weft, folder,
    ["--journal", "off", "--context", String(kContext), "--sessions", String(idleCount + 2)]);
  const workers = [];
  try {
    const offer = String(offerFor(manifest, kContext * (idleCount + 2), 2));
    for (let i = 0; i < 3; ++i)
      workers.push(startWorker(values.weft, server.origin, ["--memory", offer, "--threads", "1",
        "--cache", join(scratch, String(i)), "--name", `w${i}`]));
    const { stages } = await settledSwarm(server.origin, 3);
    const prompt = await promptOf(server.origin, manifest.name, 3 * number, Number(values.prompt));
    const other = await promptOf(server.origin, manifest.name, 3 * number + 1,
      Number(values.prompt));
    const quiet = await ask(server.origin, `quiet ${other}`, 1);
    for (let i = 0; i < idleCount; ++i)
      await ask(server.origin, `${i} ${await promptOf(server.origin, manifest.name,
        3 * number + 2, Number(values["idle-tokens"]))}`, 8);
    const names = new Map((await swarmOf(server.origin)).workers.map(({ id, name }) => [id, name]));
    const last = workers[Number(names.get(stages.at(-1).worker).slice(1))];
    last.signal("SIGKILL");
    const lost = await ask(server.origin, `again ${prompt}`, 1);
    return { stages: stages.length, quiet, lost };
  } finally {
    await Promise.all(workers.map((worker) => worker.end()));
    await server.end();
    rmSync(scratch, { recursive: true, force: true });
  }
}

for (const idleCount of values.idle.split(",").map(Number)) {
  const rounds = [];
  for (let i = 0; i < Number(values.rounds); ++i) rounds.push(await round(i, idleCount));
  const of = (name) => rounded(median(rounds.map((each) => each[name])), 0);
  console.log(JSON.stringify({ idle_conversations: idleCount, stages: of("stages"),
    prompt_ms: of("quiet"), prompt_after_loss_ms: of("lost") }));
}
process.exit(0);
