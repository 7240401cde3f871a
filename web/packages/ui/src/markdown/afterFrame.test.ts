import { expect, it } from "vitest";
import { afterFrame } from "./afterFrame.ts";

// What ran, and a promise that the last of it has.
function recorder(): { done: string[]; note: (name: string) => () => void; end: Promise<void> } {
  const done: string[] = [];
  let finish = (): void => undefined;
  const end = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const note = (name: string) => (): void => {
    done.push(name);
    if (name === "last") finish();
  };
  return { done, note, end };
}

it("runs work after the task that asks for it, in order, and what is next first", async () => {
  const { done, note, end } = recorder();
  afterFrame(note("a"));
  afterFrame(note("b"));
  const takeBack = afterFrame(note("never"));
  afterFrame(note("last"));
  afterFrame(note("first"), true);
  takeBack();
  expect(done).toEqual([]);
  await end;
  expect(done).toEqual(["first", "a", "b", "last"]);
});

it("ends its task after some milliseconds, and takes work that comes from work", async () => {
  const { done, note, end } = recorder();
  const busy = (): void => {
    const endMs = performance.now() + 12;
    while (performance.now() < endMs);
  };
  // What is drawn in between comes as a microtask, behind each task.
  const drawn = (name: string): void => void Promise.resolve().then(note(name));
  afterFrame(() => {
    drawn("drawn");
    busy();
  });
  afterFrame(() => {
    note("second")();
    afterFrame(note("last"));
  });
  await end;
  expect(done).toEqual(["drawn", "second", "last"]);
});
