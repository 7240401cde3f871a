import { describe, expect, it } from "vitest";
import { idleActivity, nextActivity, sparkline, speedsText } from "./activity.ts";
import { DeviceLetters, deviceLetter, summaryText } from "./devices.ts";
import { answerTimesText, callsText, hedgesText } from "./holders.ts";
import { holderCounts, layersText, rangesOf, weakestText } from "./layers.ts";
import { leftOutText, lineText } from "./losses.ts";
import { readPicture } from "./picture.ts";
import type { SwarmPicture } from "./picture.ts";

type Json = Record<string, unknown>;

function picture(workers: Json[], more: Json = {}): SwarmPicture {
  const read = readPicture({
    state: "up",
    covered_layers: new Array(10).fill(true),
    workers,
    ...more,
  });
  if (!read) throw new Error("not a picture");
  return read;
}

describe("readPicture", () => {
  it("reads what the server writes", () => {
    const read = readPicture({
      state: "down",
      message: "This swarm needs 1.2 GB more memory.",
      missing_memory_bytes: 1.2e9,
      model: { name: "weft-tiny", layers: 10, weight_bytes: 13e6, context_length: 1024 },
      covered_layers: [true, false],
      stages: [
        { worker: 3, first_layer: 0, end_layer: 2, predicted_us: 5, measured_us: 6, loss_us: 70 },
        { worker: 0, first_layer: 2, end_layer: 4, loss_us: null },
      ],
      standbys: [{ worker: 4, first_layer: 0, end_layer: 2, loaded: true, lag_rows: 8 }],
      side_plans: [{ stages: [{ worker: 4, first_layer: 0, end_layer: 2 }], active_requests: 3 }],
      history_bytes: 9,
      in_neuron_groups: true,
      losses: [{ hub: 3, state: "lossy", message: "Groups may be lost.", groups: 900, lost: 4,
        share: 0.012, falls: 1, lines: [{ worker: 4, ready: true, blocked: false, loss: 0.031 }] }],
      workers: [{ id: 3, name: "x", kind: "web", state: "idle", cached_layers: [1, "2", 3],
        experts_told: 12, experts_held: 7, expert_messages: 90,
        holder: { calls: 1200, rows: 1300, hedges: 9, wins: 1180, losses: 15, won_hedges: 4,
          lost_hedges: 5, timeouts: 3, refused: 1, p50_ms: 4.5, slowest_ms: 80 } }],
    });
    expect(read).toMatchObject({
      state: "down",
      missingMemoryBytes: 1.2e9,
      layerCount: 2,
      model: { name: "weft-tiny", weightBytes: 13e6 },
      stages: [{ deviceId: 3, measuredUs: 6, lossUs: 70 }, { deviceId: 0, lossUs: null }],
      standbys: [{ deviceId: 4, endLayer: 2, isLoaded: true, lagRows: 8 }],
      sidePlans: [{ stages: [{ deviceId: 4, endLayer: 2 }], activeRequests: 3 }],
      historyBytes: 9,
      isInNeuronGroups: true,
      lossyHubs: [{ deviceId: 3, message: "Groups may be lost.", groups: 900, lost: 4, share: 0.012,
        falls: 1, lines: [{ deviceId: 4, isReady: true, isBlocked: false, loss: 0.031 }] }],
    });
    expect(read?.devices[0]).toMatchObject({ id: 3, cachedLayers: [1, 3], firstLayer: -1,
      expertsTold: 12, expertsHeld: 7, expertMessages: 90,
      holder: { calls: 1200, hedges: 9, wins: 1180, losses: 15, wonHedges: 4, lostHedges: 5,
        timeouts: 3, refused: 1, p50Ms: 4.5, slowestMs: 80 } });
    expect(picture([{ id: 3, holder: null }, { id: 4, holder: "busy" }]).devices)
      .toMatchObject([{ holder: null }, { holder: null }]);
  });

  it.each([null, 5, "up", [], {}, { state: "sideways" }])("refuses %j", (json) => {
    expect(readPicture(json)).toBeNull();
  });

  it("survives wrong types and absurd sizes", () => {
    const read = readPicture({
      state: "up", model: { name: 7, layers: 1e9 }, workers: [4, null, {}], stages: "none",
      tokens_per_second: "fast",
    });
    expect(read?.layerCount).toBe(2000);
    expect(read?.devices).toHaveLength(1);
    expect(read?.devices[0]?.state).toBe("connecting");
    expect(read?.tokensPerSecond).toBe(0);
  });
});

describe("losses in words", () => {
  const line = { deviceId: 4, isReady: true, isBlocked: false, loss: 0.031 };

  it("of a line", () => {
    expect(lineText(line)).toBe("Its line loses 3.1% of its datagrams.");
    expect(lineText({ ...line, loss: 0 })).toBe("Its line loses no datagrams.");
    expect(lineText({ ...line, isReady: false })).toContain("Tries");
    expect(lineText({ ...line, isBlocked: true })).toContain("do not get through");
  });

  it("of all groups", () => {
    const hub = { deviceId: 3, message: "", lines: [line], groups: 900, lost: 40, share: 0.25,
      falls: 0 };
    expect(leftOutText(hub))
      .toBe("Left out so far: 40 of 900 neuron groups, lately 25% of their weight.");
    expect(leftOutText({ ...hub, falls: 2 }))
      .toMatch(/weight\. Too much for a while: 2 times\.$/);
    const none = { ...hub, lost: 0, share: 0 };
    expect(leftOutText(none)).toBe("Left out so far: 0 of 900 neuron groups.");
    expect(leftOutText({ ...hub, groups: 0 })).toBe("");
  });
});

describe("holders in words", () => {
  const holder = { calls: 1200, hedges: 9, wins: 1180, losses: 15, wonHedges: 4, lostHedges: 5,
    timeouts: 0, refused: 0, p50Ms: 4.5, slowestMs: 80 };

  it("of calls", () => {
    expect(callsText(holder)).toBe("1\u202f200 times: 1\u202f180 won, 15 lost");
    expect(callsText({ ...holder, timeouts: 1, refused: 2 }))
      .toMatch(/15 lost, 1 timeout, 2 refused$/);
  });

  it("of hedges", () => {
    expect(hedgesText(holder)).toBe("9: 4 won, 5 lost");
    expect(hedgesText({ ...holder, hedges: 0 })).toBe("none");
  });

  it("of times", () => {
    expect(answerTimesText(holder)).toBe("4.5 ms, at most 80 ms");
    expect(answerTimesText({ ...holder, p50Ms: 0 })).toBe("–");
  });
});

describe("layersText", () => {
  it.each([
    [0, 10, "the whole model"],
    [0, 1, "the embedding"],
    [0, 4, "the embedding and layers 1–3"],
    [4, 5, "layer 4"],
    [4, 10, "layers 4–8 and the head"],
    [8, 10, "layer 8 and the head"],
    [9, 10, "the head"],
    [-1, -1, "nothing"],
  ])("%d to %d of 10: %s", (first, end, words) => {
    expect(layersText(first, end, 10)).toBe(words);
  });
});

it("makes ranges of layers", () => {
  expect(rangesOf([5, 0, 1, 2, 2])).toEqual([{ first: 0, end: 3 }, { first: 5, end: 6 }]);
  expect(rangesOf([])).toEqual([]);
});

describe("coverage", () => {
  it("counts plan and cache once per device", () => {
    const counts = holderCounts(picture([
      { id: 1, first_layer: 0, end_layer: 5, cached_layers: [3, 4, 5] },
      { id: 2, first_layer: 5, end_layer: 10 },
      { id: 3, cached_layers: [99] },
    ]));
    expect(counts).toEqual([1, 1, 1, 1, 1, 2, 1, 1, 1, 1]);
  });

  it("names what nobody has", () => {
    expect(weakestText(picture([{ id: 1, cached_layers: [0, 1, 2, 3] }])))
      .toBe("No device has layers 4–8 and the head yet.");
    expect(weakestText(picture([]))).toBe("No device has any layer yet.");
  });

  it("does not count caches of devices without room", () => {
    const all = Array.from({ length: 10 }, (_, layer) => layer);
    const noRoom = { covered_layers: all.map((layer) => layer < 4) };
    expect(weakestText(picture([{ id: 1, cached_layers: all }], noRoom)))
      .toBe("No device has room for layers 4–8 and the head.");
  });

  it("names what hangs on one device", () => {
    expect(weakestText(picture([
      { id: 1, first_layer: 0, end_layer: 10 },
      { id: 2, cached_layers: [0, 1, 2, 3, 4, 5, 6, 8, 9] },
    ]))).toContain("Layer 7 is on one device only");
    expect(weakestText(picture([{ id: 1, first_layer: 0, end_layer: 10 }])))
      .toBe("One device has every layer.");
    expect(weakestText(picture([
      { id: 1, first_layer: 0, end_layer: 4 }, { id: 2, first_layer: 4, end_layer: 10 },
    ]))).toContain("Every layer is on one device only");
  });
});

describe("devices", () => {
  it("letters go on after Z", () => {
    expect([0, 25, 26, 27, 701, 702].map(deviceLetter))
      .toEqual(["A", "Z", "AA", "AB", "ZZ", "AAA"]);
  });

  it("keep their letter and stand in the order of the pipeline", () => {
    const letters = new DeviceLetters();
    const show = (of: SwarmPicture): string =>
      letters.name(of).map(({ device, letter }) => `${letter}${device.id}`).join(" ");
    expect(show(picture([{ id: 7, first_layer: 5, end_layer: 10 },
      { id: 4, first_layer: 0, end_layer: 5 }, { id: 2 }]))).toBe("B4 C7 A2");
    expect(show(picture([{ id: 7, first_layer: 0, end_layer: 10 }, { id: 9 }]))).toBe("C7 D9");
  });

  it("sums up", () => {
    expect(summaryText(picture([{ id: 1 }]))).toBe("Up · 1 device");
  });
});

describe("activity", () => {
  it("holds a highlight while tokens go on and a moment longer", () => {
    const at = (tokens: number, computing = false): SwarmPicture =>
      picture([{ id: 1, tokens_computed: tokens, computing }, { id: 2 }]);
    let activity = nextActivity(idleActivity(), at(100), 0);
    expect(activity.computing.size).toBe(0);
    activity = nextActivity(activity, at(101), 200);
    expect([...activity.computing]).toEqual([1]);
    activity = nextActivity(activity, at(101), 800);
    expect([...activity.computing]).toEqual([1]);
    activity = nextActivity(activity, at(101), 1000);
    expect(activity.computing.size).toBe(0);
    activity = nextActivity(activity, at(101, true), 1200);
    expect([...activity.computing]).toEqual([1]);
  });

  it("forgets devices that left and keeps a bounded history", () => {
    let activity = idleActivity();
    for (let i = 0; i < 100; i += 1) {
      activity = nextActivity(activity, picture([{ id: i }], { tokens_per_second: i }), i);
    }
    expect(activity.seen.size).toBe(1);
    expect(activity.speeds).toHaveLength(60);
    expect(activity.speeds.at(-1)).toBe(99);
  });

  it("draws speeds into the box, newest at the right", () => {
    expect(sparkline([])).toBe("");
    expect(sparkline([0, 0, 0, 0, 0])).toBe("");
    expect(sparkline([1, 2, 3, 4])).toBe("");
    const points = sparkline([5, 5, 5, 0, 10]).split(" ");
    expect(points).toHaveLength(5);
    expect(points[4]).toBe("100.0,1.0");
    expect(points[3]).toBe("98.3,23.0");
  });

  it("says in words what the curve shows", () => {
    expect(speedsText([0, 0, 0, 0, 0])).toBe("");
    expect(speedsText([0, 4, 12.5, 8, 0]))
      .toBe("Recent speed: at most 12.5 tokens/s, now – tokens/s");
  });
});
