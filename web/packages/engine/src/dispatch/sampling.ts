// The dispatches that draw a token on the GPU, behind the argmax that finds the best one. Nothing
// is sorted: a search finds the place of the sorted tokens where a running count or mass exceeds a
// target, byte by byte of the key (sample_histogram.wgsl, sample_scan.wgsl).
import { sampleKernel, sampleOp, SamplePurpose } from "../kernels/sample/sample.ts";
import type { SampleKernel } from "../kernels/sample/sample.ts";
import { RowsAt } from "../kernels/common/numbers.ts";
import type { Dispatch, Draft } from "./dispatch.ts";
import { kResultWords } from "./layout.ts";
import type { Layout } from "./layout.ts";

const kMaxParts = 64; // workgroups that share the vocabulary
const kPartTokens = 1024; // of one of them, at least
const kLevels = 4; // bytes of a key

// What draws the tokens of a step's rows; run/sampler.ts tells what their Generates need of it.
export interface SampleSteps<Item> {
  readonly change: readonly Item[]; // biases and penalties, in front of the argmax
  readonly begin: readonly Item[]; // in front of all searches
  readonly topK: readonly Item[];
  readonly topP: readonly Item[];
  readonly minP: readonly Item[];
  readonly draw: readonly Item[];
  readonly pick: readonly Item[];
}
export type SampleDispatches = SampleSteps<Dispatch>;

const kOrder = ["change", "begin", "topK", "topP", "minP", "draw", "pick"] as const;

function sampleSteps({ logits, aux }: Layout, vocabulary: number): SampleSteps<Draft> {
  const { resultAt, chainAt, historyAt, samplerAt, samplerStride } = aux;
  const places = { logits, resultAt, resultStride: kResultWords, chainAt, historyAt };
  const samplers = { samplerAt, samplerStride };
  const at = { rowsAt: RowsAt.head, vocabulary, ...places, ...samplers };
  const draft = (kernel: SampleKernel, groups: number, level = 0, purpose = 0): Draft => ({
    variant: sampleKernel(kernel),
    params: sampleOp.bytes({ ...at, level, purpose }),
    bound: {},
    grid: ({ rows }) => [groups, rows, 1],
    when: () => true,
  });
  const parts = Math.min(kMaxParts, Math.ceil(vocabulary / kPartTokens));
  const search = (purpose: number): Draft[] => {
    const drafts = [draft("scan", 1, 0, purpose)];
    for (let level = 1; level < kLevels; ++level) {
      drafts.push(
        draft("histogram", parts, level, purpose),
        draft("scan", 1, level, purpose),
      );
    }
    return drafts;
  };
  return {
    change: [draft("change", Math.ceil(vocabulary / 256))],
    begin: [draft("histogram", parts)],
    topK: search(SamplePurpose.topK),
    topP: search(SamplePurpose.topP),
    minP: [draft("minP", parts)],
    draw: search(SamplePurpose.draw),
    pick: [draft("pick", 1)],
  };
}

export function sampleDrafts(layout: Layout, vocabulary: number): Draft[] {
  const steps = sampleSteps(layout, vocabulary);
  return kOrder.flatMap((name) => steps[name]);
}

// The dispatches made of sampleDrafts(), by what they are for.
export function sampleDispatchesOf(dispatches: readonly Dispatch[]): SampleDispatches {
  const searchLength = 2 * kLevels - 1;
  let at = 0;
  const take = (count: number): Dispatch[] => dispatches.slice(at, (at += count));
  return {
    change: take(1),
    begin: take(1),
    topK: take(searchLength),
    topP: take(searchLength),
    minP: take(1),
    draw: take(searchLength),
    pick: take(1),
  };
}
