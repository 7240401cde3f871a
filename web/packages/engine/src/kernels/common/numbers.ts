// Numbers that the engine writes and the kernels read. They have their names here; `named` makes
// constants of the same names in front of every kernel's text.

// Words of the step's buffer, which run/arena.ts writes. Whatever begins somewhere is counted in
// words from the buffer's beginning.
export const StepWord = {
  bodyRows: 0, // rows of the layers in front of the output head
  rotationsBegin: 1, // cosine, sine of every pair, row after row
  rotationPairs: 2, // of a row
  chunks: 3, // of 256 positions, of the longest session (split attention)
  historySlot: 4, // where the tokens of row 0, 1, ... are kept, or kNone
  headRows: 5,
  scalesBegin: 6, // 1 / temperature of the head's rows (scaled_sum.wgsl)
  runsBegin: 7, // how many runs, then four words of each for every layer with state (state.wgsl)
  rowsBegin: 8, // kRowWords words a row
} as const;

export const RowWord = {
  token: 0, // kNone: the one that was chosen last for the row's seat
  position: 1,
  pagesBegin: 2, // page numbers of the row's session
  source: 3, // of row i of the head: which row of the residual stream it is
  seat: 4, // which chain and which sampler are the row's (run/tokenLoop.ts)
} as const;
export const kRowWords = 5;

// Which count of rows an operation runs over.
export const RowsAt = { body: StepWord.bodyRows, head: StepWord.headRows } as const;

// What a value is rounded to, as if it had crossed the wire.
export const Rounding = { f32: 0, f16: 1, bf16: 2 } as const;

export type Numbers = Readonly<Record<string, number>>;

// { add: 0 } and "Elementwise": const kElementwiseAdd = 0u;
export function named(prefix: string, numbers: Numbers): string {
  return Object.entries(numbers)
    .map(([name, value]) => {
      const rest = name.charAt(0).toUpperCase() + name.slice(1);
      return `const k${prefix}${rest} = ${value}u;\n`;
    })
    .join("");
}
