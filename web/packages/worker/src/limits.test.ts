// Limits that two packages declare because neither may import the other: they must be the same.
import { describe, expect, it } from "vitest";

import * as engine from "@weft/engine";
import * as wire from "@weft/wire";

describe("limits of the wire and of the engines", () => {
  it("are the same for the tokens beside a drawn one", () => {
    expect(engine.kMaxTopLogprobs).toBe(wire.kMaxTopLogprobs);
  });
});
