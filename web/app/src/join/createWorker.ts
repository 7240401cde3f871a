// The worker's script is a chunk of its own: nothing of it is loaded before the button is pressed.
export function createWorker(): Worker {
  return new Worker(new URL("./help.worker.ts", import.meta.url), {
    type: "module",
    name: "weft help",
  });
}
