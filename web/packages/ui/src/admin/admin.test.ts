import { describe, expect, it } from "vitest";
import { readKeys, readOwnedDevices, readOwnedModels } from "./adminJson.ts";
import type { NamedKey, OwnedDevice, OwnedModel } from "./adminJson.ts";
import {
  asideText, busyText, demandText, formatAge, lifeText, limitsText, modelText, silenceText,
  timeText, usageText, workText,
} from "./words.ts";

const device = (json: object = {}): OwnedDevice => {
  const [read] = readOwnedDevices({
    devices: [{ id: 3, name: "Heron", model: "tiny", layers: 10, first_layer: -1, ...json }],
  }).devices;
  if (!read) throw new Error("the device was not read");
  return read;
};

const model = (json: object = {}): OwnedModel => {
  const [read] = readOwnedModels({ models: [{ name: "tiny", ...json }] }).models;
  if (!read) throw new Error("the model was not read");
  return read;
};

const key = (json: object = {}): NamedKey => {
  const [read] = readKeys({ data: [{ name: "maths", role: "user", state: "active", ...json }] });
  if (!read) throw new Error("the key was not read");
  return read;
};

describe("what the server says", () => {
  it("is read with harmless defaults", () => {
    for (const odd of [null, 3, [], {}, { devices: 1, evicted: {} }, { devices: [null, 4] }]) {
      expect(readOwnedDevices(odd)).toEqual({ devices: [], evicted: [] });
      expect(readOwnedModels(odd)).toEqual({ models: [], hasSeveral: false });
      expect(readKeys(odd)).toEqual([]);
    }
    expect(device({ layers_beside: ["0", 4], layers_ready: [[1, 2], 7, [3]] }))
      .toMatchObject({ beside: null, ready: [{ first: 1, end: 2 }], asideForS: null });
    expect(model({ use: 4 }).use).toBeNull();
    expect(key({ models: ["a", 4], per_minute: "many" }))
      .toMatchObject({ models: ["a"], perMinute: null, expires: "" });
  });

  it("has good keys first, each kind by name", () => {
    const data = [["b", "ended"], ["c", "active"], ["a", "expired"], ["d", "active"]]
      .map(([name, state]) => ({ name, state }));
    expect(readKeys({ data }).map(({ name }) => name)).toEqual(["c", "d", "a", "b"]);
  });
});

describe("devices in words", () => {
  it("says what one holds", () => {
    expect(workText(device())).toBe("For tiny: nothing now.");
    expect(workText(device({ first_layer: 0, end_layer: 10 })))
      .toBe("For tiny: runs the whole model.");
    expect(workText(device({ layers_beside: [0, 10] })))
      .toBe("For tiny: answers beside the others with the whole model.");
    expect(workText(device({ first_layer: 4, end_layer: 7, layers_ready: [[0, 4]] })))
      .toBe("For tiny: runs layers 4–6, stands by with the embedding and layers 1–3.");
  });

  it("says why one gets nothing, and for how long", () => {
    expect(asideText(device())).toBe("");
    expect(asideText(device({ aside: { reason: "It failed.", for_s: null } }))).toBe("It failed.");
    expect(asideText(device({ aside: { reason: "It failed.", for_s: 60.2 } })))
      .toBe("It failed. Again in 1 min.");
    expect(silenceText(device({ silent_s: 2.9 }))).toBe("");
    expect(silenceText(device({ silent_s: 61 })))
      .toBe("Nothing has been heard of it for 1 min.");
    expect([0, 0.001, 0.344].map((busy_share) => busyText(device({ busy_share }))))
      .toEqual(["0% of the time", "less than 1% of the time", "34% of the time"]);
  });

  it("rounds ages down", () => {
    expect([-1, 59.9, 60, 3599, 7200, 172_800].map(formatAge))
      .toEqual(["0 s", "59 s", "1 min", "59 min", "2 h", "2 days"]);
  });
});

it("says who uses a model", () => {
  const use = { devices: 1, active_requests: 0, queued_requests: 0, askers: [] };
  expect(demandText(model())).toBe("Nobody uses it.");
  expect(demandText(model({ waiting_requests: 1 }))).toBe("1 question waits.");
  expect(demandText(model({ use }))).toBe("1 device helps. Nobody asks it now.");
  expect(demandText(model({
    use: { ...use, active_requests: 1, queued_requests: 2, askers: [{ name: "a", requests: 3 }] },
  }))).toBe("1 device helps. 1 answer under way, 2 wait: a (3).");
  expect(modelText(model({ use, stays: true }))).toMatch(/It stays loaded\.$/);
  expect(modelText(model({ use, goes_in_s: 90 }))).toMatch(/it is unloaded in 1 min\.$/);
  expect(modelText(model({ weight_bytes: 2e9, need_bytes: 3 * 2 ** 30 })))
    .toBe("2 GB of weights, needs 3 GiB of all devices together.");
});

it("says what a key may, and when it ends", () => {
  expect(limitsText(key())).toBe("");
  expect(limitsText(key({ per_minute: 60, tokens_per_day: 9, at_once: 2, models: ["a", "b"] })))
    .toBe("Limits: 60 requests a minute, 9 tokens a day, 2 at once, only a, b.");
  expect(usageText(key({ today: { requests: 1, prompt_tokens: 30, completion_tokens: 4 } })))
    .toBe("Today: 1 request, 34 tokens.");
  const created = "2027-01-04T09:00:00Z";
  expect(lifeText(key({ created }))).toBe("Made 2027-01-04 09:00 UTC, does not end by itself.");
  expect(lifeText(key({ created, expires: "2027-02-01T00:00:00Z" })))
    .toBe("Made 2027-01-04 09:00 UTC, ends 2027-02-01 00:00 UTC.");
  expect(lifeText(key({ created, state: "ended", ended: created })))
    .toBe("Made 2027-01-04 09:00 UTC, ended 2027-01-04 09:00 UTC.");
  expect(timeText("soon")).toBe("soon");
});
