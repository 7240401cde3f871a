// The worker of a tab in a browser that differs from the one at hand; see oddities.js.
import "./oddities.js";
import "../../../web/packages/worker/src/threads/main.worker.ts";
