// Sums of 1 to kTileRows rows times kOutputs outputs of a matrix of superblocks, by a workgroup of
// 4 x 32 threads. It walks 32 blocks of 32 columns at a time: four lanes share a block, each has a
// quarter of the outputs. What they find, whole numbers, is added up over the eight blocks of a
// superblock by the thread that an output belongs to.
//
// For instance with 16 outputs and a row of 1,024 columns, thread 22 (lane 2 of block 5) multiplies
// block 5 of outputs 8 to 11. Thread 9 then adds up blocks 0 to 7, 8 to 15, 16 to 23 and 24 to 31
// of output 9.
const kBlocks = 32u;  // at a time
const kSlots = kBlocks / 8u;  // superblocks of an input that are known at once
const kSumStride = kBlocks + 1u;  // so that lanes hit different banks

var<workgroup> block_sums: array<Sum, kOutputs * kTileRows * kSumStride>;

// The products of a block with the lane's outputs. `rows`: where the inputs of the tile stand.
fn multiply_block(group: u32, b: u32, t: u32, rows: array<u32, kTileRows>) {
  let q = t & 3u;
  let first_local = kLaneRows * q;
  let first = first_local & 7u;
  let block = min(b, op.blocks - 1u);
  let pairs = lane_halves(pairs_of(group, block), q);
  var weights: array<Block, kLaneRows>;
  for (var r = 0u; r < kLaneRows; r++) {
    let n = first + r;
    weights[r] = levels_of(load_block(8u * group + n, block), group, block, n);
  }
  var tile = rows;
  for (var m = 0u; m < kTileRows; m++) {
    let x = block_inputs(tile[m], b, t);
    for (var r = 0u; r < kLaneRows; r++) {
      let sum = block_sum(weights[r], pairs[r >> 1u] >> (16u * (r & 1u)), x);
      block_sums[(kOutputs * m + first_local + r) * kSumStride + (t >> 2u)] =
        select(Sum(), sum, b == block);
    }
  }
}

// Output t % kOutputs of tile row t / kOutputs, for threads that have one. Groups of 8 outputs
// begin at `first_group`, those beyond `last_group` are never written; `base`: group 0 of the
// matrix.
fn output_total(base: u32, first_group: u32, last_group: u32, t: u32,
                rows: array<u32, kTileRows>) -> f32 {
  let group = base + min(first_group + ((kLaneRows * (t & 3u)) >> 3u), last_group);
  let local = t % kOutputs;
  let local_group = base + min(first_group + (local >> 3u), last_group);
  var tile = rows;
  let row = tile[min(t / kOutputs, kTileRows - 1u)];
  var total = 0.0;
  for (var begin = 0u; begin < op.blocks; begin += kBlocks) {
    multiply_block(group, begin + (t >> 2u), t, rows);
    workgroupBarrier();
    if (t < kOutputs * kTileRows) {
      let end = min((begin + kBlocks) >> 3u, superblocks());
      for (var superblock = begin >> 3u; superblock < end; superblock++) {
        let first = t * kSumStride + 8u * (superblock - (begin >> 3u));
        var sum = Sum();
        for (var i = 0u; i < 8u; i++) {
          sum += block_sums[first + i];
        }
        let least = minima_of(local_group, superblock, local & 7u, row);
        total = add_superblock(total, sum, least, local_group, superblock, local & 7u, row);
        add_superblock_squares(superblock);
      }
    }
    workgroupBarrier();
  }
  return total;
}
