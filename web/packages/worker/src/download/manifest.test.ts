// The manifest: what the server's own programs write, and what must be refused.
import { describe, expect, it } from "vitest";

import { DType } from "@weft/wire";

import { type LayerInfo, parseManifest, sharedBlobs } from "./manifest.ts";

const digest = "ab".repeat(32);
const chunk = "cd".repeat(32);

type Json = Record<string, unknown>;

function manifest(change: (json: Json) => void = () => undefined): Uint8Array {
  const json: Json = {
    format: 1,
    name: "tiny",
    architecture: "llama",
    quantisation: "f16",
    boundary_dtype: "bf16",
    hidden_columns: 64,
    vocabulary: 512,
    context_length: 512,
    lowered: true,
    layers: [
      {
        index: 0,
        kind: "embedding",
        program: digest,
        blobs: [digest],
        weight_bytes: 100,
        read_bytes_per_token: 10,
        kv_bytes_per_position: 0,
      },
    ],
    blobs: { [digest]: { byte_count: (1 << 20) + 1, chunks: [chunk, chunk] } },
    files: {},
  };
  change(json);
  return new TextEncoder().encode(JSON.stringify(json));
}

it("reads what weft convert writes", () => {
  const parsed = parseManifest(manifest());
  expect(parsed.boundaryDtype).toBe(DType.bf16);
  expect(parsed.layers).toEqual([
    { program: digest, blobs: [digest], weightBytes: 100, kvBytesPerPosition: 0 },
  ]);
  expect(parsed.blobs.get(digest)).toEqual({
    byteCount: (1 << 20) + 1,
    chunks: [chunk, chunk],
  });
});

it("tells which blobs a layer shares with an earlier one", () => {
  const chunks = [chunk];
  const blobs = new Map([["a", { byteCount: 50, chunks }], ["b", { byteCount: 7, chunks }]]);
  const layer = (weightBytes: number, ...own: string[]): LayerInfo =>
    ({ program: "", blobs: own, weightBytes, kvBytesPerPosition: 0 });
  const layers = [layer(50, "a"), layer(7, "b"), layer(57, "b", "a"), layer(40, "a", "a")];
  expect(sharedBlobs({ layers, blobs })).toEqual([
    { with: null, byteCount: 0 },
    { with: null, byteCount: 0 },
    { with: 0, byteCount: 57 },
    { with: 0, byteCount: 40 }, // it reads a part of them
  ]);
});

describe("refuses", () => {
  const layer = (json: Json): Json => (json["layers"] as Json[])[0]!;
  const blob = (json: Json): Json => (json["blobs"] as Record<string, Json>)[digest]!;
  it.each<[string, (json: Json) => void]>([
    ["format 3, this worker reads formats up to 2", (json) => (json["format"] = 3)],
    ["has format 2 without 'embedding'", (json) => (json["format"] = 2)],
    ["has format 1 and 'embedding'", (json) => (json["embedding"] = {})],
    ["format is missing", (json) => delete json["format"]],
    ["neither f16, bf16 nor f32", (json) => (json["boundary_dtype"] = "i32")],
    ["hidden_columns is 0", (json) => (json["hidden_columns"] = 0)],
    ["vocabulary is 1.5", (json) => (json["vocabulary"] = 1.5)],
    ["layers is not an array", (json) => (json["layers"] = {})],
    ["the number of layers is 0", (json) => (json["layers"] = [])],
    ["index of layer 0 is 3", (json) => (layer(json)["index"] = 3)],
    ["a blob of layer 0 is no SHA-256", (json) => (layer(json)["program"] = undefined)],
    ["a blob of layer 0 is no SHA-256", (json) => (layer(json)["blobs"] = ["../x"])],
    ["which 'blobs' does not list", (json) => (layer(json)["blobs"] = [chunk])],
    ["weight_bytes of layer 0 is -1", (json) => (layer(json)["weight_bytes"] = -1)],
    ["expected 3", (json) => (blob(json)["byte_count"] = 3 << 20)],
    ["byte_count of blob", (json) => (blob(json)["byte_count"] = 1e300)],
    ["blob AB is no SHA-256", (json) => (json["blobs"] = { AB: {} })],
    ["blobs is not an object", (json) => (json["blobs"] = [])],
    ["name is not a string", (json) => (json["name"] = 5)],
  ])("%s", (message, change) => {
    expect(() => parseManifest(manifest(change))).toThrow(message);
  });

  it("what is no JSON or no UTF-8", () => {
    expect(() => parseManifest(new TextEncoder().encode("{"))).toThrow("no JSON");
    expect(() => parseManifest(Uint8Array.of(0xff, 0xfe))).toThrow("no JSON");
    expect(() => parseManifest(new TextEncoder().encode("[]"))).toThrow("not an object");
  });
});
