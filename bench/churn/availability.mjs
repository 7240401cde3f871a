// What a client's clock says about a swarm: waits between tokens, which of them were outages, how
// much of the time was lost to them, and how long it took after each failure. Pure arithmetic on
// times in ms.
import { median, sum } from "../lib/statistics.mjs";

// Every wait of the client in [window.from, window.to]: {begin, from, to, first}. A wait for a
// request's first token counts from when it would have come in a quiet swarm (`from`); `begin` is
// when the request was sent. `requests`: [{sentAt, tokens: [time], endedAt (null: goes on)}] in
// order; where one broke off (`failed`), the wait goes on until the next one's first token.
export function waitsOf(requests, window, quietFirstMs) {
  const waits = [];
  let brokenAt = null;
  for (const { sentAt, tokens, endedAt, failed } of requests) {
    let open = brokenAt === null
      ? { begin: sentAt, from: sentAt + quietFirstMs, first: true }
      : { begin: brokenAt, from: brokenAt, first: true };
    for (const at of tokens) {
      waits.push({ ...open, to: at });
      open = { begin: at, from: at, first: false };
    }
    brokenAt = failed ? open.begin : null;
    if (endedAt === null) waits.push({ ...open, to: window.to });
  }
  if (brokenAt !== null) {
    waits.push({ begin: brokenAt, from: brokenAt, to: window.to, first: true });
  }
  return waits
    .map((wait) => ({ ...wait, from: Math.max(wait.from, window.from),
      to: Math.min(wait.to, window.to) }))
    .filter(({ from, to }) => to > from);
}

// Fewer times between tokens than this have no median worth the name.
const kFewGaps = 20;

// The median time between tokens of one request; `quietMs` where hardly any token came.
export function medianGapMs(requests, quietMs) {
  const gaps = requests.flatMap(({ tokens }) => tokens.slice(1).map((at, i) => at - tokens[i]));
  return gaps.length < kFewGaps ? quietMs : median(gaps);
}

// A wait that is longer than this is an outage.
export function outageThresholdMs(medianMs) {
  return Math.max(5 * medianMs, medianMs + 50);
}

export function outagesOf(waits, medianMs) {
  const limitMs = outageThresholdMs(medianMs);
  return waits.filter(({ from, to }) => to - from > limitMs);
}

// [{from, to}] without overlaps, in order.
export function union(intervals) {
  const out = [];
  for (const { from, to } of [...intervals].sort((a, b) => a.from - b.from)) {
    if (out.length > 0 && from <= out.at(-1).to) out.at(-1).to = Math.max(out.at(-1).to, to);
    else out.push({ from, to });
  }
  return out;
}

export function lengthMs(intervals) {
  return sum(union(intervals).map(({ from, to }) => to - from));
}

// Where both hold.
export function intersection(some, others) {
  const out = [];
  for (const a of union(some)) {
    for (const b of union(others)) {
      const [from, to] = [Math.max(a.from, b.from), Math.min(a.to, b.to)];
      if (to > from) out.push({ from, to });
    }
  }
  return out;
}

// When at least `needed` of `workers` were there; `absences`: [{from, to}] of single workers.
export function possibleTimes(absences, workers, needed, window) {
  const cuts = [window.from, window.to];
  for (const { from, to } of absences) cuts.push(from, to);
  const times = [...new Set(cuts)].filter((at) => at >= window.from && at <= window.to)
    .sort((a, b) => a - b);
  const out = [];
  for (let i = 0; i + 1 < times.length; ++i) {
    const middle = (times[i] + times[i + 1]) / 2;
    const away = absences.filter(({ from, to }) => from <= middle && middle < to).length;
    if (workers - away >= needed) out.push({ from: times[i], to: times[i + 1] });
  }
  return union(out);
}

// Shares of the window: {availability, possible, ofPossible (of the possible time), downMs (within
// the possible time)}.
export function sharesOf(outages, possible, window) {
  const windowMs = window.to - window.from;
  const possibleMs = lengthMs(possible);
  const downMs = lengthMs(intersection(outages, possible));
  return {
    availability: 1 - lengthMs(outages) / windowMs,
    possible: possibleMs / windowMs,
    ofPossible: possibleMs > 0 ? 1 - downMs / possibleMs : null,
    downMs,
  };
}

// Tokens that were on their way when a worker failed still arrive: the wait that the failure made
// begins so long after it at most.
const kStillArrivingMs = 250;

// The wait that a failure at `atMs` made: the longest that it fell into or that began soon after.
function waitAfter(atMs, waits) {
  const candidates = waits.filter(
    ({ begin, to }) => begin <= atMs + kStillArrivingMs && to > atMs);
  return candidates.reduce(
    (longest, wait) => (!longest || wait.to - wait.from > longest.to - longest.from
      ? wait : longest), null);
}

// Of each failure that met a worker with a part: {failure, ms} from the last token before to the
// first one after. Left out: failures within the wait of an earlier one, and waits in which too few
// workers were there, which no swarm could have shortened.
export function takeoversOf(failures, waits, possible) {
  const taken = new Set();
  const out = [];
  for (const failure of failures) {
    const wait = waitAfter(failure.atMs, waits);
    if (!wait || taken.has(wait)) continue;
    taken.add(wait);
    const whole = { from: wait.begin, to: wait.to };
    if (lengthMs(intersection([whole], possible)) < wait.to - wait.begin - 1e-6) continue;
    out.push({ failure, ms: wait.to - wait.from });
  }
  return out;
}

// Outages that no loss explains: the machine was busy, or the swarm stopped for another reason.
export function unexplained(outages, losses, possible) {
  return outages.filter(({ begin, from, to }) =>
    !losses.some(({ atMs }) => atMs >= begin - kStillArrivingMs && atMs < to) &&
    lengthMs(intersection([{ from, to }], possible)) > to - from - 1e-6);
}

// Tokens in each whole second of the window.
export function tokensEachSecond(requests, window) {
  const out = new Array(Math.ceil((window.to - window.from) / 1000 - 1e-6)).fill(0);
  for (const { tokens } of requests) {
    for (const at of tokens) {
      if (at >= window.from && at < window.to) ++out[Math.floor((at - window.from) / 1000)];
    }
  }
  return out;
}
