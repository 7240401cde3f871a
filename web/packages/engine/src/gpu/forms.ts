// What of a device's WebGPU decides which forms of weights it can multiply, before there is a
// device.
import { DType } from "../program/ir.ts";

// Products of bytes in words of four: dot4I8Packed.
export function hasIntegerDots(gpu: GPU | undefined): boolean {
  return gpu?.wgslLanguageFeatures?.has("packed_4x8_integer_dot_product") ?? false;
}

// Those beside f32, f16, bf16, q8 and q4.
export function moreForms(gpu: GPU | undefined): readonly number[] {
  return hasIntegerDots(gpu) ? [DType.q4s, DType.q4k, DType.q5k, DType.q6k] : [];
}
