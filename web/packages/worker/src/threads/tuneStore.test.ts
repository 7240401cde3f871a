import { describe, expect, it } from "vitest";

import { FileTuneStore } from "./tuneStore.ts";

class FakeFile {
  text: string;

  constructor(text = "") {
    this.text = text;
  }

  read(): Promise<string> {
    return Promise.resolve(this.text);
  }

  write(text: string): Promise<void> {
    this.text = text;
    return Promise.resolve();
  }
}

describe("the store of tuned kernels", () => {
  it("gives back what it was given, after a reload too", async () => {
    const file = new FakeFile();
    await new FileTuneStore(file).set("a", "1");
    await new FileTuneStore(file).set("b", "2");
    await new FileTuneStore(file).set("a", "3");
    const store = new FileTuneStore(file);
    expect([await store.get("a"), await store.get("b"), await store.get("c")]).toEqual([
      "3",
      "2",
      null,
    ]);
  });

  it.each(["{", "null", "[]", '"text"', '{"a":{"b":1}}'])("holds nothing in %s", async (text) => {
    const store = new FileTuneStore(new FakeFile(text));
    expect(await store.get("a")).toBeNull();
    await store.set("a", "1");
    expect(await store.get("a")).toBe("1");
  });

  it("forgets the oldest of many", async () => {
    const file = new FakeFile();
    const store = new FileTuneStore(file);
    for (let i = 0; i < 40; ++i) await store.set(`key ${i}`, "value");
    expect(await store.get("key 0")).toBeNull();
    expect(await store.get("key 39")).toBe("value");
    expect(Object.keys(JSON.parse(file.text) as object).length).toBe(16);
  });
});
