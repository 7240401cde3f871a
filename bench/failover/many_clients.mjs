// Many clients that stream answers from three servers, while these are killed in turn. A client
// whose server dies asks another one with the same key. No other client may see an error, and no
// text may be another one than without kills.
import { streamChat } from "../lib/chat_client.mjs";
import { percentile, rounded } from "../lib/statistics.mjs";
import { expectedOf, requestOf } from "./kills.mjs";

const kPrompts = 12;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

class Crowd {
  answers = 0;
  cut = 0; // answers whose server was killed, asked again at another one
  wrong = [];
  errors = [];
  pauses = []; // the longest of each answer, in ms
  isOver = false;

  constructor(cluster, cases) {
    this.cluster = cluster;
    this.cases = cases;
  }

  async runClient(number) {
    // Servers tell clients apart by their addresses, and limit what one asks for at once.
    const from = `127.0.${1 + Math.floor(number / 250)}.${1 + (number % 250)}`;
    for (let round = 0; !this.isOver; ++round)
      await this.#ask(this.cases[(number + round) % this.cases.length], `${number}.${round}`,
        number + round, from);
  }

  // Until the answer is whole, wherever that is.
  async #ask({ request, expected }, key, turn, from) {
    for (let tries = 0; tries < 20; ++tries) {
      const alive = this.cluster.servers.filter((each) => !each.isKilled);
      const server = alive[(turn + tries) % alive.length];
      let [text, last, pause] = ["", 0, 0];
      const { error, status } = await streamChat(server.origin, request, (piece, atMs) => {
        if (last > 0) pause = Math.max(pause, atMs - last);
        last = atMs;
        text += piece;
      }, undefined, { "Idempotency-Key": key }, from);
      if (error === null && text === expected.text) {
        ++this.answers;
        this.pauses.push(pause);
        return;
      }
      if (error === null) {
        this.wrong.push({ key, text, expected: expected.text });
        return;
      }
      if (!server.isKilled) {
        this.errors.push({ key, server: server.name, status, error });
        return;
      }
      if (!expected.text.startsWith(text)) this.wrong.push({ key, text, expected: expected.text });
      ++this.cut;
      await sleep(100);
    }
    this.errors.push({ key, error: "no server answered it" });
  }
}

// Kills each server in turn, every `everyS`, and starts it again, for `seconds`.
async function killInTurn(cluster, seconds, everyS) {
  const end = performance.now() + seconds * 1000;
  let kills = 0;
  for (; performance.now() < end; ++kills) {
    await cluster.settled();
    const server = cluster.servers[kills % cluster.servers.length];
    server.isKilled = true;
    server.child.kill("SIGKILL");
    await sleep(everyS * 500);
    await cluster.startAgain(server);
    await sleep(everyS * 500);
  }
  return kills;
}

export async function killUnderClients(cluster, { clients, seconds, everyS, tokens }) {
  const { server } = await cluster.settled();
  const cases = [];
  for (let i = 0; i < kPrompts; ++i) {
    const request = { ...requestOf(1 + (i % 4), tokens), seed: i };
    cases.push({ request, expected: await expectedOf(server, request) });
  }
  const crowd = new Crowd(cluster, cases);
  const running = Array.from({ length: clients }, (_, i) => crowd.runClient(i));
  let kills = 0;
  try {
    kills = await killInTurn(cluster, seconds, everyS);
  } finally {
    crowd.isOver = true;
    await Promise.all(running);
  }
  return {
    kills, answers: crowd.answers, cut: crowd.cut, wrong: crowd.wrong, errors: crowd.errors,
    differences: await cluster.differences(),
    pause_p50_ms: rounded(percentile(crowd.pauses, 50), 0),
    pause_p99_ms: rounded(percentile(crowd.pauses, 99), 0),
    pause_most_ms: rounded(Math.max(...crowd.pauses), 0),
  };
}
