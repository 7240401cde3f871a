// One task after the other, whatever they do.
import { expect, it } from "vitest";

import { TaskQueue } from "./taskQueue.ts";

function collecting(): { queue: TaskQueue; errors: unknown[] } {
  const errors: unknown[] = [];
  return { queue: new TaskQueue((error) => errors.push(error)), errors };
}

it("runs tasks in order, also those that a task adds, and one at a time", async () => {
  const { queue } = collecting();
  const heard: string[] = [];
  const task = (name: string, then?: () => void) => async (): Promise<void> => {
    heard.push(`${name} begins`);
    await Promise.resolve();
    then?.();
    heard.push(`${name} ends`);
  };
  const done = new Promise<void>((resolve) => {
    queue.push(task("one", () => queue.push(task("three", resolve))));
    queue.push(task("two"));
  });
  await done;
  await queue.stop();
  expect(heard).toEqual([
    "one begins", "one ends", "two begins", "two ends", "three begins", "three ends",
  ]);
});

it("goes on after a task that throws", async () => {
  const { queue, errors } = collecting();
  queue.push(() => Promise.reject(new Error("no")));
  await new Promise<void>((resolve) => queue.push(() => Promise.resolve(resolve())));
  expect(errors).toEqual([new Error("no")]);
});

it("stop waits for the task in progress, and begins no other", async () => {
  const { queue } = collecting();
  const heard: string[] = [];
  let open = (): void => undefined;
  queue.push(async () => {
    await new Promise<void>((resolve) => (open = resolve));
    heard.push("one");
  });
  queue.push(() => Promise.resolve(void heard.push("two")));
  await new Promise((resolve) => setImmediate(resolve));
  const stopped = queue.stop();
  queue.push(() => Promise.resolve(void heard.push("three")));
  expect(heard).toEqual([]);
  open();
  await stopped;
  expect(heard).toEqual(["one"]);
});
