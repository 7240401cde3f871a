// Progress as the orchestrator and the page hear of it: it rises, never passes the total (which the
// orchestrator would not believe), and always ends at the total.
import { afterAll, beforeAll, expect, it, vi } from "vitest";

import { MemoryStore } from "./blobStore.ts";
import type { BlobWriter } from "./blobStore.ts";
import { Downloader } from "./downloader.ts";
import { kChunkBytes } from "./manifest.ts";
import { PackageSource, VerifiedChunks } from "./packageSource.ts";
import { RecentChunks } from "./recentChunks.ts";
import { ServerHttp } from "./serverHttp.ts";
import type { Fetch } from "./serverHttp.ts";
import { toHex } from "./sha256.ts";
import { brokenBody, fakePackage, fakeServer } from "../test/fakes.ts";

// Pauses between attempts take no time here.
beforeAll(() => vi.stubGlobal("setTimeout", (goOn: () => void) => setImmediate(goOn)));
afterAll(() => vi.unstubAllGlobals());

const kBlobBytes = kChunkBytes + 500;
const fake = await fakePackage(4, kBlobBytes);
const kAll = { first: 0, end: 4 };

interface Heard {
  progress: [number, number][];
  layers: [number, number][];
}

async function download(cache: MemoryStore, fetch: Fetch): Promise<Heard> {
  const http = new ServerHttp(() => ["http://server"], "", fetch, new AbortController().signal);
  const memory = new MemoryStore(() => true);
  const verified = new VerifiedChunks();
  const recent = new RecentChunks(() => true);
  const source = new PackageSource({
    http, cache, memory, verified, recent, fetcher: null, needsPrograms: false,
  });
  await source.fetchManifest(toHex(fake.digest));
  let time = 0;
  const heard: Heard = { progress: [], layers: [] };
  const downloader = new Downloader(source, () => (time += 150), {
    onProgress: (doneBytes, totalBytes) => heard.progress.push([doneBytes, totalBytes]),
    onLayer: (layer, byteCount) => heard.layers.push([layer, byteCount]),
  });
  await downloader.download([kAll], new AbortController().signal);
  return heard;
}

function expectHonest(heard: Heard, total: number): void {
  const done = heard.progress.map(([bytes]) => bytes);
  expect(done).toEqual([...done].sort((a, b) => a - b));
  expect(new Set(heard.progress.map(([, of]) => of))).toEqual(new Set([total]));
  expect(done.at(-1)).toBe(total);
}

async function put(cache: MemoryStore, layer: number, bytes: number): Promise<void> {
  const digest = fake.digests[layer]!;
  await cache.remove(digest);
  const writer = await cache.openWriter(digest);
  await writer.append(fake.blobs.get(digest)!.slice(0, bytes));
}

it("of a whole download", async () => {
  const heard = await download(new MemoryStore(() => true), fakeServer(fake).fetch);
  expectHonest(heard, 4 * kBlobBytes);
  expect(heard.progress.length).toBeGreaterThan(3);
  expect(heard.layers).toEqual([0, 1, 2, 3].map((layer) => [layer, kBlobBytes]));
});

it("of one that an earlier visit began", async () => {
  const cache = new MemoryStore(() => true);
  await put(cache, 0, kBlobBytes);
  await put(cache, 1, kChunkBytes);
  const heard = await download(cache, fakeServer(fake).fetch);
  expectHonest(heard, 2 * kBlobBytes + 500);
  expect(heard.layers.slice(0, 2)).toEqual([[0, 0], [1, 500]]);
});

it("where another tab of the browser fetches the same layers meanwhile", async () => {
  const cache = new MemoryStore(() => true);
  const { fetch } = fakeServer(fake);
  const heard = await download(cache, async (url, init) => {
    if (url.endsWith(fake.digests[0]!)) await put(cache, 3, kBlobBytes);
    return await fetch(url, init);
  });
  expectHonest(heard, 4 * kBlobBytes);
});

it("where the cache is full in the middle of a blob, and memory takes it from its beginning",
  async () => {
    let room = kChunkBytes + 100;
    class FullCache extends MemoryStore {
      override async openWriter(digest: string): Promise<BlobWriter> {
        const writer = await super.openWriter(digest);
        return {
          ...writer,
          append: async (bytes) => {
            room -= bytes.length;
            if (room < 0) throw new Error("quota exceeded");
            await writer.append(bytes);
          },
        };
      }
    }
    expectHonest(await download(new FullCache(() => true), fakeServer(fake).fetch), 4 * kBlobBytes);
  });

it("where the connection breaks", async () => {
  let breaks = 2;
  const { fetch } = fakeServer(fake, (_, bytes, from) =>
    bytes.length === kBlobBytes && breaks-- > 0
      ? brokenBody(bytes.slice(from, from + kChunkBytes + 9), from > 0 ? 206 : 200) : null);
  expectHonest(await download(new MemoryStore(() => true), fetch), 4 * kBlobBytes);
});

it("nothing is said where nothing is missing", async () => {
  const cache = new MemoryStore(() => true);
  for (let layer = 0; layer < 4; ++layer) await put(cache, layer, kBlobBytes);
  const heard = await download(cache, fakeServer(fake).fetch);
  expect(heard.progress).toEqual([]);
  expect(heard.layers).toEqual([0, 1, 2, 3].map((layer) => [layer, 0]));
});
