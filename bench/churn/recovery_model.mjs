// What a loss should cost, by a model that is simple enough to be argued with: noticing + loading +
// replay + one token. Its numbers are measured in the same cell before anything fails.
import { sum } from "../lib/statistics.mjs";

// A reset connection is noticed at once. Silence while an answer waits: a ping after 100 ms, and
// 150 ms without a byte (docs/fault-tolerance.md).
const kNoticeMs = { kill: 0, cut: 0, stop: 250, silent: 250 };

// The time from the last token to the next one after `failure`:
//   lostShare   part of the model's layers (by weight bytes) that went with the worker
//   lostBytes   their weights
//   rows        positions of the session that lived
//   standby     somebody had the layers loaded already
//   belowNeed   too few workers are left; what counts begins when the worker returns
// `measured`: {medianMs, rowMs (of all layers), loadMsPerByte, joinMs}.
export function recoveryMs(failure, measured) {
  const { kind, lostShare, lostBytes, rows, standby, belowNeed } = failure;
  const noticeMs = belowNeed ? measured.joinMs : kNoticeMs[kind];
  const loadMs = standby && !belowNeed ? 0 : lostBytes * measured.loadMsPerByte;
  return noticeMs + loadMs + rows * measured.rowMs * lostShare + measured.medianMs;
}

// The outages that all failures of a cell should have made: waits below the threshold are none.
export function modelledDownMs(failures, measured, thresholdMs) {
  return sum(failures.map((failure) => recoveryMs(failure, measured))
    .filter((ms) => ms > thresholdMs));
}

// How long loading took for a byte, from {first, end, ms} of stages that were prepared.
export function loadRate(prepares, layerBytes) {
  const done = prepares.filter(({ ms }) => ms !== null);
  const bytes = sum(done.map(({ first, end }) => sum(layerBytes.slice(first, end))));
  return bytes > 0 ? sum(done.map(({ ms }) => ms)) / bytes : 0;
}
