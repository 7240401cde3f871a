// Whether a browser's own file system is of use is found out before anybody relies on it.
import { afterEach, describe, expect, it, vi } from "vitest";

import { OpfsStore } from "./opfsStore.ts";

afterEach(() => vi.unstubAllGlobals());

// A folder whose files open as `open` says; gives the names in it.
function stubStorage(open: () => Promise<unknown>): Set<string> {
  const names = new Set<string>();
  const folder = {
    entries: async function* () {
      await Promise.resolve();
      for (const name of names) yield [name, { kind: "file" }];
    },
    getFileHandle: (name: string) => {
      names.add(name);
      return Promise.resolve({ createSyncAccessHandle: open });
    },
    removeEntry: (name: string) => Promise.resolve(names.delete(name)),
  };
  const root = { getDirectoryHandle: () => Promise.resolve(folder) };
  vi.stubGlobal("navigator", { storage: { getDirectory: () => Promise.resolve(root) } });
  return names;
}

describe("opening the store", () => {
  it("gives one where files can be written, and leaves no file behind", async () => {
    let closed = 0;
    const names = stubStorage(() => Promise.resolve({ close: () => ++closed }));
    expect(await OpfsStore.open()).not.toBeNull();
    expect([closed, names.size]).toEqual([1, 0]);
  });

  it("gives none where the folder is there, and its files cannot be written", async () => {
    const refused = new DOMException("Backend does not support this operation",
      "NotSupportedError");
    const names = stubStorage(() => Promise.reject(refused));
    expect(await OpfsStore.open()).toBeNull();
    expect(names.size).toBe(0);
  });

  it("gives none in a private window", async () => {
    const getDirectory = (): Promise<never> =>
      Promise.reject(new DOMException("Security error", "SecurityError"));
    vi.stubGlobal("navigator", { storage: { getDirectory } });
    expect(await OpfsStore.open()).toBeNull();
  });
});
