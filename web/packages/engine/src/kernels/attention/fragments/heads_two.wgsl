// A workgroup of attention.wgsl has two heads, whose keys and values are the same.
alias PerHead = vec2<f32>;
alias PairPerHead = vec4<f32>;  // the first column of both heads, then the second

fn first_columns(pairs: PairPerHead) -> PerHead {
  return pairs.xy;
}

fn second_columns(pairs: PairPerHead) -> PerHead {
  return pairs.zw;
}

fn for_both_columns(value: PerHead) -> PairPerHead {
  return value.xyxy;
}

fn for_each_head(pair: vec2<f32>) -> PairPerHead {
  return pair.xxyy;
}

fn with_second_head(pairs: PairPerHead, second: vec2<f32>) -> PairPerHead {
  return vec4(pairs.x, second.x, pairs.z, second.y);
}

fn capped(score: PerHead) -> PerHead {
  return op.softcap * vec2(tanh_of(score.x / op.softcap), tanh_of(score.y / op.softcap));
}

// Of the head that is number `h` of the workgroup's.
fn softmax_of(chunk: Attended, h: u32) -> Softmax {
  return Softmax(chunk.largest[h], chunk.sum[h], vec2(chunk.value[h], chunk.value[2u + h]));
}
