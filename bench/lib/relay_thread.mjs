// The thread that carries the bytes of all links (link.mjs), so that the client's clock is not held
// up by them. relays.mjs is the other end.
import { parentPort, workerData } from "node:worker_threads";

import { Link } from "./link.mjs";
import { RowCounter } from "./row_counter.mjs";

const rows = new RowCounter();
const links = [];

const kRequests = {
  async add() {
    const link = new Link(workerData.target, (range, runs) => rows.step(range, runs));
    links.push(link);
    return await link.listen();
  },
  cut: ({ index }) => links[index].cutOff(),
  silence: ({ index }) => links[index].goSilent(),
  heal: ({ index }) => links[index].heal(),
  shape: ({ index, shape }) => Object.assign(links[index].shape, shape),
  newRequest: () => rows.newRequest(),
  report: () => ({
    computed: rows.computed,
    recomputed: rows.recomputed,
    prepares: links.map((link) => link.prepares),
    open: links.map((link) => link.webSockets > 0),
    byteCount: links.reduce((sum, link) => sum + link.byteCount, 0),
  }),
};

parentPort.on("message", async ({ id, name, ...rest }) => {
  parentPort.postMessage({ id, value: await kRequests[name](rest) });
});
