// What a run gets of its row of logits: the same as src/engine/select.cc gives, so that the same
// numbers give the same token.
import type { Output, Selection } from "./stageEngine.ts";
import { draw } from "../sampling/draw.ts";
import { changesLogits } from "../sampling/parameters.ts";
import type { Sampling } from "../sampling/parameters.ts";
import { penalized } from "../sampling/penalize.ts";
import { selectTop } from "../sampling/selectTop.ts";
import type { TokenLogit } from "../sampling/tokenLogit.ts";

// What the sum that goes with candidates is scaled by. Greedy requests want the order alone: any
// temperature will do.
export function scaleOf(sampling: Sampling | undefined): number {
  const temperature = sampling?.temperature ?? 1;
  return temperature > 0 ? Math.min(1 / temperature, 1e30) : 1;
}

export type SelectingOutput = Extract<Output, { kind: "argmax" | "candidates" | "draw" }>;

// What a run asks of its last row of logits. REQUIRES: finite logits.
export function selectRow(logits: Float32Array, output: SelectingOutput): Selection {
  if (output.kind === "argmax") return selectTop(logits, 2);
  const { count, sampling } = output;
  const changed = sampling && changesLogits(sampling) ? penalized(logits, sampling) : logits;
  if (output.kind === "draw") {
    const tokenId = draw(changed, output.sampling, output.uniform);
    const { candidates, logsumexp } = selectTop(logits, Math.max(count, 1));
    const drawn: TokenLogit = { tokenId, logit: logits[tokenId]! };
    return { candidates: candidates.slice(0, count), logsumexp, drawn };
  }
  const { candidates, logsumexp } = selectTop(changed, count);
  const scale = scaleOf(sampling);
  const best = candidates[0]!.logit;
  const scaledSum = changed.reduce((sum, logit) => sum + Math.exp((logit - best) * scale), 0);
  const raw = changed === logits ? logsumexp : selectTop(logits, 1).logsumexp;
  return { candidates, logsumexp: raw, scaledSum };
}
