// A database that stops for a while under streaming clients: whether the time between two tokens
// grows, and whether anything is missing afterwards.
import { streamChat } from "../lib/chat_client.mjs";
import { percentile, rounded } from "../lib/statistics.mjs";
import { clusterOf } from "../../tests/e2e/lib/cluster.mjs";
import { eventually } from "../../tests/e2e/lib/weft.mjs";

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Streams answers one after another until `ends` says so. Notes each gap as [when, ms].
async function streamOn(origin, request, expected, gaps, ends) {
  const run = { answers: 0, wrong: 0, errors: [] };
  while (!ends()) {
    let [text, last] = ["", 0];
    const { error } = await streamChat(origin, request, (piece, atMs) => {
      if (last > 0) gaps.push([atMs, atMs - last]);
      last = atMs;
      text += piece;
    });
    ++run.answers;
    if (error) run.errors.push(error);
    else if (text !== expected.text) ++run.wrong;
  }
  return run;
}

// How long a server's loop lets somebody wait who asks for what it answers at once, every 20 ms:
// [when, ms].
async function askHealth(origin, waits, ends) {
  while (!ends()) {
    const begin = performance.now();
    await (await fetch(`${origin}/healthz`)).text();
    waits.push([begin, performance.now() - begin]);
    await sleep(20);
  }
}

export async function stopDatabase(cluster, request, expected, { clients, seconds }) {
  // Of the table itself: what a server tells of it is as old as its last look.
  const [before] = cluster.database.query("select incarnation from cells");
  const [gaps, waits] = [[], []];
  let isOver = false;
  const running = Array.from({ length: clients }, (_, i) =>
    streamOn(cluster.servers[i % cluster.servers.length].origin, request, expected, gaps,
      () => isOver));
  const asking = cluster.servers.map(({ origin }) => askHealth(origin, waits, () => isOver));
  const marks = [performance.now()];
  const mark = async () => {
    await sleep(seconds * 1000);
    marks.push(performance.now());
  };
  await mark();
  cluster.database.pause();
  await mark();
  cluster.database.goOn();
  await mark();
  isOver = true;
  const runs = await Promise.all(running);
  await Promise.all(asking);
  await eventually(async () => {
    for (const server of cluster.servers)
      if (!(await clusterOf(server)).database) throw new Error("the database is not back");
  });
  const { server } = await cluster.settled();
  const after = (await clusterOf(server)).cells[0];
  const [row] = cluster.database.query("select incarnation, up from cells");
  const of = (times, percent) => [0, 1, 2].map((i) => rounded(percentile(
    times.filter(([at]) => at >= marks[i] && at < marks[i + 1]).map(([, ms]) => ms), percent), 1));
  return {
    answers: runs.reduce((all, { answers }) => all + answers, 0),
    wrong: runs.reduce((all, { wrong }) => all + wrong, 0),
    errors: runs.flatMap(({ errors }) => errors),
    // Before, while it was stopped, and afterwards.
    gap_p99_ms: of(gaps, 99), health_p99_ms: of(waits, 99), health_most_ms: of(waits, 100),
    has_moved: row.split("|")[0] !== before,
    is_kept: row === `${after.incarnation}|t`,
  };
}
