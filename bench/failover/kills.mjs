// Leaders that are lost while they answer, one after another: how long the client of another server
// waits, and whether it gets the text that it would have got.
import { eventually, swarmOf } from "../../tests/e2e/lib/weft.mjs";
import { streamChat } from "../lib/chat_client.mjs";

const kStory = "A fox found a lantern in the snow and carried it home over the hill. ";
const kPatienceMs = 60_000;

// `title`: of a prompt that no other one begins like.
export function requestOf(sentences, tokens, title = "") {
  return {
    model: "weft-tiny", max_tokens: tokens, temperature: 1, seed: 7,
    messages: [{ role: "user", content: title + kStory.repeat(sentences) }],
  };
}

// The answer without a fault: { text, firstMs } where firstMs is until its first piece.
export async function expectedOf(server, request) {
  const begin = performance.now();
  let [text, firstMs] = ["", 0];
  const { error, usage } = await streamChat(server.origin, request, (piece, atMs) => {
    firstMs ||= atMs - begin;
    text += piece;
  });
  if (error) throw new Error(error);
  return { text, firstMs, promptTokens: usage.prompt_tokens };
}

// How a leader is lost. `lose` returns at once; `mend` gives the server that takes its place.
export const kKill = {
  lose: (leader) => leader.child.kill("SIGKILL"),
  mend: (cluster, leader) => cluster.startAgain(leader),
};
// Its process stops, and its connections stay open: nobody is told that it is gone.
export const kStop = {
  lose: (leader) => leader.child.kill("SIGSTOP"),
  mend: async (cluster, leader) => {
    leader.child.kill("SIGKILL");
    return await cluster.startAgain(leader);
  },
};

// One loss of the leader while its prompt is read, of a request that nobody has asked before.
export async function loseReader(cluster, request, fault, afterMs) {
  const run = await loseLeader(cluster, request, { fault, afterMs });
  if (run.was_missed) return run;
  const { server } = await cluster.settled();
  const { text } = await expectedOf(server, request);
  return { ...run, is_same: run.error === null && run.text === text };
}

// One loss of the leader in the middle of an answer that another server streams, or `afterMs` after
// the request was sent. `text` is what the client got.
export async function loseLeader(cluster, request, { fault = kKill, afterMs } = {}) {
  const { server: leader } = await cluster.settled();
  const others = cluster.servers.filter((each) => each !== leader);
  const begin = performance.now();
  let [lostAt, last, pause, firstMs, text, up] = [0, 0, 0, 0, "", null];
  const lose = () => {
    lostAt = last = performance.now();
    fault.lose(leader);
    up = eventually(async () => {
      const { server } = await cluster.leader(others);
      return { server, ms: performance.now() - lostAt };
    }, kPatienceMs).catch((error) => ({ error }));
  };
  const timer = afterMs === undefined ? undefined : setTimeout(lose, afterMs);
  const { error, finish } = await streamChat(others[0].origin, request, (piece, atMs) => {
    if (lostAt > 0) pause = Math.max(pause, atMs - last);
    last = atMs;
    firstMs ||= atMs - begin;
    text += piece;
    if (lostAt === 0 && timer === undefined && text.length >= 40) lose();
  });
  clearTimeout(timer);
  if (lostAt === 0) return { was_missed: true };
  const next = await up;
  if (next.error) throw next.error;
  const { computed_positions: computed } = await swarmOf(next.server.origin);
  const run = {
    first_ms: Math.round(firstMs), pause_ms: Math.round(pause), up_ms: Math.round(next.ms),
    computed, text, error: error ?? (finish === "length" ? null : `it ended with ${finish}`),
  };
  await fault.mend(cluster, leader);
  return run;
}
