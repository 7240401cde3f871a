// Reads what test runners wrote and counts cases. The commands of tools/setup/*.sh use it:
//   gtest FOLDER    GoogleTest's *.json and ctest.xml -> counts on stdout
//   vitest FILE     vitest's JSON report              -> counts
//   tap FILE        node --test's TAP report          -> counts
//   step FILE STATUS   completes FILE from the step's exit status, prints a phrase for people
//   total FOLDER    sum of all steps, last line "N passed, N failed, N skipped"; 1 on failure
// A test may be skipped for what a machine lacks, and only where docs/testing.md lists it.
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

const kSkippedStatus = 77;
const none = () => ({ passed: 0, failed: 0, skipped: 0, skippedNames: [] });
const readJson = (path) => JSON.parse(readFileSync(path, "utf8"));

// One report of GoogleTest 1.12: {testsuites: [{testsuite: [{name, result, failures?}]}]}.
export function countGtestReport(report) {
  const counts = none();
  for (const suite of report.testsuites ?? []) {
    for (const test of suite.testsuite ?? []) {
      if (test.failures?.length > 0) counts.failed += 1;
      else if (test.result === "SKIPPED" || test.status === "NOTRUN") {
        counts.skipped += 1;
        counts.skippedNames.push(`${suite.name}.${test.name}`);
      } else counts.passed += 1;
    }
  }
  return counts;
}

// A program that ended badly without a failed case in its report (a crash, a time limit) is one
// failure more: ctest.xml knows about it. `reports` is {program name: counts}.
export function countPrograms(junit, reports) {
  const sum = none();
  for (const counts of Object.values(reports)) add(sum, counts);
  for (const [, name, inner] of junit.matchAll(/<testcase name="([^"]*)"([\s\S]*?)<\/testcase>/g)) {
    const ended = /status="(\w+)"/.exec(inner)?.[1];
    if (ended !== "run" && !(reports[`${name}_test`]?.failed > 0)) sum.failed += 1;
  }
  return sum;
}

function countGtest(folder) {
  const reports = {};
  for (const name of readdirSync(folder).filter((entry) => entry.endsWith(".json"))) {
    reports[name.slice(0, -5)] = countGtestReport(readJson(join(folder, name)));
  }
  const junit = join(folder, "ctest.xml");
  return countPrograms(existsSync(junit) ? readFileSync(junit, "utf8") : "", reports);
}

export function countVitest(report) {
  const counts = none();
  counts.passed = report.numPassedTests;
  counts.failed = report.numFailedTests;
  counts.skipped = report.numPendingTests + (report.numTodoTests ?? 0);
  // A file that does not even load has no tests to fail.
  for (const file of report.testResults ?? []) {
    if (file.status === "failed" && file.assertionResults.length === 0) counts.failed += 1;
    for (const test of file.assertionResults) {
      if (["pending", "skipped"].includes(test.status)) counts.skippedNames.push(test.fullName);
    }
  }
  return counts;
}

export function countTap(text) {
  const number = (word) => Number(new RegExp(`^# ${word} (\\d+)$`, "m").exec(text)?.[1] ?? 0);
  const counts = none();
  counts.passed = number("pass");
  counts.failed = number("fail") + number("cancelled");
  counts.skipped = number("skipped") + number("to" + "do");
  for (const [, name, reason] of text.matchAll(/^\s*ok \d+ - (.*?) # SKIP *(.*)$/gm))
    counts.skippedNames.push(reason ? `${name}: ${reason}` : name);
  return counts;
}

function add(sum, counts) {
  sum.passed += counts.passed;
  sum.failed += counts.failed;
  sum.skipped += counts.skipped;
  sum.skippedNames.push(...(counts.skippedNames ?? []));
}

// What a step counted, made to agree with how it ended.
export function finishStep(counts, status, name) {
  if (status === kSkippedStatus) return { ...none(), skipped: 1, skippedNames: [`step ${name}`] };
  const result = counts ?? none();
  if (status !== 0 && result.failed === 0) result.failed = 1;
  if (status === 0 && result.passed + result.failed + result.skipped === 0) result.passed = 1;
  return result;
}

function phrase(counts) {
  const parts = [`${counts.passed} passed`];
  if (counts.failed > 0) parts.push(`${counts.failed} FAILED`);
  if (counts.skipped > 0) parts.push(`${counts.skipped} skipped`);
  return parts.join(", ");
}

function step(path, status) {
  let counts;
  try {
    counts = readJson(path);
  } catch {
    // The step did not count, or died before it could.
  }
  const result = finishStep(counts, status, basename(path, ".json"));
  writeFileSync(path, JSON.stringify(result));
  return phrase(result);
}

// The patterns of "What may be skipped" in docs/testing.md: the first column of its table, where
// `*` stands for anything. A test of Node is "name: why it is skipped".
export function mayBeSkipped(text) {
  const section = /^## What may be skipped$([\s\S]*?)(?=^## |(?![\s\S]))/m.exec(text)?.[1] ?? "";
  const plain = (word) => word.replace(/[.+?^${}()|[\]\\]/g, "\\$&");
  return [...section.matchAll(/^\| `([^`]+)` \|/gm)].map(
    ([, pattern]) => new RegExp(`^${pattern.split("*").map(plain).join(".*")}$`),
  );
}

export function unlisted(names, patterns) {
  return names.filter((name) => !patterns.some((pattern) => pattern.test(name)));
}

function total(folder) {
  const sum = none();
  for (const name of readdirSync(folder).filter((entry) => entry.endsWith(".json"))) {
    if (name === "vitest.json") continue;
    add(sum, readJson(join(folder, name)));
  }
  if (sum.skippedNames.length > 0) {
    console.log(`skipped: ${sum.skippedNames.slice(0, 30).join(", ")}` +
      (sum.skippedNames.length > 30 ? `, and ${sum.skippedNames.length - 30} more` : ""));
  }
  const guide = fileURLToPath(new URL("../../docs/testing.md", import.meta.url));
  const wrong = unlisted(sum.skippedNames, mayBeSkipped(readFileSync(guide, "utf8")));
  if (wrong.length > 0) {
    console.log(`skipped, and not listed in docs/testing.md: ${wrong.join(", ")}`);
    sum.failed += wrong.length;
    sum.skipped -= wrong.length;
  }
  console.log(`${sum.passed} passed, ${sum.failed} failed, ${sum.skipped} skipped`);
  process.exitCode = sum.failed > 0 || sum.passed === 0 ? 1 : 0;
}

function main([command, path, status]) {
  const print = (counts) => console.log(JSON.stringify(counts));
  if (command === "gtest") print(countGtest(path));
  // No report means that the runner did not start: the step's status says so.
  else if (!existsSync(path) && command !== "step") print(none());
  else if (command === "vitest") print(countVitest(readJson(path)));
  else if (command === "tap") print(countTap(readFileSync(path, "utf8")));
  else if (command === "step") console.log(step(path, Number(status)));
  else if (command === "total") total(path);
  else throw new Error(`counts.mjs: unknown command ${command}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main(process.argv.slice(2));
