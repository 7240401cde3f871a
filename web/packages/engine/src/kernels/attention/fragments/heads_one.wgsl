// A workgroup of attention.wgsl has one head.
alias PerHead = f32;
alias PairPerHead = vec2<f32>;  // two columns

fn first_columns(pairs: PairPerHead) -> PerHead {
  return pairs.x;
}

fn second_columns(pairs: PairPerHead) -> PerHead {
  return pairs.y;
}

fn for_both_columns(value: PerHead) -> PairPerHead {
  return vec2(value);
}

fn for_each_head(pair: vec2<f32>) -> PairPerHead {
  return pair;
}

fn with_second_head(pairs: PairPerHead, second: vec2<f32>) -> PairPerHead {
  return pairs;  // there is none
}

fn capped(score: PerHead) -> PerHead {
  return op.softcap * tanh_of(score / op.softcap);
}

// Of the head that is number `h` of the workgroup's.
fn softmax_of(chunk: Attended, h: u32) -> Softmax {
  return Softmax(chunk.largest, chunk.sum, chunk.value);
}
