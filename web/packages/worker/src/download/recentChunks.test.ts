import { describe, expect, it } from "vitest";

import { RecentChunks } from "./recentChunks.ts";

const bytes = (count: number): Uint8Array<ArrayBuffer> => new Uint8Array(count);

describe("chunks that were just verified", () => {
  it("are kept of expected blobs until they are dropped", () => {
    const recent = new RecentChunks(() => true);
    recent.expect(new Map([["a", 10], ["b", 10]]));
    const chunk = bytes(10);
    recent.add("a", 0, chunk);
    recent.add("other", 0, bytes(10));
    expect(recent.get("a", 0)).toBe(chunk);
    expect(recent.get("other", 0)).toBeUndefined();
    expect(recent.memoryBytes).toBe(10);
    recent.expect(new Map([["b", 10]]));
    expect(recent.get("a", 0)).toBeUndefined();
    expect(recent.memoryBytes).toBe(0);
  });

  it("leave the offer its room for what is still to be loaded", () => {
    let heldBytes = 0;
    const recent: RecentChunks = new RecentChunks(
      (more) => heldBytes + recent.memoryBytes + more <= 100);
    recent.expect(new Map([["a", 40], ["b", 40]])); // 20 are left
    recent.add("a", 0, bytes(15));
    recent.add("a", 1, bytes(15));
    expect(recent.memoryBytes).toBe(15);
    heldBytes = 40; // a was loaded
    recent.drop("a");
    recent.add("b", 0, bytes(20));
    expect(recent.memoryBytes).toBe(20);
    recent.add("b", 1, bytes(1));
    expect(recent.memoryBytes).toBe(20);
  });

  it("are bounded whatever the offer", () => {
    const recent = new RecentChunks(() => true);
    recent.expect(new Map([["a", 1 << 30]]));
    recent.add("a", 0, bytes(40 << 20));
    recent.add("a", 1, bytes(40 << 20));
    expect(recent.memoryBytes).toBe(40 << 20);
  });
});
