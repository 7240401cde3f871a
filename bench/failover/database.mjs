// A database that stops for a while under streaming clients: whether the time between two tokens
// grows, and whether anything is missing afterwards.
import { streamChat } from "../lib/chat_client.mjs";
import { percentile } from "../lib/statistics.mjs";
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

export async function stopDatabase(cluster, request, expected, { clients, seconds }) {
  const before = (await clusterOf(cluster.servers[0])).cells[0];
  const gaps = [];
  let isOver = false;
  const running = Array.from({ length: clients }, (_, i) =>
    streamOn(cluster.servers[i % cluster.servers.length].origin, request, expected, gaps,
      () => isOver));
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
  await eventually(async () => {
    for (const server of cluster.servers)
      if (!(await clusterOf(server)).database) throw new Error("the database is not back");
  });
  const { server } = await cluster.settled();
  const after = (await clusterOf(server)).cells[0];
  const [row] = cluster.database.query("select incarnation, up from cells");
  const p99 = (i) => percentile(gaps.filter(([at]) => at >= marks[i] && at < marks[i + 1])
    .map(([, ms]) => ms), 99);
  return {
    answers: runs.reduce((all, { answers }) => all + answers, 0),
    wrong: runs.reduce((all, { wrong }) => all + wrong, 0),
    errors: runs.flatMap(({ errors }) => errors),
    p99_before_ms: p99(0), p99_stopped_ms: p99(1), p99_after_ms: p99(2),
    has_moved: `${before.incarnation}` !== `${after.incarnation}`,
    is_kept: row === `${after.incarnation}|t`,
  };
}
