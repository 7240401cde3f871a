// What a page may import: the client and the messages. The worker itself is main.worker.ts.
export * from "./threads/client.ts";
export * from "./threads/messages.ts";
export * from "./threads/phaseWords.ts";
