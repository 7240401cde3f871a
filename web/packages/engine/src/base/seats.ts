// Sessions that one batch of whole-model decoding takes at most (run/tokenLoop.ts).
export const kMaxSeats = 32;
