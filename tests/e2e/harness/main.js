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
window.help.onStatus((status) => window.statuses.push(status));

// A HelpClient in a browser that is odd in this way: the name of a function of oddities.js.
window.oddHelp = (oddity) => new HelpClient(() => new OddWorker({ name: oddity }));

window.compileKernels = async () => (await import("./kernels.js")).compileKernels();

// Runs an engine in a Worker of its own; see engine.worker.js.
window.runEngine = (request) =>
  new Promise((resolve) => {
    const worker = new Worker(new URL("./engine.worker.js", import.meta.url), { type: "module" });
    worker.onmessage = ({ data }) => {
      worker.terminate();
      resolve(data);
    };
    worker.onerror = (event) => resolve({ error: event.message });
    worker.postMessage(request);
  });
