// Which of several ways of doing the same thing is fastest: samples of all of them in turn, and a
// guard against noise. Knows nothing of GPUs.
//
// Times of a GPU that a browser shares with others are not normally distributed: now and then all
// of a round is slow, and a clock that rises makes later rounds faster than earlier ones. So
// candidates are compared within a round only, as the ratio of the default's time to theirs, and
// everything is a median or a quartile. For instance
//
//   default    10    10.2   9.9   20    10       quartiles 10 and 10.2: spread 0.02
//   candidate   8     8.1   8.0   16.5   7.9     quartiles 8.0 and 8.1: spread 0.01
//   ratio       1.25  1.26  1.24   1.21  1.27    median 1.25: gain 0.25, ahead in 5 of 5
//
// wins, although one round took twice as long: 0.25 is more than a tenth, than either spread, and
// it was ahead in at least three of four rounds. Two equal candidates on a device whose times
// spread by a fifth win in at most one of fifty tunings (tune.test.ts).

// Milliseconds that one run took.
export type Sample = () => Promise<number>;

export interface Verdict {
  readonly best: number; // index; 0 is the default
  readonly rounds: number; // complete ones
}

const kMaxRounds = 9;
const kMinRounds = 3; // fewer say nothing
const kMinGain = 0.1;
const kMinShare = 0.75; // of the rounds, in which a winner must be ahead
const kHopeless = 3; // times as slow as the default in the first round: not measured again

function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.round(share * (sorted.length - 1))]!;
}

function sorted(values: readonly number[]): number[] {
  return [...values].sort((a, b) => a - b);
}

// Between the quartiles, as a share of the median.
function spreadOf(times: readonly number[]): number {
  const own = sorted(times);
  return (quantile(own, 0.75) - quantile(own, 0.25)) / quantile(own, 0.5);
}

// How much faster than the default a candidate is, or 0 where that may be noise. Both lists are of
// the same rounds.
export function gainOf(base: readonly number[], own: readonly number[]): number {
  const ratios = base.map((ms, round) => ms / own[round]!);
  const gain = quantile(sorted(ratios), 0.5) - 1;
  const ahead = ratios.filter((ratio) => ratio > 1).length / ratios.length;
  const least = Math.max(kMinGain, spreadOf(base), spreadOf(own));
  return gain > least && ahead >= kMinShare ? gain : 0;
}

// Goes on until `deadline` at the latest, as far as a sample does not take longer than the one
// before. The default stays where too few rounds were made or nothing is clearly faster.
export async function compare(
  samples: readonly Sample[],
  now: () => number,
  deadline: number,
): Promise<Verdict> {
  const times: number[][] = samples.map(() => []);
  let alive = samples.map((_, index) => index);
  let roundMs = 0;
  let rounds = 0;
  for (; rounds < kMaxRounds && now() + roundMs < deadline; ++rounds) {
    const begin = now();
    // Everyone begins a round in turn.
    const order = alive.map((_, place) => alive[(place + rounds) % alive.length]!);
    const own = new Map<number, number>();
    for (const index of order) {
      own.set(index, await samples[index]!());
      if (now() >= deadline && own.size < order.length) return verdict(times, rounds);
    }
    for (const [index, ms] of own) times[index]!.push(ms);
    const base = own.get(0)!;
    alive = alive.filter((index) => own.get(index)! <= kHopeless * base);
    roundMs = now() - begin;
    if (alive.length === 1) return { best: 0, rounds: rounds + 1 };
  }
  return verdict(times, rounds);
}

function verdict(times: readonly number[][], rounds: number): Verdict {
  if (rounds < kMinRounds) return { best: 0, rounds };
  const gains = times.map((own) => (own.length < rounds ? 0 : gainOf(times[0]!, own)));
  const best = Math.max(0, ...gains);
  return { best: best > 0 ? gains.indexOf(best) : 0, rounds };
}
