// Element types of payloads. The numbers are those of src/tensor/dtype.h.

export const DType = { f32: 0, f16: 1, bf16: 2, i32: 3 } as const;
export type DType = (typeof DType)[keyof typeof DType];

const kNames = ["f32", "f16", "bf16", "i32"] as const;
const kBytes = [4, 2, 2, 4] as const;

export function isDType(value: number): value is DType {
  return Number.isInteger(value) && value >= 0 && value < kNames.length;
}

export function dtypeName(dtype: DType): string {
  return kNames[dtype];
}

export function dtypeFromName(name: string): DType | undefined {
  const index = (kNames as readonly string[]).indexOf(name);
  return isDType(index) ? index : undefined;
}

export function elementBytes(dtype: DType): number {
  return kBytes[dtype];
}
