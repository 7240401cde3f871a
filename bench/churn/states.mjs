// The swarm's states over time: shares, transitions, rolling shares and the smoothed rate, as
// web-distributed-inference-architecture 6.5 shows them. Times in seconds from a cell's begin.

export const kStates = ["down", "preparing", "repairing", "up"];

// [{state, from, to}] of [{at, state}] until `end`; equal states in a row are one, unless
// `planVersion` differs.
export function spansOf(changes, end) {
  const spans = [];
  for (const { at, state, planVersion } of changes) {
    const last = spans.at(-1);
    if (last && last.state === state && last.planVersion === planVersion) continue;
    if (last) last.to = at;
    spans.push({ state, planVersion, from: at, to: end });
  }
  return spans.filter(({ from, to }) => to > from);
}

function overlap(span, from, to) {
  return Math.max(0, Math.min(span.to, to) - Math.max(span.from, from));
}

// {state: seconds} in [from, to].
export function timeInStates(spans, from, to) {
  const seconds = Object.fromEntries(kStates.map((state) => [state, 0]));
  for (const span of spans) seconds[span.state] += overlap(span, from, to);
  return seconds;
}

// [{state: share}] of the `windowSeconds` before each whole second, or of what there was of them.
export function rollingShares(spans, seconds, windowSeconds) {
  return Array.from({ length: seconds }, (_, i) => {
    const to = i + 1;
    const from = Math.max(0, to - windowSeconds);
    const times = timeInStates(spans, from, to);
    const total = Object.values(times).reduce((a, b) => a + b, 0);
    return Object.fromEntries(kStates.map((state) => [state, total ? times[state] / total : 0]));
  });
}

// [{from, to, seconds (in `from`, before it), count}], by how often they came.
export function transitionsOf(spans) {
  const found = new Map();
  for (let i = 0; i + 1 < spans.length; ++i) {
    const key = `${spans[i].state} ${spans[i + 1].state}`;
    const entry = found.get(key) ??
      { from: spans[i].state, to: spans[i + 1].state, seconds: 0, count: 0 };
    entry.seconds += spans[i].to - spans[i].from;
    ++entry.count;
    found.set(key, entry);
  }
  return [...found.values()].sort((a, b) => b.count - a.count);
}

// Exponentially weighted moving average in which a value of `span` steps ago weighs 1/e^2 of the
// newest: alpha = 2 / (span + 1).
export function ewma(values, span) {
  const alpha = 2 / (span + 1);
  let smooth = values[0] ?? 0;
  return values.map((value) => (smooth += alpha * (value - smooth)));
}
