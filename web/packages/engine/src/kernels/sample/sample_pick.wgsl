// The drawn token, to the next embedding of its seat and into the history; the sampler is left as
// it was before the step. A row with values that are not finite has no token (kNone).
var<workgroup> counts: array<u32, 256>;
var<workgroup> rank: u32;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  begin_row(workgroup.y);
  let is_greedy = has(kFlagGreedy);
  let key = word(kPrefix);
  let chunk = (op.vocabulary + 255u) / 256u;
  let end = min(op.vocabulary, (t + 1u) * chunk);
  if (t == 0u) {
    rank = select(word(kRank), 0u, is_greedy);
  }
  let wanted = workgroupUniformLoad(&rank);
  if (wanted == 0u) {
    if (t == 0u) {
      keep(select(word(kSmallestId), atomicLoad(&aux[own_result]), is_greedy));
    }
  } else {  // not the first of several equal logits
    var count = 0u;
    for (var i = t * chunk; i < end; i++) {
      count += select(0u, 1u, key_of(act[own_logits + i]) == key);
    }
    counts[t] = count;
    workgroupBarrier();
    var before = 0u;
    for (var i = 0u; i < t; i++) {
      before += counts[i];
    }
    if (before <= wanted && wanted < before + count) {
      for (var i = t * chunk; i < end; i++) {
        if (key_of(act[own_logits + i]) != key) {
          continue;
        }
        if (before == wanted) {
          keep(i);
        }
        before++;
      }
    }
  }
  if (is_greedy) {
    return;
  }
  for (var i = 0u; i < kBinWords; i++) {
    put(kBins + kBinWords * t + i, 0u);
  }
  if (t == 0u) {
    put_wide(kMass, vec2(0u, 0u));
    put_wide(kMinPMass, vec2(0u, 0u));
  }
}

fn keep(drawn: u32) {
  let token = select(drawn, kNone, atomicLoad(&aux[own_result + 5u]) > 0u);
  atomicStore(&aux[op.chain_at + row_word(own_row, kRowSeat)], token);
  if (step[kStepHistorySlot] != kNone) {
    atomicStore(&aux[op.history_at + step[kStepHistorySlot] + own_row], token);
  }
  if (token < op.vocabulary && has(kFlagCounted)) {
    atomicAdd(&aux[own_sampler + kStateWords + token], 1u);
  }
}
