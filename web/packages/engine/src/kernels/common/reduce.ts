// Sums and maxima over a workgroup, of f32 or of several values a thread.
import reduce from "./fragments/reduce.wgsl?raw";

export function reduceOf(type: "f32" | "vec2<f32>"): string {
  return `alias Reduced = ${type};\n${reduce}`;
}
