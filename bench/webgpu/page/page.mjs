// The page of a subject: hands calls to its Worker, one at a time.
const worker = new Worker("/bench/subjects/browser_subject.mjs", { type: "module" });

window.callSubject = (message) =>
  new Promise((resolve) => {
    worker.onmessage = ({ data }) => resolve(data);
    worker.onerror = ({ message: why }) => resolve({ error: `its Worker failed: ${why}` });
    worker.postMessage(message);
  });
