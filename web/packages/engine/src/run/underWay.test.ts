import { describe, expect, it } from "vitest";

import { StepsUnderWay } from "./underWay.ts";

function rig() {
  const underWay = new StepsUnderWay();
  const log: string[] = [];
  const begin = (name: string, ...sessions: number[]) =>
    underWay.begin({
      sessions,
      keep: () => void log.push(`keep ${name}`),
      undo: () => void log.push(`undo ${name}`),
    });
  return { underWay, log, begin };
}

describe("StepsUnderWay", () => {
  it("keeps steps in their order", () => {
    const { underWay, log, begin } = rig();
    const [a, b] = [begin("a", 1), begin("b", 1)];
    a.keep();
    b.keep();
    expect(log).toEqual(["keep a", "keep b"]);
    expect(underWay.isEmpty).toBe(true);
  });

  it("undoes what was built on a failed step, the last one first", () => {
    const { underWay, log, begin } = rig();
    const [a, b, c, d] = [begin("a", 1), begin("b", 1, 2), begin("c", 3), begin("d", 2)];
    const error = new Error("not finite");
    expect(a.fail(error)).toBe(error);
    expect(log).toEqual(["undo d", "undo b", "undo a"]);
    expect(() => b.keep()).toThrow(error);
    c.keep();
    expect(d.fail(new Error("something else"))).toBe(error);
    expect(log.slice(3)).toEqual(["keep c"]);
    expect(underWay.isEmpty).toBe(true);
  });

  it("leaves steps below a failed one", () => {
    const { log, begin } = rig();
    const [a, b] = [begin("a", 1), begin("b", 1)];
    b.fail(new Error("b"));
    a.keep();
    expect(log).toEqual(["undo b", "keep a"]);
  });
});
