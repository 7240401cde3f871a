// `weft sim --cluster`: what somebody sees who tries the rules for several servers.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";

const sim = (...args) => spawnSync(process.env.WEFT, ["sim", ...args], { encoding: "utf8" });

test("a run says how often cells were taken, and how long workers waited", () => {
  const { status, stdout } = sim("--cluster", "--faults", "kill", "--seed", "1", "--seeds", "5");
  assert.equal(status, 0, stdout);
  assert.match(stdout, /^kill: 5 seeds, 0 with violations, cells taken \d+ times a run/);
  assert.match(stdout, /^ {2}kills: \d+, all workers at their leader after 0\.\d\d s p50/m);
});

test("the same seed replays the same run", () => {
  const args = ["--cluster", "--faults", "reject", "--seed", "7", "--seeds", "3", "--verbose"];
  const { stdout } = sim(...args);
  assert.match(stdout, /^seed 7: \d+ faults, \d+ takes, \d+ moves of workers: ok$/m);
  assert.equal(sim(...args).stdout, stdout);
});

test("with faults of the database alone each cell is taken once", () => {
  const { stdout } = sim("--cluster", "--faults", "db", "--seeds", "20", "--verbose");
  const takes = [...stdout.matchAll(/, (\d+) takes,/g)].map(([, count]) => Number(count));
  assert.equal(takes.length, 20);
  assert.ok(takes.every((count) => count === 1 || count === 2), stdout);
});

test("unknown faults, and faults without servers, are refused with what there is", () => {
  const unknown = sim("--cluster", "--faults", "rain");
  assert.equal(unknown.status, 2);
  assert.match(unknown.stderr, /rain not in \{all,reject,db,kill,loss,relay\}/);
  const alone = sim("--faults", "db");
  assert.equal(alone.status, 2);
  assert.match(alone.stderr, /--faults requires --cluster/);
});
