// Figures of a cell from what happened in it (run_cell.mjs), its line of JSON and its bars.
import { percentile, rounded, sum } from "../lib/statistics.mjs";
import {
  intersection, lengthMs, medianGapMs, outageThresholdMs, outagesOf, possibleTimes, sharesOf,
  takeoversOf, tokensEachSecond, unexplained, waitsOf,
} from "./availability.mjs";
import { availabilityBar } from "./cells.mjs";
import { modelledDownMs } from "./recovery_model.mjs";

// Downtime may exceed what the model of loading and replay gives by this.
const kModelSlack = 1.1;

// What the recovery model has to know of a failure that met a worker with a part.
function lossOf(failure, cell, layerBytes) {
  const [first, end] = failure.layers;
  const lostBytes = sum(layerBytes.slice(first, end));
  return {
    kind: failure.kind, rows: failure.rows, standby: failure.standby, lostBytes,
    lostShare: lostBytes / sum(layerBytes),
    belowNeed: failure.healthyBefore - 1 < cell.needed,
  };
}

function relative(at, window) {
  return rounded((at - window.from) / 1000, 3);
}

// What there is to say of the requests' ends; a refused one was never accepted.
function endsOf(requests, hung) {
  const refused = requests.filter((request) => request.refused).length;
  return {
    requests: requests.length - refused,
    refused,
    lost: requests.filter((request) => request.failed && !request.refused).length,
    hung,
    wrong: requests.filter(({ wrongAt }) => wrongAt !== null).length,
    errors: [...new Set(requests.map(({ error }) => error).filter(Boolean))],
  };
}

function seriesOf(happened, outages) {
  const { window, states, failures, requests } = happened;
  return {
    outages: outages.map(({ from, to }) => [relative(from, window), relative(to, window)]),
    tokens_each_second: tokensEachSecond(requests, window),
    states: states.filter(({ at }) => at < window.to)
      .map(({ at, state, planVersion }) => ({ at: relative(at, window), state, planVersion })),
    failures: failures.map(({ atMs, kind, worker, layers, standby, downMs, rows }) => ({
      at: relative(atMs, window), kind, worker, layers, standby, rows,
      down_s: rounded(downMs / 1000, 2) })),
  };
}

// The line of JSON of a cell: figures, and the series that plot.mjs draws.
export function reportOf(cell, happened, seed) {
  const { window, requests, failures, quiet, layerBytes } = happened;
  const medianMs = medianGapMs(requests, quiet.gapMs);
  // What began within the window may end behind it.
  const whole = { from: window.from, to: happened.endedAt };
  const waits = waitsOf(requests, whole, quiet.firstMs);
  const possible = possibleTimes(happened.absences, cell.workers, cell.needed, whole);
  const outages = intersection(outagesOf(waits, medianMs), [window]);
  const possibleInWindow = intersection(possible, [window]);
  const shares = sharesOf(outages, possibleInWindow, window);
  const losses = failures.filter(({ layers }) => layers !== null);
  const modelMs = modelledDownMs(losses.map((each) => lossOf(each, cell, layerBytes)),
    { ...quiet, medianMs }, outageThresholdMs(medianMs));
  const tokenCount = sum(tokensEachSecond(requests, window));
  return {
    cell: cell.name, model: cell.model, needed: cell.needed, workers: cell.workers,
    mode: cell.failures, prompt_tokens: cell.promptTokens, answer_tokens: cell.answerTokens,
    seconds: cell.seconds, seed, stages: happened.stages,
    quiet: { median_ms: rounded(medianMs, 2), first_ms: rounded(quiet.firstMs, 1),
      row_ms: rounded(quiet.rowMs, 3), load_ms_per_mb: rounded(quiet.loadMsPerByte * 1e6, 2),
      join_ms: rounded(quiet.joinMs, 0) },
    availability: rounded(shares.availability, 4),
    possible: rounded(shares.possible, 4),
    of_possible: rounded(shares.ofPossible, 4),
    bar: availabilityBar(cell),
    down_s: rounded(shares.downMs / 1000, 2),
    model_down_s: rounded(modelMs / 1000, 2),
    unexplained_s: rounded(lengthMs(intersection(
      unexplained(outagesOf(waits, medianMs), losses, possible), [window])) / 1000, 2),
    longest_outage_s: rounded(Math.max(0, ...intersection(outages, possibleInWindow)
      .map(({ from, to }) => to - from)) / 1000, 2),
    failures_met: failures.length,
    losses: losses.length,
    takeovers: takeoversOf(losses, waits, possible).map(({ failure, ms }) => ({
      kind: failure.kind, standby: failure.standby, ms: rounded(ms, 1) })),
    rows_recomputed_per_loss:
      losses.length > 0 ? rounded(happened.recomputedRows / losses.length, 1) : null,
    tokens_per_s: rounded((tokenCount * 1000) / (window.to - window.from), 1),
    ...endsOf(requests, happened.hung),
    unexpected_ends: happened.unexpectedEnds,
    cpu_waiting: happened.cpuWaiting,
    series: seriesOf(happened, outages),
  };
}

// "p50 / p99 (n)" of the takeovers of a kind, in ms.
function spread(takeovers) {
  if (takeovers.length === 0) return "-";
  const ms = takeovers.map((takeover) => takeover.ms);
  const [half, worst] = [percentile(ms, 50), percentile(ms, 99)].map((value) => value.toFixed(0));
  return `${half} / ${worst} (${ms.length})`;
}

export function tableRow(report) {
  const of = (kind) => spread(report.takeovers.filter((takeover) => takeover.kind === kind));
  return {
    cell: report.cell,
    "possible %": rounded(report.possible * 100, 1),
    "available %": rounded(report.availability * 100, 2),
    "of possible %": rounded(report.of_possible * 100, 2),
    "down s": report.down_s,
    "model s": report.model_down_s,
    "unexplained s": report.unexplained_s,
    losses: `${report.losses}/${report.failures_met}`,
    kill: of("kill"), stop: of("stop"), silent: of("silent"), cut: of("cut"),
    "rows/loss": report.rows_recomputed_per_loss,
    "tokens/s": report.tokens_per_s,
    "refused/lost/hung/wrong":
      [report.refused, report.lost, report.hung, report.wrong].join("/"),
  };
}

// Takeovers of all cells: with and without a standby, by kind.
export function takeoverRows(reports) {
  const all = reports.flatMap(({ takeovers }) => takeovers);
  const rows = [];
  for (const kind of new Set(all.map((takeover) => takeover.kind))) {
    for (const standby of [true, false]) {
      const some = all.filter((each) => each.kind === kind && each.standby === standby);
      if (some.length > 0) rows.push({ kind, standby, "p50 / p99 ms (count)": spread(some) });
    }
  }
  return rows;
}

// Bars that a cell misses, a sentence each.
export function missedBars(report) {
  const missed = [];
  const share = (value) => `${(value * 100).toFixed(2)}%`;
  if (report.bar !== null && report.of_possible < report.bar) {
    missed.push(`available for ${share(report.of_possible)} of what was possible, at least ` +
      `${share(report.bar)} expected`);
  }
  const judged = report.bar === null && !report.cell.startsWith("tabs");
  if (judged && report.down_s > kModelSlack * report.model_down_s) {
    missed.push(`${report.down_s} s down, the model of loading and replay gives ` +
      `${report.model_down_s} s`);
  }
  for (const what of ["lost", "hung", "wrong"]) {
    if (report[what] > 0) missed.push(`${report[what]} ${what}: ${report.errors.join("; ")}`);
  }
  return missed.map((sentence) => `${report.cell}: ${sentence}`);
}

// Bars over the takeovers of all cells but those of tabs.
export function missedTakeovers(reports) {
  const all = reports.filter(({ cell }) => !cell.startsWith("tabs"))
    .flatMap(({ takeovers }) => takeovers);
  const missed = [];
  const judge = (name, some, percent, limitMs) => {
    const value = percentile(some.map(({ ms }) => ms), percent);
    if (value > limitMs) {
      missed.push(`takeover ${name}: p${percent} ${value.toFixed(0)} ms, at most ${limitMs}`);
    }
  };
  const hotKills = all.filter(({ kind, standby }) => kind === "kill" && standby);
  judge("after SIGKILL with a standby", hotKills, 50, 100);
  judge("after SIGKILL with a standby", hotKills, 99, 500);
  judge("after silent loss", all.filter(({ kind }) => kind === "stop"), 99, 1500);
  return missed;
}
