// Weights in f16, 2 a word: a vec4<u32> is a piece of 8 columns of a row. Needs no shader-f16:
// sums are f32 anyway.

fn widened(words: vec4<u32>) -> Eight {
  return Eight(vec4(unpack2x16float(words.x), unpack2x16float(words.y)),
               vec4(unpack2x16float(words.z), unpack2x16float(words.w)));
}
