// Numbers that benches share: order statistics, and randomness that one seed replays.

export function median(values) {
  return percentile(values, 50);
}

// Nearest rank: the smallest value that at least `percent` of all do not exceed. NaN of nothing.
export function percentile(values, percent) {
  if (values.length === 0) return NaN;
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)];
}

export function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}

export function mean(values) {
  return values.length === 0 ? NaN : sum(values) / values.length;
}

// Uniform in [0, 1): splitmix32.
export function seededRandom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = state ^ (state >>> 16);
    mixed = Math.imul(mixed, 0x21f0aaad);
    mixed ^= mixed >>> 15;
    mixed = Math.imul(mixed, 0x735a2d97);
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32;
  };
}

// The time to the next event of a Poisson process.
export function exponential(random, mean) {
  return -mean * Math.log(1 - random());
}

export function shuffled(values, random) {
  const out = [...values];
  for (let at = out.length - 1; at > 0; --at) {
    const other = Math.floor(random() * (at + 1));
    [out[at], out[other]] = [out[other], out[at]];
  }
  return out;
}

// Rounded for tables and JSON; null where there is no number.
export function rounded(value, digits = 1) {
  return Number.isFinite(value) ? Number(value.toFixed(digits)) : null;
}
