// The page's side: one Worker while it helps, a goodbye when the page goes, an end that does not
// wait for what computes.
import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { HelpClient } from "./client.ts";
import type { HelpOptions } from "./client.ts";
import { initialStatus } from "./messages.ts";
import type { ToWorker, WorkerStatus } from "./messages.ts";

const kOptions: HelpOptions = {
  serverOrigin: "http://server", joinToken: "", name: "A tab", workerId: "id", memoryBytes: 1000,
  isPhone: false,
  engine: "auto",
};

class FakeWorker {
  readonly told: ToWorker[] = [];
  isTerminated = false;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onerror: ((event: { message: string }) => void) | null = null;

  postMessage(message: ToWorker): void {
    this.told.push(message);
  }
  terminate(): void {
    this.isTerminated = true;
  }
  says(change: Partial<WorkerStatus>): void {
    this.onmessage?.({ data: { kind: "status", status: { ...initialStatus(), ...change } } });
  }
}

let page: EventTarget;
let workers: FakeWorker[];
let heard: WorkerStatus[];
let client: HelpClient;

beforeEach(() => {
  vi.useFakeTimers();
  page = new EventTarget();
  vi.stubGlobal("self", page);
  workers = [];
  heard = [];
  client = new HelpClient(() => {
    const worker = new FakeWorker();
    workers.push(worker);
    return worker as unknown as Worker;
  });
  client.onStatus((status) => heard.push(status));
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const kinds = (worker: FakeWorker | undefined): string[] =>
  worker?.told.map(({ kind }) => kind) ?? [];

it("makes no Worker before it is asked to help", () => {
  page.dispatchEvent(new Event("pagehide"));
  client.stop();
  expect(workers).toEqual([]);
  client.start(kOptions);
  expect(workers[0]?.told).toEqual([{ kind: "start", ...kOptions }]);
  expect(client.isHelping).toBe(true);
});

it("passes statuses on until a listener goes", () => {
  const other: string[] = [];
  const end = client.onStatus(({ phase }) => other.push(phase));
  client.start(kOptions);
  workers[0]?.says({ phase: "ready" });
  end();
  workers[0]?.says({ phase: "computing" });
  expect(heard.map(({ phase }) => phase)).toEqual(["ready", "computing"]);
  expect(other).toEqual(["ready"]);
  expect(client.status.phase).toBe("computing");
});

it("says goodbye when the page goes, and starts again when it comes back from the cache", () => {
  client.start(kOptions);
  page.dispatchEvent(new Event("pagehide"));
  expect(kinds(workers[0])).toEqual(["start", "leaving"]);
  page.dispatchEvent(Object.assign(new Event("pageshow"), { persisted: true }));
  expect(workers[0]?.isTerminated).toBe(true);
  expect(kinds(workers[1])).toEqual(["start"]);
  client.stop();
  page.dispatchEvent(Object.assign(new Event("pageshow"), { persisted: true }));
  expect(workers).toHaveLength(2);
});

it("says goodbye when the page is frozen, and starts again when it is thawed", () => {
  client.start(kOptions);
  page.dispatchEvent(new Event("freeze"));
  expect(kinds(workers[0])).toEqual(["start", "leaving"]);
  page.dispatchEvent(new Event("resume"));
  expect(workers[0]?.isTerminated).toBe(true);
  expect(kinds(workers[1])).toEqual(["start"]);
  client.stop();
  page.dispatchEvent(new Event("resume"));
  expect(workers).toHaveLength(2);
});

it("stop ends the Worker when it has answered", () => {
  client.start(kOptions);
  client.stop();
  expect(client.isHelping).toBe(false);
  expect(workers[0]?.isTerminated).toBe(false);
  workers[0]?.says({ phase: "stopped" });
  expect(workers[0]?.isTerminated).toBe(true);
  vi.advanceTimersByTime(1000);
  expect(heard.map(({ phase }) => phase)).toEqual(["stopped"]);
});

it("stop does not wait for ever for a Worker that computes", () => {
  client.start(kOptions);
  workers[0]?.says({ phase: "computing", usedBytes: 500 });
  client.stop();
  vi.advanceTimersByTime(2249);
  expect(workers[0]?.isTerminated).toBe(false); // it may still hand over what it does
  vi.advanceTimersByTime(1);
  expect(workers[0]?.isTerminated).toBe(true);
  expect(client.status).toMatchObject({ phase: "stopped", usedBytes: 0 });
  workers[0]?.says({ phase: "computing" }); // what was on its way
  expect(client.status.phase).toBe("stopped");
});

it("start right after stop has a Worker of its own, which the old timer spares", () => {
  client.start(kOptions);
  client.stop();
  client.start(kOptions);
  vi.advanceTimersByTime(5000);
  expect(workers.map(({ isTerminated }) => isTerminated)).toEqual([true, false]);
});

it("a refusal ends the wish to help", () => {
  client.start(kOptions);
  workers[0]?.says({ phase: "refused", message: "Reload." });
  expect(client.isHelping).toBe(false);
});

it("a script that does not load is a refusal with a reason", () => {
  client.start(kOptions);
  workers[0]?.onerror?.({ message: "" });
  expect(client.status).toMatchObject({
    phase: "refused",
    message: "The worker failed: its script could not be loaded. Reload the page.",
  });
  expect([client.isHelping, workers[0]?.isTerminated]).toEqual([false, true]);
});

it("the cache can be forgotten without helping", () => {
  client.forgetCache();
  expect(kinds(workers[0])).toEqual(["forgetCache"]);
  expect(client.isHelping).toBe(false);
});
