// How many bytes a byte of weights takes in onnxruntime's heap, as far as the heap tells. Its size
// is known and never shrinks; what of it is taken is not. It began with free room, it grows by up
// to a fifth more than was asked for, and building a layer takes room that is free again
// afterwards. For some megabytes of weights all that is more than the weights: the last three
// layers of weft-tiny, 5.2 MB, were seen in 12 and in 18 MB. So a measurement says between which
// two numbers the factor lies, and corrects the guess only where that lies outside; the more is
// loaded, the closer they come.

export interface HeapMeasurement {
  readonly loadedBytes: number; // weights, as in the package
  readonly largestLayerBytes: number; // of these
  readonly heapBytes: number; // what the heap has grown by
  readonly bytesBeforeGrowth: number; // the same before it grew for the last time
  readonly initialBytes: number; // what it began with
}

export function weightFactor(guess: number, measured: HeapMeasurement): number {
  const { loadedBytes, largestLayerBytes, heapBytes, bytesBeforeGrowth, initialBytes } = measured;
  if (loadedBytes === 0) return guess;
  // The last growth may have been for a layer that was held as it came and as what it becomes.
  const buildingBytes = (1 + guess) * largestLayerBytes;
  const least = (bytesBeforeGrowth - buildingBytes) / loadedBytes;
  const most = (heapBytes + initialBytes) / loadedBytes;
  return Math.max(1, Math.min(most, Math.max(least, guess)));
}
