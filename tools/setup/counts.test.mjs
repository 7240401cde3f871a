// What each runner's report counts as, on reports written as those runners write them.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  countGtestReport,
  countPrograms,
  countTap,
  countVitest,
  finishStep,
  mayBeSkipped,
  unlisted,
} from "./counts.mjs";

const numbers = ({ passed, failed, skipped }) => [passed, failed, skipped];

test("GoogleTest: passed, failed, skipped and disabled", () => {
  const counts = countGtestReport({
    testsuites: [{
      name: "Suite",
      testsuite: [
        { name: "A", status: "RUN", result: "COMPLETED" },
        { name: "B", status: "RUN", result: "COMPLETED", failures: [{ failure: "x" }] },
        { name: "C", status: "RUN", result: "SKIPPED" },
        { name: "DISABLED_D", status: "NOTRUN", result: "SUPPRESSED" },
      ],
    }],
  });
  assert.deepEqual(numbers(counts), [1, 1, 2]);
  assert.deepEqual(counts.skippedNames, ["Suite.C", "Suite.DISABLED_D"]);
});

test("CTest: a program that crashed is a failure although its report is clean or missing", () => {
  const junit = `<testsuite>
    <testcase name="base" classname="base" time="1" status="run"><system-out/></testcase>
    <testcase name="onnx" classname="onnx" time="1" status="fail"><failure message=""/></testcase>
    <testcase name="text" classname="text" time="1" status="fail"><failure message=""/></testcase>
  </testsuite>`;
  const reports = {
    base_test: { passed: 3, failed: 0, skipped: 0 },
    text_test: { passed: 1, failed: 2, skipped: 0 },
  };
  assert.deepEqual(numbers(countPrograms(junit, reports)), [4, 3, 0]);
});

test("vitest: counts, and a file that does not load", () => {
  const counts = countVitest({
    numPassedTests: 2, numFailedTests: 0, numPendingTests: 1, numTodoTests: 0,
    testResults: [
      { status: "passed", assertionResults: [{ status: "pending", fullName: "a b" }] },
      { status: "failed", assertionResults: [] },
    ],
  });
  assert.deepEqual(numbers(counts), [2, 1, 1]);
  assert.deepEqual(counts.skippedNames, ["a b"]);
});

test("TAP: the totals of node --test", () => {
  const counts = countTap("ok 1 - a\nok 2 - b # SKIP no GPU\n# tests 4\n# pass 2\n# fail 1\n" +
    "# cancelled 0\n# skipped 1\n");
  assert.deepEqual(numbers(counts), [2, 1, 1]);
  assert.deepEqual(counts.skippedNames, ["b: no GPU"]);
});

test("a step's exit status and its counts must agree", () => {
  assert.deepEqual(numbers(finishStep(undefined, 0)), [1, 0, 0]);
  assert.deepEqual(numbers(finishStep(undefined, 2)), [0, 1, 0]);
  assert.deepEqual(numbers(finishStep(undefined, 77, "fuzz")), [0, 0, 1]);
  assert.deepEqual(finishStep(undefined, 77, "fuzz").skippedNames, ["step fuzz"]);
  assert.deepEqual(numbers(finishStep({ passed: 5, failed: 0, skipped: 0 }, 1)), [5, 1, 0]);
  assert.deepEqual(numbers(finishStep({ passed: 5, failed: 2, skipped: 1 }, 1)), [5, 2, 1]);
});

test("a skip that the documents do not list is a failure", () => {
  const guide = "# Testing\n## What may be skipped\n\n| test | what is missing |\n|---|---|\n" +
    "| `Net.Ipv6*` | IPv6 |\n| `a (b)` | a GPU |\n\n## Next\n\n| `Other` | no |\n";
  const names = ["Net.Ipv6Loopback", "a (b)", "a b", "Other"];
  assert.deepEqual(unlisted(names, mayBeSkipped(guide)), ["a b", "Other"]);
  assert.deepEqual(unlisted(names, mayBeSkipped("# Testing\n")), names);
});
