import { describe, expect, it } from "vitest";
import {
  defaultOfferBytes, mostOfferBytes, offerStops, readGpuMemory, readOffer,
} from "./offer.ts";

const kGiB = 2 ** 30;
const kMiB = 2 ** 20;

describe("the default", () => {
  it.each([
    [16, false, 2 * kGiB], [8, false, 2 * kGiB], [4, false, kGiB], [null, false, kGiB],
    [8, true, 512 * kMiB], [1, true, 256 * kMiB], [0.001, true, 8 * kMiB],
  ])("%d GiB, phone %s", (deviceGiB, isPhone, bytes) => {
    expect(defaultOfferBytes({ deviceGiB, isPhone })).toBe(bytes);
  });
});

describe("the slider", () => {
  it("has small steps for tests and the chosen value, in order, up to the limit", () => {
    const most = mostOfferBytes({ deviceGiB: 16, isPhone: false });
    expect(most).toBe(8 * kGiB);
    const stops = offerStops(most, 11_000_000);
    expect(stops.slice(0, 4)).toEqual([8 * kMiB, 11_000_000, 16 * kMiB, 32 * kMiB]);
    expect(stops.at(-1)).toBe(8 * kGiB);
    expect([...stops].sort((a, b) => a - b)).toEqual(stops);
    expect(stops).toContain(1.25 * kGiB);
  });

  it("ends where a phone would end the tab", () => {
    expect(mostOfferBytes({ deviceGiB: 8, isPhone: true })).toBe(768 * kMiB);
    expect(mostOfferBytes({ deviceGiB: null, isPhone: true })).toBe(768 * kMiB);
  });

  it("reaches the default on every device", () => {
    for (const deviceGiB of [0.25, 0.5, 1, 2, 4, 8, 32, null]) {
      for (const isPhone of [true, false]) {
        const memory = { deviceGiB, isPhone };
        expect(offerStops(mostOfferBytes(memory), defaultOfferBytes(memory)))
          .toContain(defaultOfferBytes(memory));
      }
    }
  });
});

describe("what the GPU gave", () => {
  const desktop = { deviceGiB: 16, isPhone: false };

  it.each([
    [24 * kGiB, true, 18 * kGiB, 21.6 * kGiB], [22.5 * kGiB, true, 16 * kGiB, 20.25 * kGiB],
    [kGiB, true, 768 * kMiB, 0.9 * kGiB], [8 * kGiB, false, 2 * kGiB, 8 * kGiB],
    [kGiB, false, kGiB, kGiB], [64 * kMiB, false, 64 * kMiB, 64 * kMiB],
    [64 * kMiB, true, 32 * kMiB, 57.6 * kMiB],
  ])("%d bytes, a card's %s: so much by itself and at most", (bytes, isOwn, offered, most) => {
    const gpu = { bytes, isOwn };
    expect(defaultOfferBytes(desktop, gpu)).toBe(offered);
    expect(mostOfferBytes(desktop, gpu)).toBeCloseTo(most, -1);
    const stops = offerStops(mostOfferBytes(desktop, gpu), offered);
    expect(stops).toContain(offered);
    expect(stops.at(-1)).toBeLessThanOrEqual(bytes);
  });

  it("is kept, and nothing else is taken for it", () => {
    const kept = { bytes: 22.5 * kGiB, isOwn: true };
    expect(readGpuMemory(JSON.parse(JSON.stringify(kept)))).toEqual(kept);
    const others = [null, 5, "x", {}, { bytes: 1, isOwn: true }, { bytes: 9e9 }, { isOwn: true },
      { bytes: 2 ** 40, isOwn: true }, { bytes: NaN, isOwn: false }];
    for (const other of others) expect(readGpuMemory(other), JSON.stringify(other)).toBeNull();
  });
});

describe("a link's memory", () => {
  it.each([
    ["16777216", 16_777_216], ["8388608", 8_388_608], ["100", null], ["-5", null], ["1e9", null],
    ["", null], [null, null], ["99999999999999999999", null], ["999999999999999", null],
    ["85899345920", 80 * kGiB],
  ])("%s", (text, bytes) => {
    expect(readOffer(text)).toBe(bytes);
  });
});
