// Runs one cell: a swarm comes up, is measured in quiet, then meets its failures while a client
// asks; afterwards all are healed. Gives back what happened; report.mjs makes figures of it.
import { existsSync, readFileSync } from "node:fs";

import { askQuietly, messagesOf, textOf } from "../lib/chat_client.mjs";
import { median, rounded } from "../lib/statistics.mjs";
import { sleep, watchSwarm } from "../lib/weft_processes.mjs";
import { Client } from "./client.mjs";
import { loadRate } from "./recovery_model.mjs";
import { contextFor } from "./reference.mjs";
import { kKinds, kTabKinds, scheduleOf, targetOf } from "./schedule.mjs";
import { Swarm } from "./swarm.mjs";

// After the last failure is healed the stream has to go on within this and ten times what a quiet
// swarm takes to the first token, or its request hung.
const kHungMs = 60_000;
// Tokens at most of the prompt that measures what replaying a row takes.
const kReplayRows = 512;

// How long so far somebody on this machine has waited for a processor, by the kernel's count.
function cpuWaitingMs() {
  const file = "/proc/pressure/cpu";
  if (!existsSync(file)) return NaN;
  return Number(/^some .*total=(\d+)/m.exec(readFileSync(file, "utf8"))[1]) / 1000;
}

// Quiet times in this very swarm: to the first token of the cell's prompts, and for a row of a
// longer one, which is what a row of a replay costs.
async function measureQuiet(swarm, modelName, prompts, cell, context) {
  const ask = (content, tokens) => askQuietly(swarm.origin,
    { model: modelName, messages: messagesOf(content), max_tokens: tokens });
  const firstMs = [];
  const gapMs = [];
  for (const { content } of prompts) {
    const { sentAt, times } = await ask(content, Math.min(16, cell.answerTokens));
    firstMs.push(times[0] - sentAt);
    gapMs.push((times.at(-1) - times[0]) / (times.length - 1));
  }
  // A word is two tokens at most.
  const words = Math.floor(Math.min(kReplayRows, context - 40) / 2);
  const { sentAt, times, usage } = await ask(textOf(99, words), 1);
  const { prepares } = await swarm.relays.report();
  return {
    firstMs: median(firstMs),
    gapMs: median(gapMs),
    rowMs: (times[0] - sentAt) / usage.prompt_tokens,
    joinMs: swarm.joinMs,
    loadMsPerByte: loadRate(prepares.flat(), swarm.layerBytes),
  };
}

// Positions that the live session holds, by the client's count; of a prompt that is being read as
// many as a quiet swarm would have read by now.
function rowsOf(request, quiet) {
  if (!request) return 0;
  const { promptTokens, sentAt, tokens } = request;
  if (tokens.length > 0) return promptTokens + tokens.length;
  return Math.round(promptTokens * Math.min(1, (performance.now() - sentAt) / quiet.firstMs));
}

// One failure from its begin to its end; `failure` is filled in with whom it met.
async function inflict(failure, { swarm, cell, client, quiet, absences }) {
  const { parts, standby } = await swarm.parts();
  const healthy = swarm.members.map((member) => member.healthy);
  const computing = parts.map(({ index }) => index);
  failure.worker = targetOf(cell, failure.pick, healthy, computing);
  if (failure.worker === null) return;
  const member = swarm.members[failure.worker];
  const part = parts.find(({ index }) => index === failure.worker);
  failure.atMs = performance.now();
  failure.layers = part ? [part.first, part.end] : null;
  failure.standby = standby;
  failure.healthyBefore = healthy.filter(Boolean).length;
  failure.rows = rowsOf(client.requests.at(-1), quiet);
  const absence = { from: failure.atMs, to: Infinity };
  absences.push(absence);
  await member.fail(failure.kind);
  await sleep(failure.downMs);
  await member.recover(failure.kind);
  absence.to = performance.now();
}

// Until the end of the cell; the promise that it gives back is that of the last one that returns.
async function inflictAll(schedule, context, { from, to }) {
  const open = [];
  for (const failure of schedule) {
    await sleep(Math.max(0, from + failure.atMs - performance.now()));
    open.push(inflict(failure, context));
  }
  await sleep(Math.max(0, to - performance.now()));
  return { allBack: Promise.all(open) };
}

// What happened, times in ms on one clock; report.mjs says what becomes of it.
async function measureCell(swarm, cell, model, prompts, seed) {
  const context = contextFor(cell);
  const modelName = model.manifest.name;
  const quiet = await measureQuiet(swarm, modelName, prompts, cell, context);
  const client = new Client(swarm.origin, modelName, prompts, cell.answerTokens,
    () => swarm.relays.newRequest());
  const states = [];
  const stopWatching = await watchSwarm(swarm.origin, ({ state, plan_version: planVersion }) => {
    const last = states.at(-1);
    if (last?.state === state && last.planVersion === planVersion) return;
    states.push({ at: performance.now(), state, planVersion });
  });
  const before = await swarm.relays.report();
  const waitingBefore = cpuWaitingMs();
  client.start();
  const from = performance.now();
  const window = { from, to: from + cell.seconds * 1000 };
  const kinds = cell.kind === "tabs" ? kTabKinds : kKinds;
  const schedule = scheduleOf(cell, cell.seconds * 1000, seed, kinds);
  const absences = [];
  const scene = { swarm, cell, client, quiet, absences };
  const { allBack } = await inflictAll(schedule, scene, window);
  const after = await swarm.relays.report();
  await allBack;
  const wentOn = await client.finish(kHungMs + 10 * quiet.firstMs);
  await stopWatching();
  return {
    window, endedAt: performance.now(), absences, states, quiet,
    requests: client.requests.filter(({ sentAt }) => sentAt < window.to),
    failures: schedule.filter(({ worker }) => worker !== null && worker !== undefined),
    hung: wentOn ? 0 : 1,
    recomputedRows: (after.recomputed - before.recomputed) / swarm.layerBytes.length,
    layerBytes: swarm.layerBytes,
    stages: swarm.stages,
    cpuWaiting: rounded((cpuWaitingMs() - waitingBefore) / (performance.now() - from), 3),
    unexpectedEnds: swarm.members.reduce((count, each) => count + each.unexpectedEnds, 0),
  };
}

export async function runCell(cell, model, prompts, seed, settings) {
  const swarm = await Swarm.start(cell, model, contextFor(cell), settings);
  try {
    return await measureCell(swarm, cell, model, prompts, seed);
  } finally {
    await swarm.end();
  }
}
