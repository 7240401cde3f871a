// The drawn token, to the next embedding and into the history; the sampler is left as it was before
// the step. A row with values that are not finite has no token (kNone).
var<workgroup> counts: array<u32, 256>;
var<workgroup> rank: u32;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) t: u32) {
  let is_greedy = (word(kFlags) & kFlagGreedy) != 0u;
  let key = word(kPrefix);
  let chunk = (op.vocabulary + 255u) / 256u;
  let end = min(op.vocabulary, (t + 1u) * chunk);
  if (t == 0u) {
    rank = select(word(kRank), 0u, is_greedy);
  }
  let wanted = workgroupUniformLoad(&rank);
  if (wanted == 0u) {
    if (t == 0u) {
      keep(select(word(kSmallestId), atomicLoad(&aux[op.result_at]), is_greedy));
    }
  } else {  // not the first of several equal logits
    var count = 0u;
    for (var i = t * chunk; i < end; i++) {
      count += select(0u, 1u, key_of(act[op.logits_base + i]) == key);
    }
    counts[t] = count;
    workgroupBarrier();
    var before = 0u;
    for (var i = 0u; i < t; i++) {
      before += counts[i];
    }
    if (before <= wanted && wanted < before + count) {
      for (var i = t * chunk; i < end; i++) {
        if (key_of(act[op.logits_base + i]) != key) {
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
  let token = select(drawn, kNone, atomicLoad(&aux[op.result_at + 5u]) > 0u);
  atomicStore(&aux[op.chain_at], token);
  if (step[kStepHistorySlot] != kNone) {
    atomicStore(&aux[op.history_at + step[kStepHistorySlot]], token);
  }
  if (token < op.vocabulary && (word(kFlags) & kFlagCounted) != 0u) {
    atomicAdd(&aux[op.sampler_at + kStateWords + token], 1u);
  }
}
