// Downloads: verified chunk by chunk, resumed, healed, refused.
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";

import { MemoryStore } from "./blobStore.ts";
import type { BlobStore, BlobWriter } from "./blobStore.ts";
import { serveBlobs } from "./blobThread.ts";
import { BlobThreads } from "./blobThreads.ts";
import type { ThreadPort } from "./blobThreads.ts";
import { kChunkBytes } from "./manifest.ts";
import { PackageSource, VerifiedChunks } from "./packageSource.ts";
import { RecentChunks } from "./recentChunks.ts";
import { ServerHttp } from "./serverHttp.ts";
import type { Fetch } from "./serverHttp.ts";
import { toHex } from "./sha256.ts";
import { brokenBody, fakePackage, fakeServer } from "../test/fakes.ts";
import type { FakePackage } from "../test/fakes.ts";

// Pauses between attempts take no time here.
beforeAll(() => vi.stubGlobal("setTimeout", (goOn: () => void) => setImmediate(goOn)));
afterAll(() => vi.unstubAllGlobals());

const kBlobBytes = 2 * kChunkBytes + 500;
const fake = await fakePackage(3, kBlobBytes);
const digest = fake.digests[1]!;

// The memory store as a cache: counts as kept on the device.
class FakeCache extends MemoryStore {
  failAfterBytes = Infinity;
  isLocked = false;

  override async openWriter(name: string): Promise<BlobWriter> {
    if (this.isLocked) throw new Error("locked by another tab");
    const writer = await super.openWriter(name);
    return {
      offset: writer.offset,
      append: async (bytes) => {
        this.failAfterBytes -= bytes.length;
        if (this.failAfterBytes < 0) throw new Error("quota exceeded");
        await writer.append(bytes);
      },
      close: () => writer.close(),
    };
  }
}

// The same where threads write to it.
class SharedCache extends FakeCache {
  noteHeld(): void {
    // Its own counts are right: this process is the thread's, too.
  }
}

// A thread of this process, which fetches with `fetch` and keeps in `store`.
function startThread(fetch: Fetch, store: BlobStore): ThreadPort {
  const { port1, port2 } = new MessageChannel();
  serveBlobs(port2, { fetch, openStore: () => Promise.resolve(store) });
  return Object.assign(port1, { terminate: () => port1.close() });
}

// Who fetches: this thread, others, or others that write to the cache, too.
type Fetcher = "here" | "threads" | "threads that keep";
let fetchers: Fetcher = "here";
const kFetchers: Fetcher[] = ["here", "threads", "threads that keep"];

interface Setup {
  source: PackageSource;
  cache: FakeCache;
  memory: MemoryStore;
  verified: VerifiedChunks;
  life: AbortController;
}

async function setUp(fetch: Fetch, of: FakePackage = fake): Promise<Setup> {
  const life = new AbortController();
  const http = new ServerHttp(() => ["http://server"], "token", fetch, life.signal);
  const keeps = fetchers === "threads that keep";
  const cache = keeps ? new SharedCache(() => true) : new FakeCache(() => true);
  const memory = new MemoryStore(() => true);
  const verified = new VerifiedChunks();
  const recent = new RecentChunks(() => true);
  const fetcher =
    fetchers === "here" ? null : new BlobThreads(2, () => startThread(fetch, cache));
  const source = new PackageSource({
    http, cache, memory, verified, recent, fetcher, needsPrograms: false,
  });
  await source.fetchManifest(toHex(of.digest));
  return { source, cache, memory, verified, life };
}

// toEqual compares megabytes element by element, for minutes.
function expectSame(actual: Uint8Array, expected: Uint8Array | undefined): void {
  expect(actual.length).toBe(expected?.length);
  expect(Buffer.compare(actual, expected!)).toBe(0);
}

async function heldInCache(cache: BlobStore): Promise<Uint8Array> {
  return await cache.read(digest, 0, cache.heldBytes(digest));
}

// A page that was reloaded finds these bytes in its cache.
async function tear({ source, cache, verified }: Setup, bytes: Uint8Array<ArrayBuffer>):
Promise<void> {
  await source.loaded(1);
  verified.clear();
  await cache.remove(digest);
  const writer = await cache.openWriter(digest);
  await writer.append(bytes);
  writer.close();
}

describe.each(kFetchers)("downloading, by %s", (who) => {
  beforeAll(() => void (fetchers = who));
  afterAll(() => void (fetchers = "here"));

  it("keeps a blob, reports its bytes and does not fetch it again", async () => {
    const server = fakeServer(fake);
    const { source, cache } = await setUp(server.fetch);
    expect(source.missingBytes([1])).toBe(kBlobBytes);
    expect(source.missingBytes([0, 1, 2])).toBe(3 * kBlobBytes);
    expect(source.downloadedLayers()).toEqual([]);
    const pieces: number[] = [];
    await source.download([1], (bytes) => pieces.push(bytes));
    expect(pieces).toEqual([kChunkBytes, kChunkBytes, 500]);
    expect(source.downloadedLayers()).toEqual([1]);
    expect(source.missingBytes([1])).toBe(0);
    expectSame(await heldInCache(cache), fake.blobs.get(digest));
    const requests = server.requests.length;
    await source.download([1], () => undefined);
    expectSame(await source.readBlob(digest), fake.blobs.get(digest));
    expect(server.requests.length).toBe(requests);
  });

  it("goes on behind the last whole chunk when the connection breaks", async () => {
    let breaks = 2;
    const server = fakeServer(fake, (path, bytes, from) => {
      if (!path.endsWith(digest) || breaks-- <= 0) return null;
      return brokenBody(bytes.slice(from, from + kChunkBytes + 9), from > 0 ? 206 : 200);
    });
    const { source } = await setUp(server.fetch);
    await source.download([1], () => undefined);
    expectSame(await source.readBlob(digest), fake.blobs.get(digest));
    expect(server.requests.filter((path) => path.includes(digest))).toEqual([
      `/package/blobs/${digest}`,
      `/package/blobs/${digest} bytes=${kChunkBytes}-`,
      `/package/blobs/${digest} bytes=${2 * kChunkBytes}-`,
    ]);
  });

  it("fetches blobs of a layer beside each other, and one that fails ends them all", async () => {
    const text = new TextDecoder().decode(fake.json);
    const json = JSON.parse(text) as { layers: { blobs: string[] }[] };
    json.layers[1]!.blobs = [...fake.digests];
    const bytes = new TextEncoder().encode(JSON.stringify(json));
    const sha256 = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    const wide = { ...fake, json: bytes, digest: sha256 };
    const server = fakeServer(wide, (path) =>
      isBroken && path.endsWith(fake.digests[2]!) ? new Response("{}", { status: 404 }) : null);
    let isBroken = false;
    let atOnce = 0;
    let most = 0;
    const { source, cache } = await setUp(async (url, init) => {
      most = Math.max(most, ++atOnce);
      for (let turn = 0; turn < 20 && most < 3; ++turn) {
        await new Promise((resolve) => setImmediate(resolve));
      }
      --atOnce;
      return await server.fetch(url, init);
    }, wide);
    await source.download([1], () => undefined);
    expect([most, source.missingBytes([1])]).toEqual([3, 0]);
    for (const name of fake.digests) {
      expectSame(await cache.read(name, 0, kBlobBytes), fake.blobs.get(name));
    }
    await cache.clear();
    isBroken = true;
    await expect(source.download([1], () => undefined))
      .rejects.toMatchObject({ code: "not_found" });
    expect(cache.heldBytes(fake.digests[2]!)).toBe(0);
  });

  it("gives up after three broken connections and keeps what was verified", async () => {
    const server = fakeServer(fake, (path, bytes, from) =>
      path.endsWith(digest) ? brokenBody(bytes.slice(from, from + 9), 206) : null,
    );
    const { source, cache } = await setUp(server.fetch);
    await expect(source.download([1], () => undefined)).rejects.toThrow("connection broke");
    expect(cache.heldBytes(digest)).toBe(0);
  });

  it("asks once for a blob that is damaged at the server, and says so", async () => {
    let asked = 0;
    const server = fakeServer(fake, (path, bytes) => {
      if (!path.endsWith(digest)) return null;
      ++asked;
      const damaged = bytes.slice();
      damaged[5]! ^= 1;
      return new Response(damaged, { status: 200 });
    });
    const { source } = await setUp(server.fetch);
    await expect(source.download([1], () => undefined)).rejects.toMatchObject({
      code: "invalid_data",
      message: expect.stringMatching(/is not what the package promises/) as string,
    });
    expect(asked).toBe(1);
  });

  it("takes a whole answer where it asked for the rest", async () => {
    let isFirst = true;
    const server = fakeServer(fake, (path, bytes) => {
      if (!path.endsWith(digest)) return null;
      const whole = isFirst ? brokenBody(bytes.slice(0, kChunkBytes)) : new Response(bytes.slice());
      isFirst = false;
      return whole;
    });
    const { source } = await setUp(server.fetch);
    await source.download([1], () => undefined);
    expectSame(await source.readBlob(digest), fake.blobs.get(digest));
  });

  it.each<[string, string, (bytes: Uint8Array<ArrayBuffer>) => Uint8Array<ArrayBuffer>]>([
    [
      "a flipped bit",
      "Piece 2 of 3 of blob",
      (bytes) => bytes.map((byte, i) => (i === kChunkBytes + 7 ? byte ^ 1 : byte)),
    ],
    ["more bytes", "more than", extended],
    ["fewer bytes", "ended after", (bytes) => bytes.slice(0, kBlobBytes - 1)],
  ])("refuses %s", async (_, message, spoil) => {
    const server = fakeServer(fake, (path, bytes, from) =>
      path.endsWith(digest)
        ? new Response(spoil(bytes).slice(from), { status: from > 0 ? 206 : 200 })
        : null,
    );
    const { source, cache } = await setUp(server.fetch);
    await expect(source.download([1], () => undefined)).rejects.toThrow(message);
    const held = await heldInCache(cache);
    expectSame(held, fake.blobs.get(digest)!.slice(0, held.length));
  });

  it("sends the join token and says what the server answered", async () => {
    const tokens: (string | undefined)[] = [];
    const { fetch } = fakeServer(fake, (path) =>
      path.endsWith(digest)
        ? new Response(JSON.stringify({ error: { message: "a new token, please" } }), {
            status: 401,
          })
        : null,
    );
    const { source } = await setUp((url, init) => {
      tokens.push((init.headers as Record<string, string>)["Authorization"]);
      return fetch(url, init);
    });
    await expect(source.download([1], () => undefined)).rejects.toThrow("a new token, please");
    expect(new Set(tokens)).toEqual(new Set(["Bearer token"]));
  });

  it("is interrupted at the next chunk, and goes on there", async () => {
    const server = fakeServer(fake);
    const { source, cache } = await setUp(server.fetch);
    const stop = new AbortController();
    const interrupted = source.download([1], () => stop.abort(), stop.signal);
    await expect(interrupted).rejects.toThrow("interrupted");
    const held = cache.heldBytes(digest);
    // A thread that keeps is ahead of who stops it, by all that this blob has perhaps.
    const mayHold = who === "threads that keep" ? [1, 2, kBlobBytes / kChunkBytes] : [1];
    expect(mayHold).toContain(held / kChunkBytes);
    await source.download([1], () => undefined);
    expectSame(await source.readBlob(digest), fake.blobs.get(digest));
    const rest = held < kBlobBytes ? ` bytes=${held}-` : "";
    expect(server.requests.at(-1)).toBe(`/package/blobs/${digest}${rest}`);
  });

  it("ends when the worker is stopped", async () => {
    const { source, life } = await setUp(fakeServer(fake).fetch);
    life.abort();
    await expect(source.download([1], () => undefined)).rejects.toThrow("stopped");
  });
});

// One byte more than the blob has.
function extended(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(bytes.length + 1);
  out.set(bytes);
  return out;
}

describe.each(kFetchers)("the stores, by %s", (who) => {
  beforeAll(() => void (fetchers = who));
  afterAll(() => void (fetchers = "here"));

  it("a full or locked cache gives way to memory, which reading empties", async () => {
    for (const isLocked of [false, true]) {
      const { source, cache, memory } = await setUp(fakeServer(fake).fetch);
      cache.isLocked = isLocked;
      cache.failAfterBytes = kChunkBytes + 5;
      await source.download([1], () => undefined);
      expect(source.memoryBytes).toBe(kBlobBytes);
      expect(source.downloadedLayers()).toEqual([1]);
      expectSame(await source.readBlob(digest), fake.blobs.get(digest));
      expect(memory.memoryBytes).toBe(0);
    }
  });

  it("memory never takes more than the offer", async () => {
    const http = new ServerHttp(
      () => ["http://s"], "", fakeServer(fake).fetch, AbortSignal.any([]));
    const memory: MemoryStore = new MemoryStore(
      (bytes) => memory.memoryBytes + bytes <= kBlobBytes + 10,
    );
    const source = new PackageSource({
      http,
      cache: memory,
      memory,
      verified: new VerifiedChunks(),
      recent: new RecentChunks(() => true),
      fetcher: null,
      needsPrograms: false,
    });
    await source.fetchManifest(toHex(fake.digest));
    await source.download([0], () => undefined);
    await expect(source.download([1], () => undefined)).rejects.toThrow("do not fit the offer");
    expect(memory.memoryBytes).toBeLessThanOrEqual(kBlobBytes + 10);
  });

  it("where neither takes more, the fault of the cache is told by name", async () => {
    const http = new ServerHttp(
      () => ["http://s"], "", fakeServer(fake).fetch, AbortSignal.any([]));
    const cache = new FakeCache(() => true);
    cache.failAfterBytes = kChunkBytes + 5;
    const source = new PackageSource({
      http,
      cache,
      memory: new MemoryStore(() => false),
      verified: new VerifiedChunks(),
      recent: new RecentChunks(() => true),
      fetcher: null,
      needsPrograms: false,
    });
    await source.fetchManifest(toHex(fake.digest));
    await expect(source.download([1], () => undefined)).rejects.toMatchObject({
      code: "io",
      message: expect.stringMatching(/cache of this .* quota exceeded.*fit the offer/) as string,
    });
  });

  it("a chunk is hashed once, on its way in or when it is first read", async () => {
    const hash = vi.spyOn(crypto.subtle, "digest");
    const { source, verified } = await setUp(fakeServer(fake).fetch);
    hash.mockClear();
    await source.download([1], () => undefined);
    expect(hash).toHaveBeenCalledTimes(3);
    await source.download([1], () => undefined);
    await source.readBlob(digest);
    await source.readRange(digest, 5, 100);
    expect(hash).toHaveBeenCalledTimes(3);
    await source.loaded(1);
    verified.clear(); // as after a reload
    await source.download([1], () => undefined);
    expect(hash).toHaveBeenCalledTimes(6);
    await source.readRange(digest, 5, 100);
    await source.readBlob(digest);
    expect(hash).toHaveBeenCalledTimes(6);
    hash.mockRestore();
  });

  it.each<[string, (source: PackageSource) => Promise<unknown>]>([
    ["verified", (source) => source.download([1], () => undefined)],
    ["read", (source) => source.readBlob(digest)],
  ])("what a cache tore is fetched again when it is %s", async (_, use) => {
    const server = fakeServer(fake);
    const setup = await setUp(server.fetch);
    const { source, cache } = setup;
    await source.download([1], () => undefined);
    await tear(setup, new Uint8Array(kBlobBytes).fill(1));
    const before = server.requests.length;
    await use(source);
    expect(server.requests).toHaveLength(before + 1);
    expectSame(await heldInCache(cache), fake.blobs.get(digest));
    expectSame(await source.readBlob(digest), fake.blobs.get(digest));
    expect(server.requests).toHaveLength(before + 1);
  });
});

describe("ranges of a blob", () => {
  const whole = fake.blobs.get(digest)!;

  it("come in pieces, those of a moment ago without a look at the cache", async () => {
    const { source, cache } = await setUp(fakeServer(fake).fetch);
    const read = vi.spyOn(cache, "read");
    const joined = async (offset: number, byteCount: number): Promise<Uint8Array> => {
      const parts: Uint8Array[] = [];
      for await (const piece of source.readPieces(digest, offset, byteCount)) parts.push(piece);
      return Buffer.concat(parts);
    };
    const ranges = [[0, kBlobBytes], [8, 4], [kChunkBytes - 4, 8], [kBlobBytes - 8, 8]] as const;
    await source.download([1], () => undefined);
    for (const [offset, byteCount] of ranges) {
      expectSame(await joined(offset, byteCount), whole.slice(offset, offset + byteCount));
    }
    expect(read).not.toHaveBeenCalled();
    await source.loaded(1); // they are gone
    for (const [offset, byteCount] of ranges) {
      expectSame(await joined(offset, byteCount), whole.slice(offset, offset + byteCount));
    }
    expect(read).toHaveBeenCalledTimes(ranges.length);
  });

  it.each([
    [0, 10], [kChunkBytes - 5, 10], [kChunkBytes, kChunkBytes], [2 * kChunkBytes + 490, 10],
    [0, kBlobBytes], [7, 0],
  ])("%d and %d bytes from there", async (offset, byteCount) => {
    const server = fakeServer(fake);
    const { source } = await setUp(server.fetch);
    await source.download([1], () => undefined);
    const requests = server.requests.length;
    expectSame(await source.readRange(digest, offset, byteCount),
      whole.slice(offset, offset + byteCount));
    expect(server.requests).toHaveLength(requests);
  });

  it("beyond its end are refused", async () => {
    const { source } = await setUp(fakeServer(fake).fetch);
    await expect(source.readRange(digest, kBlobBytes - 5, 6)).rejects.toThrow(
      `were asked for; it has ${kBlobBytes}`,
    );
  });

  it("in a torn chunk are fetched again, others are not looked at", async () => {
    const server = fakeServer(fake);
    const setup = await setUp(server.fetch);
    const { source } = setup;
    await source.download([1], () => undefined);
    const torn = whole.map((byte, i) => (i === kChunkBytes + 9 ? byte ^ 1 : byte));
    await tear(setup, torn);
    const before = server.requests.length;
    expectSame(await source.readRange(digest, 5, 100), whole.slice(5, 105));
    expect(server.requests).toHaveLength(before);
    expectSame(await source.readRange(digest, kChunkBytes, 20),
      whole.slice(kChunkBytes, kChunkBytes + 20));
    expect(server.requests).toHaveLength(before + 1);
  });
});

describe("the manifest", () => {
  it("must have the digest that Init named", async () => {
    const other = await fakePackage(2, 10);
    await expect(setUp(fakeServer(fake).fetch, other)).rejects.toThrow("the server announced");
  });

  it("is asked for again when the network fails, not for ever", async () => {
    let failures = 2;
    const { fetch } = fakeServer(fake);
    const flaky: Fetch = (url, init) =>
      failures-- > 0 ? Promise.reject(new TypeError("offline")) : fetch(url, init);
    const { source } = await setUp(flaky);
    expect(source.manifest.name).toBe("fake");
    await expect(setUp(() => Promise.reject(new TypeError("offline")))).rejects.toThrow(
      "does not answer",
    );
  });
});
