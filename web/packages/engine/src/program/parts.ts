// Where the bytes of a weight lie: pieces of blobs, one after the other.
import type { Part } from "./ir.ts";

// Bytes [begin, end) of what the parts hold one after the other.
export function cut(parts: readonly Part[], begin: number, end: number): Part[] {
  const taken: Part[] = [];
  let at = 0; // where the part begins
  for (const { digest, offset, byteCount } of parts) {
    const from = Math.max(begin, at);
    const to = Math.min(end, at + byteCount);
    if (from < to) taken.push({ digest, offset: offset + from - at, byteCount: to - from });
    at += byteCount;
  }
  return taken;
}
