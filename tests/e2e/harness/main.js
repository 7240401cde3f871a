// The worker of a tab without the page around it, for tests: window.help is a HelpClient,
// window.statuses is everything that it said.
import OddWorker from "./odd.worker.js?worker";
import { HelpClient } from "../../../web/packages/worker/src/threads/client.ts";

window.help = new HelpClient(
  () =>
    new Worker(
      new URL("../../../web/packages/worker/src/threads/main.worker.ts", import.meta.url),
      { type: "module" },
    ),
);
window.statuses = [];
window.statusTimes = []; // of each, in ms
window.help.onStatus((status) => {
  window.statuses.push(status);
  window.statusTimes.push(performance.now());
});

// A HelpClient in a browser that is odd in this way: the name of a function of oddities.js.
window.oddHelp = (oddity) => new HelpClient(() => new OddWorker({ name: oddity }));

window.compileKernels = async () => (await import("./kernels.js")).compileKernels();

// What a Worker of its own answers to a request.
const answerOf = (worker, request) =>
  new Promise((resolve) => {
    worker.onmessage = ({ data }) => {
      worker.terminate();
      resolve(data);
    };
    worker.onerror = (event) => resolve({ error: event.message });
    worker.postMessage(request);
  });

// Runs an engine; see engine.worker.js.
window.runEngine = (request) =>
  answerOf(
    new Worker(new URL("./engine.worker.js", import.meta.url), { type: "module" }), request);

// Milliseconds of the round that threads are timed with, on each of these numbers of threads.
window.timeRounds = (counts) =>
  answerOf(
    new Worker(new URL("./rounds.worker.js", import.meta.url), { type: "module" }), counts);

// How fast blobs come to this page; see line.worker.js.
window.timeLine = (request) =>
  answerOf(
    new Worker(new URL("./line.worker.js", import.meta.url), { type: "module" }), request);

// How fast a tab's downloads come and are kept, without an engine; see download.worker.js.
window.timeDownload = (request) =>
  answerOf(
    new Worker(new URL("./download.worker.js", import.meta.url), { type: "module" }), request);

// How long steps take while layers are loaded; see beside.worker.js.
window.timeBeside = (request) =>
  answerOf(
    new Worker(new URL("./beside.worker.js", import.meta.url), { type: "module" }), request);
