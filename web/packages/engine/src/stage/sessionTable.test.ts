// The session rules of stageEngine.ts: what may append, what is refused and changes nothing.
import { describe, expect, it } from "vitest";

import { SessionTable } from "./sessionTable.ts";
import type { Run } from "./stageEngine.ts";

const layers = { first: 1, end: 3 };
const kNothing = { kv: false, state: false };
const kKv = { kv: true, state: false };

function run(session: number, generation: number, firstPosition: number, count: number): Run {
  return { session, generation, firstPosition, count, output: { kind: "none" } };
}

function table(): SessionTable {
  const sessions = new SessionTable();
  sessions.addLayer(0, kNothing);
  for (const layer of [1, 2, 3]) sessions.addLayer(layer, kKv);
  sessions.addLayer(4, kNothing);
  return sessions;
}

function step(sessions: SessionTable, range: { first: number; end: number }, ...runs: Run[]): void {
  sessions.check(range, runs);
  sessions.commit(range, runs);
}

describe("appending", () => {
  it("begins at position 0 and goes on exactly where the session ends", () => {
    const sessions = table();
    expect(() => sessions.check(layers, [run(7, 0, 3, 1)])).toThrow(
      "Session 7 is unknown in layer 1, so a run of 1 rows at position 3, generation 0 cannot " +
        "follow; it must begin at position 0.",
    );
    step(sessions, layers, run(7, 0, 0, 5));
    expect(sessions.held(7, layers).positions).toBe(5);
    step(sessions, layers, run(7, 0, 5, 2));
    for (const first of [0, 6, 8]) {
      expect(() => sessions.check(layers, [run(7, 0, first, 1)])).toThrow(
        "holds 7 positions of layer 1 in generation 0",
      );
    }
    expect(sessions.held(7, layers).positions).toBe(7);
  });

  it("truncates with a higher generation, never beyond the length, never backwards", () => {
    const sessions = table();
    step(sessions, layers, run(1, 2, 0, 10));
    expect(() => sessions.check(layers, [run(1, 3, 11, 1)])).toThrow("cannot follow");
    const check = (next: Run) => () => sessions.check(layers, [next]);
    expect(check(run(1, 1, 10, 1))).toThrow("but layer 1 is in generation 2");
    step(sessions, layers, run(1, 3, 4, 2));
    expect(sessions.held(1, layers).positions).toBe(6);
    expect(check(run(1, 2, 6, 1))).toThrow("but layer 1 is in generation 3");
    step(sessions, layers, run(1, 9, 6, 1)); // a higher generation at the end keeps everything
    expect(sessions.held(1, layers).positions).toBe(7);
  });

  it("keeps sessions apart and checks all runs of a step", () => {
    const sessions = table();
    step(sessions, layers, run(1, 0, 0, 3), run(2, 0, 0, 1));
    expect(() => sessions.check(layers, [run(1, 0, 3, 1), run(2, 0, 2, 1)])).toThrow("Session 2");
    sessions.release(1);
    expect(sessions.held(1, layers).positions).toBe(0);
    expect(sessions.held(2, layers).positions).toBe(1);
    sessions.releaseAll();
    expect(sessions.held(2, layers).positions).toBe(0);
  });

  it("refuses runs of no rows and positions that f32 cannot count", () => {
    const sessions = table();
    expect(() => sessions.check(layers, [run(1, 0, 0, 0)])).toThrow("expected 1 or more rows");
    expect(() => sessions.check(layers, [run(1, 0, 1 << 24, 1)])).toThrow(
      "below position 16777216",
    );
  });
});

describe("layers", () => {
  it("of one session have their own lengths: a gained layer is replayed", () => {
    const sessions = table();
    step(sessions, layers, run(1, 0, 0, 8));
    const grown = { first: 1, end: 4 };
    expect(() => sessions.check(grown, [run(1, 0, 8, 1)])).toThrow("is unknown in layer 3");
    step(sessions, { first: 3, end: 4 }, run(1, 0, 0, 8));
    step(sessions, grown, run(1, 0, 8, 1));
    expect(sessions.held(1, grown).positions).toBe(9);
  });

  it("of one session have their own generations: only those of a run decide", () => {
    const sessions = table();
    step(sessions, layers, run(1, 4, 0, 8));
    step(sessions, { first: 3, end: 4 }, run(1, 2, 0, 8)); // behind the others
    const grown = { first: 1, end: 4 };
    expect(() => sessions.check(grown, [run(1, 3, 8, 1)])).toThrow(
      "Session 1 was given a run of 1 rows at position 8, generation 3, but layer 1 is in " +
        "generation 4.",
    );
    expect(() => sessions.check({ first: 3, end: 4 }, [run(1, 1, 8, 1)])).toThrow(
      "but layer 3 is in generation 2",
    );
    expect(sessions.held(1, grown)).toEqual({ generation: 0, positions: 8, marks: [] });
    step(sessions, grown, run(1, 4, 8, 1));
    expect(sessions.held(1, grown)).toEqual({ generation: 4, positions: 9, marks: [] });
    expect(() => sessions.check({ first: 3, end: 4 }, [run(1, 3, 9, 1)])).toThrow(
      "but layer 3 is in generation 4",
    );
  });

  it("without attention decide only where no layer of the range has it", () => {
    const sessions = table();
    step(sessions, { first: 0, end: 2 }, run(1, 0, 0, 4));
    step(sessions, { first: 0, end: 1 }, run(2, 0, 17, 1)); // unknown, but nothing can be wrong
    expect(() => sessions.check({ first: 0, end: 1 }, [run(2, 0, 20, 1)])).toThrow("cannot follow");
    step(sessions, { first: 3, end: 5 }, run(3, 0, 0, 2));
    expect(sessions.held(3, { first: 3, end: 5 }).positions).toBe(2);
  });

  it("that are removed forget their positions", () => {
    const sessions = table();
    step(sessions, layers, run(1, 0, 0, 4));
    sessions.removeLayer(2);
    sessions.addLayer(2, kKv);
    expect(() => sessions.check(layers, [run(1, 0, 4, 1)])).toThrow("is unknown in layer 2");
    step(sessions, { first: 1, end: 2 }, run(1, 0, 4, 1));
  });
});

describe("recurrent layers", () => {
  it("tell the marks that all of them have", () => {
    const sessions = table();
    sessions.addLayer(2, { kv: false, state: true });
    step(sessions, layers, { ...run(1, 0, 0, 4), marks: 2 }, run(2, 0, 0, 3));
    step(sessions, layers, { ...run(1, 0, 4, 4), marks: 2 });
    step(sessions, layers, run(1, 0, 8, 1));
    expect(sessions.held(1, layers)).toEqual({ generation: 0, positions: 9, marks: [4, 8] });
    expect(sessions.held(1, { first: 1, end: 2 }).marks).toEqual([]);
    expect(sessions.held(2, layers)).toEqual({ generation: 0, positions: 3, marks: [] });
    expect(sessions.held(3, layers)).toEqual({ generation: 0, positions: 0, marks: [] });
  });
});

describe("truncate and fork", () => {
  it("truncate raises the generation and stays within what is held", () => {
    const sessions = table();
    step(sessions, layers, run(1, 0, 0, 6));
    expect(() => sessions.truncate(1, 0, 2)).toThrow("must raise the generation, which is 0");
    expect(() => sessions.truncate(1, 1, 7)).toThrow("cannot be truncated to 7 positions");
    expect(() => sessions.truncate(9, 1, 0)).toThrow("Session 9 is unknown");
    sessions.truncate(1, 1, 2);
    expect(() => sessions.check(layers, [run(1, 0, 2, 1)])).toThrow("layer 1 is in generation 1");
    step(sessions, layers, run(1, 1, 2, 1));
  });

  it("fork copies a prefix into the layers that are named", () => {
    const sessions = table();
    step(sessions, layers, run(1, 4, 0, 6));
    const fork = (to: number, generation: number, positionCount: number, in_ = layers): void => {
      sessions.checkFork(in_, { from: 1, to, generation, positionCount });
      sessions.fork(in_, { from: 1, to, generation, positionCount });
    };
    expect(() => fork(2, 0, 7)).toThrow("Session 1 holds 6 positions of layer 1, so it cannot be");
    expect(() => fork(1, 9, 3)).toThrow("expected another session");
    expect(() => fork(2, 0, 0)).toThrow("at least 1 position");
    fork(2, 3, 3, { first: 1, end: 2 });
    expect(() => fork(2, 3, 5)).toThrow("Session 2 is in generation 3 of layer 1");
    expect(() => sessions.check(layers, [run(2, 3, 3, 1)])).toThrow("unknown in layer 2");
    fork(2, 4, 5);
    step(sessions, layers, run(2, 4, 5, 1));
    expect(sessions.held(1, layers).positions).toBe(6);
    expect(sessions.held(2, layers).positions).toBe(6);
  });
});
