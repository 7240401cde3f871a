// What is on the disk after downloads that ended well, badly, or beside others.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";

import { kChunkBytes } from "@weft/worker/download/manifest.ts";

import { DiskStore } from "./diskStore.ts";

const kDigest = "ab".repeat(32);
const kBytes = 2 * kChunkBytes + 100;
const kBlob = new Uint8Array(kBytes).map((_, i) => (i * 7) & 255);
const kChunks = [0, 1, 2].map((i) => kBlob.slice(i * kChunkBytes, (i + 1) * kChunkBytes));

let folder: string;
let said: string[];
let deadProcess: number;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "weft-store-"));
  said = [];
  // A number that no process has any more.
  deadProcess = Number(execFileSync("sh", ["-c", "echo $$"], { encoding: "utf8" }));
});
afterEach(() => rmSync(folder, { recursive: true }));

const opened = (): Promise<DiskStore> => DiskStore.open(folder, (text) => said.push(text));

async function write(store: DiskStore, chunks: readonly Uint8Array<ArrayBuffer>[]): Promise<void> {
  const writer = await store.openWriter(kDigest, kBytes);
  for (const chunk of chunks) await writer.append(chunk);
  writer.close();
}

it("a complete blob has its digest for a name, and another start finds it", async () => {
  await write(await opened(), kChunks);
  expect(readdirSync(folder)).toEqual([kDigest]);
  expect(readFileSync(join(folder, kDigest)).equals(kBlob)).toBe(true);
  const store = await opened();
  expect([store.heldBytes(kDigest), store.cachedBytes]).toEqual([kBytes, kBytes]);
  expect(await store.read(kDigest, kChunkBytes - 3, 10))
    .toEqual(kBlob.slice(kChunkBytes - 3, kChunkBytes + 7));
  await expect(store.read(kDigest, kBytes - 3, 10)).rejects.toThrow("3 of 10 bytes were read");
  await store.close();
});

it("a download goes on behind its whole chunks", async () => {
  const store = await opened();
  await write(store, [kChunks[0]!, kChunks[1]!.slice(0, 1000)]);
  expect(readdirSync(folder)).toEqual([`${kDigest}.${process.pid}.part`]);
  const writer = await store.openWriter(kDigest, kBytes);
  expect(writer.offset).toBe(kChunkBytes);
  for (const chunk of kChunks.slice(1)) await writer.append(chunk);
  writer.close();
  expect(readFileSync(join(folder, kDigest)).equals(kBlob)).toBe(true);
});

it("two models of one process fetch a blob once", async () => {
  const store = await opened();
  const first = await store.openWriter(kDigest, kBytes);
  let isOpen = false;
  const second = store.openWriter(kDigest, kBytes).then((writer) => {
    isOpen = true;
    return writer;
  });
  for (const chunk of kChunks) await first.append(chunk);
  expect(isOpen).toBe(false);
  first.close();
  expect((await second).offset).toBe(kBytes);
  expect(readdirSync(folder)).toEqual([kDigest]);
});

it("who waits goes on where the first one gave up", async () => {
  const store = await opened();
  const first = await store.openWriter(kDigest, kBytes);
  const second = store.openWriter(kDigest, kBytes);
  await first.append(kChunks[0]!);
  first.close();
  expect((await second).offset).toBe(kChunkBytes);
  (await second).close();
});

it("takes over what a process left that is gone, and not what one still writes", async () => {
  writeFileSync(join(folder, `${kDigest}.${deadProcess}.part`), kBlob.slice(0, kChunkBytes + 5));
  const other = "cd".repeat(32);
  writeFileSync(join(folder, `${other}.${process.ppid}.part`), kBlob.slice(0, kChunkBytes));
  const store = await opened();
  expect([store.heldBytes(kDigest), store.heldBytes(other)]).toEqual([kChunkBytes, 0]);
  await write(store, kChunks.slice(1));
  expect(readdirSync(folder).sort()).toEqual([kDigest, `${other}.${process.ppid}.part`]);
  expect(readFileSync(join(folder, kDigest)).equals(kBlob)).toBe(true);
});

it("a blob that another process finished meanwhile is there", async () => {
  const store = await opened();
  writeFileSync(join(folder, kDigest), kBlob);
  const writer = await store.openWriter(kDigest, kBytes);
  writer.close();
  expect([writer.offset, store.heldBytes(kDigest)]).toEqual([kBytes, kBytes]);
});

it("a file of another length is not the blob", async () => {
  writeFileSync(join(folder, kDigest), kBlob.slice(5));
  const store = await opened();
  await write(store, kChunks);
  expect(readFileSync(join(folder, kDigest)).equals(kBlob)).toBe(true);
});

it("what was removed is fetched from its beginning", async () => {
  const store = await opened();
  await write(store, kChunks);
  await store.read(kDigest, 0, 10);
  await store.remove(kDigest);
  expect([store.heldBytes(kDigest), readdirSync(folder).length]).toEqual([0, 0]);
  await expect(store.read(kDigest, 0, 10)).rejects.toThrow("ENOENT");
  expect((await store.openWriter(kDigest, kBytes)).offset).toBe(0);
});

it("says once that the disk takes no more", async () => {
  const store = await opened();
  mkdirSync(join(folder, `${kDigest}.${process.pid}.part`)); // nobody can write there
  for (let i = 0; i < 2; ++i) await expect(store.openWriter(kDigest, kBytes)).rejects.toThrow();
  expect(said).toHaveLength(1);
  expect(said[0]).toMatch(/^The cache in .* takes no more \(EISDIR.*\): .* kept in memory/);
});

it("a folder that cannot be made is an error", async () => {
  writeFileSync(join(folder, "file"), "");
  await expect(DiskStore.open(join(folder, "file", "blobs"), () => undefined)).rejects.toThrow();
});
