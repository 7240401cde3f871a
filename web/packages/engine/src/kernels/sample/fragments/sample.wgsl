// What the kernels of sampling share (dispatch/sampling.ts has their order): the sampler's words in
// aux, masses as 64-bit integers, the keys that tokens are sorted by.
//
// The rule of a draw (sampling/draw.ts) speaks of tokens that stand in line by falling logit, each
// as long as its weight. Sorting a vocabulary would cost more than the rest of a step, and nothing
// but a few places of the line is ever asked for: where the count reaches top_k, where the mass
// reaches top_p of all, where it passes the number drawn. Each is found like a word in a
// dictionary. The key of a logit is its f32 turned into an integer that rises where logits fall. A
// histogram of the keys' first byte tells in which of 256 bins the place lies; a histogram of the
// second byte of the keys in that bin narrows it down further; after four levels one key is left,
// and with it the tokens of exactly one logit, which go by rising id.
//
// For instance the logits 3, 1, 2, 1 have the keys 3fbfffff, 407fffff, 3fffffff, 407fffff and, at
// temperature 1, the weights 1, 0.135, 0.368, 0.135: together 1.638. The number 0.85 of the draw
// is the target 1.393. Bin 3f of level 0 has mass 1.368 and bin 40 the 0.270 behind it, so the
// prefix is 40, in front of which lies 1.368; levels 1 to 3 find 407fffff; 1.393 - 1.368 = 0.025 is
// less than one token's 0.135, so it is the first one with that key, token 1.
//
// A token's weight is exp((logit - best) / temperature) in units of 2^-44. Sums of integers do not
// depend on the order of the addends, so that atomics may take them and a replayed step draws the
// same token; 2^20 tokens of the largest weight fit into 64 bits.
@group(0) @binding(0) var<storage, read> step: array<u32>;
@group(0) @binding(1) var<uniform> op: Op;
@group(0) @binding(2) var<storage, read_write> act: array<f32>;
@group(0) @binding(7) var<storage, read_write> aux: array<atomic<u32>>;

// Of the row that the workgroup is for (begin_row).
var<private> own_row: u32;
var<private> own_logits: u32;
var<private> own_result: u32;
var<private> own_sampler: u32;

fn row_word(row: u32, word: u32) -> u32 {
  return step[kStepRowsBegin + kRowWords * row + word];
}
// Row `head_row` of the head: its logits, what argmax.wgsl found of it, the sampler of its seat.
fn begin_row(head_row: u32) {
  own_row = row_word(head_row, kRowSource);
  own_logits = op.logits_base + head_row * op.logits_stride;
  own_result = op.result_at + head_row * op.result_stride;
  own_sampler = op.sampler_at + row_word(own_row, kRowSeat) * op.sampler_stride;
}

fn word(at: u32) -> u32 {
  return atomicLoad(&aux[own_sampler + at]);
}
fn put(at: u32, value: u32) {
  atomicStore(&aux[own_sampler + at], value);
}
fn has(flag: u32) -> bool {
  return (word(kFlags) & flag) != 0u;
}

// Whether the row's Generate makes the search for this purpose (SamplePurpose).
fn asks_for(purpose: u32) -> bool {
  switch purpose {
    case kPurposeTopK: {
      return has(kFlagTopK);
    }
    case kPurposeTopP: {
      return has(kFlagTopP);
    }
    default: {
      return !has(kFlagGreedy);
    }
  }
}

// Whether every thread is to leave the row as it is, in a form that barriers may stand behind.
var<workgroup> skipped: u32;
fn is_skipped(t: u32, skips: bool) -> bool {
  if (t == 0u) {
    skipped = select(0u, 1u, skips);
  }
  return workgroupUniformLoad(&skipped) != 0u;
}

// 64-bit numbers: low word, high word.
fn wide(at: u32) -> vec2<u32> {
  return vec2(word(at), word(at + 1u));
}
fn put_wide(at: u32, value: vec2<u32>) {
  put(at, value.x);
  put(at + 1u, value.y);
}
fn plus(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = a.x + b.x;
  return vec2(low, a.y + b.y + select(0u, 1u, low < a.x));
}
fn minus(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return vec2(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}
fn is_less(a: vec2<u32>, b: vec2<u32>) -> bool {
  return a.y < b.y || (a.y == b.y && a.x < b.x);
}
// Adds to the number at `at` from many threads at once.
fn add_wide(at: u32, value: vec2<u32>) {
  let low = atomicAdd(&aux[own_sampler + at], value.x);
  let carry = select(0u, 1u, low + value.x < low);
  atomicAdd(&aux[own_sampler + at + 1u], value.y + carry);
}

// The 64-bit product.
fn product(a: u32, b: u32) -> vec2<u32> {
  let low = (a & 0xffffu) * (b & 0xffffu);
  let middle = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
  let other = (a & 0xffffu) * (b >> 16u) + (middle & 0xffffu);
  let high = (a >> 16u) * (b >> 16u) + (middle >> 16u) + (other >> 16u);
  return vec2((other << 16u) | (low & 0xffffu), high);
}

fn is_finite(value: f32) -> bool {
  return (bitcast<u32>(value) & 0x7f800000u) != 0x7f800000u;
}

// Rising keys are falling logits.
fn key_of(logit: f32) -> u32 {
  let bits = bitcast<u32>(select(logit, 0.0, logit == 0.0));
  return select(bits ^ 0x7fffffffu, bits, (bits & 0x80000000u) != 0u);
}

fn best_logit() -> f32 {
  return bitcast<f32>(atomicLoad(&aux[own_result + 1u]));
}

fn weight_of(logit: f32, best: f32, inverse_temperature: f32) -> f32 {
  return exp(max((logit - best) * inverse_temperature, -100.0));
}

fn units_of(weight: f32) -> vec2<u32> {
  let scaled = min(weight, 1.0) * 4096.0;
  let whole = floor(scaled);
  return vec2(u32((scaled - whole) * 4294967296.0), u32(whole));
}
