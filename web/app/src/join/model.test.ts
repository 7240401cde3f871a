import { expect, it } from "vitest";
import { readManifest } from "./model.ts";

it("adds up what could be downloaded", () => {
  expect(readManifest({
    name: "weft-tiny", quantisation: "f16", layers: [{}, {}, {}],
    blobs: { aa: { byte_count: 1000 }, bb: { byte_count: 24 }, cc: "odd" },
  })).toEqual({ name: "weft-tiny", quantisation: "f16", layerCount: 3, weightBytes: 1024 });
});

it.each([null, [], {}, { name: "x", layers: [] }, { name: 4, layers: [], blobs: {} }])(
  "refuses %j", (json) => expect(readManifest(json)).toBeNull());
