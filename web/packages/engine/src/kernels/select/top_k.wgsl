// The kKeep best of every kList candidates, sorted by falling logit and rising id: run over the
// logits, then over what it left, until one list remains.
var<workgroup> logits: array<f32, kList>;
var<workgroup> ids: array<u32, kList>;

fn load(row: u32, i: u32, slot: u32) {
  logits[slot] = -3.4e38;
  ids[slot] = kNone;
  if (i >= op.count) {
    return;
  }
  if (op.from_logits == 1u) {
    logits[slot] = act[op.in_base + row * op.in_stride + i];
    ids[slot] = i;
  } else {
    ids[slot] = aux[op.in_base + row * op.in_stride + 2u * i];
    logits[slot] = bitcast<f32>(aux[op.in_base + row * op.in_stride + 2u * i + 1u]);
  }
}

fn is_before(a: u32, b: u32) -> bool {
  return logits[a] > logits[b] || (logits[a] == logits[b] && ids[a] < ids[b]);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let row = workgroup.y;
  for (var i = t; i < kList; i += 256u) {
    load(row, workgroup.x * kList + i, i);
  }
  workgroupBarrier();
  for (var run = 2u; run <= kList; run <<= 1u) {
    for (var distance = run >> 1u; distance > 0u; distance >>= 1u) {
      for (var i = t; i < kList / 2u; i += 256u) {
        let a = 2u * i - (i & (distance - 1u));
        let b = a + distance;
        let is_rising = (a & run) == 0u;
        if (is_before(b, a) == is_rising) {
          let logit = logits[a];
          let id = ids[a];
          logits[a] = logits[b];
          ids[a] = ids[b];
          logits[b] = logit;
          ids[b] = id;
        }
      }
      workgroupBarrier();
    }
  }
  let out = op.out_base + row * op.out_stride + 2u * (workgroup.x * kKeep + t);
  aux[out] = ids[t];
  aux[out + 1u] = bitcast<u32>(logits[t]);
}
