// Threads that download: how far ahead they run, that they end when nothing is to do, and what
// becomes of their blobs when they die. What they fetch and keep: packageSource.test.ts.
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { MemoryStore } from "./blobStore.ts";
import { serveBlobs } from "./blobThread.ts";
import { BlobThreads } from "./blobThreads.ts";
import type { BlobJob, ThreadPort } from "./blobThreads.ts";
import { kChunkBytes } from "./manifest.ts";
import { PackageSource, VerifiedChunks } from "./packageSource.ts";
import { RecentChunks } from "./recentChunks.ts";
import { ServerHttp } from "./serverHttp.ts";
import { sha256Hex, toHex } from "./sha256.ts";
import { fakePackage, fakeServer } from "../test/fakes.ts";

const kChunks = 12;
const fake = await fakePackage(2, kChunks * kChunkBytes);
const digest = fake.digests[0]!;
const chunks = await Promise.all(Array.from({ length: kChunks }, (_, i) =>
  sha256Hex(fake.blobs.get(digest)!.slice(i * kChunkBytes, (i + 1) * kChunkBytes))));

let started: { port: ThreadPort; die: (why: string) => void; isEnded: boolean }[];
let written: number; // chunks that threads have kept
let server: ReturnType<typeof fakeServer>;

beforeEach(() => {
  [started, written, server] = [[], 0, fakeServer(fake)];
});
afterEach(() => vi.useRealTimers());

class CountingStore extends MemoryStore {
  constructor() {
    super(() => true);
  }

  override async openWriter(name: string): ReturnType<MemoryStore["openWriter"]> {
    const writer = await super.openWriter(name);
    return {
      ...writer,
      append: async (bytes) => {
        ++written;
        await writer.append(bytes);
      },
    };
  }
}

function startThread(onGone: (why: string) => void): ThreadPort {
  const { port1, port2 } = new MessageChannel();
  serveBlobs(port2, { fetch: server.fetch, openStore: () => Promise.resolve(new CountingStore()) });
  const thread = { port: port1 as unknown as ThreadPort, die: onGone, isEnded: false };
  thread.port.terminate = () => {
    thread.isEnded = true;
    port1.close();
  };
  started.push(thread);
  return thread.port;
}

function jobOf(onChunk: BlobJob["onChunk"], signal = new AbortController().signal): BlobJob {
  const info = { byteCount: kChunks * kChunkBytes, chunks };
  return {
    server: { origin: "http://server", joinToken: "" }, blob: { digest, info }, keeps: true,
    offset: 0, signal, onOpen: () => undefined, onChunk,
  };
}

async function sourceOf(threads: BlobThreads): Promise<PackageSource> {
  const http = new ServerHttp(
    () => ["http://server"], "", server.fetch, new AbortController().signal);
  const cache = Object.assign(new MemoryStore(() => true), { noteHeld: () => undefined });
  const source = new PackageSource({
    http, cache, memory: new MemoryStore(() => true), verified: new VerifiedChunks(),
    recent: new RecentChunks(() => true), fetcher: threads, needsPrograms: false,
  });
  await source.fetchManifest(toHex(fake.digest));
  return source;
}

describe("threads that download", () => {
  it("give chunks in their order, and run four ahead of who takes them", async () => {
    const threads = new BlobThreads(1, startThread);
    const taken: number[] = [];
    let mostAhead = 0;
    await threads.fetch(jobOf(async (index, bytes) => {
      expect(await sha256Hex(bytes)).toBe(chunks[index]);
      await new Promise((resolve) => setTimeout(resolve, 5));
      mostAhead = Math.max(mostAhead, written - taken.length);
      taken.push(index);
    }));
    expect(taken).toEqual(chunks.map((_, index) => index));
    expect(mostAhead).toBeGreaterThan(1);
    // Four that were given, one that is taken, and one that waits to be given.
    expect(mostAhead).toBeLessThanOrEqual(6);
  });

  it("end a blob that its taker refuses, with the taker's reason", async () => {
    const threads = new BlobThreads(1, startThread);
    const taken: number[] = [];
    await expect(threads.fetch(jobOf((index) => {
      taken.push(index);
      if (index === 2) throw new RangeError("no room");
    }))).rejects.toThrow("no room");
    expect(taken).toEqual([0, 1, 2]);
    expect(written).toBeLessThan(kChunks);
  });

  it("end a blob that nobody wants any more, and hand out nothing behind that", async () => {
    const threads = new BlobThreads(1, startThread);
    const stop = new AbortController();
    await expect(threads.fetch(jobOf(() => stop.abort(), stop.signal)))
      .rejects.toMatchObject({ code: "cancelled" });
    const after = threads.fetch(jobOf(() => undefined, stop.signal));
    await expect(after).rejects.toMatchObject({ code: "cancelled" });
  });

  it("are started when they are needed, share the work, and end when they are idle", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const threads = new BlobThreads(3, startThread);
    expect(started.length).toBe(0);
    await Promise.all([1, 2].map(() => threads.fetch(jobOf(() => undefined))));
    expect(started.map(({ isEnded }) => isEnded)).toEqual([false, false]);
    vi.advanceTimersByTime(19_000);
    await threads.fetch(jobOf(() => undefined));
    vi.advanceTimersByTime(19_000);
    expect(started.some(({ isEnded }) => isEnded)).toBe(false);
    vi.advanceTimersByTime(1000);
    expect(started.every(({ isEnded }) => isEnded)).toBe(true);
    await threads.fetch(jobOf(() => undefined));
    expect(started.length).toBe(3);
  });

  it("that die leave their blobs to the others, and the last one to who asked", async () => {
    const threads = new BlobThreads(2, startThread);
    const source = await sourceOf(threads);
    let deaths = 2;
    await source.download([0], () => {
      if (deaths-- > 0) started.at(-1)!.die("the thread has ended");
    });
    expect(source.missingBytes([0])).toBe(0);
    expect([started.length, threads.isAlive]).toEqual([2, false]);
    await source.download([1], () => undefined);
    expect(source.missingBytes([1])).toBe(0);
    expect(started.length).toBe(2);
  });
});
