// The input of a product of superblocks, of one row, prepared by the workgroup that needs it: the
// integers and scales of quantise_superblocks.wgsl without a dispatch of their own. Thread t has
// columns 8 p to 8 p + 7 with p = t % 4 of block t / 4 of the 32 that a workgroup walks at a time.
// Threads share through shuffles (own_subgroups.wgsl) or workgroup memory (own_shared.wgsl).
var<workgroup> own_scales: array<f32, kSlots>;
var<workgroup> own_squares: array<f32, kSlots>;
var<workgroup> own_halves: array<vec2<i32>, 8u * kSlots>;
var<private> total_squares: f32;

fn place_of_row(row: u32) -> u32 {
  return in_base() + row * op.in_stride;
}

// Leaves what the whole superblock is told of. `bits`: of its largest magnitude.
fn close_superblock(superblock: u32, bits: u32, sum: f32) {
  own_scales[superblock % kSlots] = scale_of_bits(bits);
  own_squares[superblock % kSlots] = sum;
}

fn half_sums(first: u32, block: u32) -> vec2<i32> {
  return own_halves[block % (8u * kSlots)];
}

fn input_scale(first: u32, superblock: u32) -> f32 {
  return own_scales[superblock % kSlots];
}

// Called for rising superblocks.
fn add_superblock_squares(superblock: u32) {
  total_squares = total_squares + own_squares[superblock % kSlots];
}

fn planes_inverse_rms(first: u32) -> f32 {
  if (!kWithNorm) {
    return 1.0;
  }
  return 1.0 / sqrt(total_squares / f32(op.columns) + op.epsilon);
}
