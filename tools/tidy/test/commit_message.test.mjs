// Messages that the hook takes and refuses, and the hook itself in a repository of its own.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { messageProblems } from "../commit_message.mjs";

const kRoot = fileURLToPath(new URL("../../../", import.meta.url));

test("a subject names modules and says in the imperative what is done", () => {
  for (const subject of ["swarm: keep idle rows", "web/engine, tests: bring back q4s",
    "api: tell n", `docs: ${"x".repeat(66)}`,
    "Merge branch 'a'", "Revert \"Swarm: it\"", "fixup! Any thing."]) {
    assert.deepEqual(messageProblems(`${subject}\n`, []), [], subject);
  }
  for (const [subject, pattern] of [
    [`docs: ${"x".repeat(67)}`, /73 columns, the limit is 72/],
    ["Keep idle rows", /not 'module/], ["swarm:keep", /not 'module/], ["", /not 'module/],
    ["swarm: the rows are kept", /'the' begins no request/],
    ["swarm: keeping idle rows", /'keeping' begins/], ["swarm: added a test", /'added' begins/],
    ["swarm: keep idle rows.", /full stop/],
    ["swarm: keep idle rows\nbecause", /second line/],
  ]) {
    const problems = messageProblems(subject, []);
    assert.equal(problems.length, 1, subject);
    assert.match(problems[0], pattern);
  }
});

test("a change of a format has a body", () => {
  for (const path of ["src/wire/control.proto", "src/wire/version.h", "src/program/program.proto",
    "src/program/ops.json", "src/package/manifest.h"]) {
    const bare = messageProblems("wire: add a field\n\n# a comment\n", ["a.cc", path]);
    assert.match(bare[0], /format/);
    assert.deepEqual(messageProblems("wire: add a field\n\nUpdate workers.\n", [path]), []);
  }
  assert.deepEqual(messageProblems("wire: name a field\n", ["src/wire/frame.h"]), []);
});

test("the hook stops a commit and lets a good one pass", (t) => {
  const folder = mkdtempSync(join(tmpdir(), "weft-hook-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const git = (...args) => execFileSync("git", args, { cwd: folder, stdio: "pipe" });
  mkdirSync(join(folder, "tools/tidy"), { recursive: true });
  cpSync(join(kRoot, ".githooks"), join(folder, ".githooks"), { recursive: true });
  cpSync(join(kRoot, "tools/tidy/commit_message.mjs"),
    join(folder, "tools/tidy/commit_message.mjs"));
  git("init", "-q");
  git("config", "core.hooksPath", ".githooks");
  git("config", "user.name", "tester");
  git("config", "user.email", "tester@example.org");
  writeFileSync(join(folder, "a.txt"), "a\n");
  git("add", "a.txt");
  const refused = spawnSync("git", ["commit", "-m", "Some words."], { cwd: folder });
  assert.notEqual(refused.status, 0);
  assert.match(refused.stderr.toString(), /commit message: the subject is not/);
  git("commit", "-q", "-m", "docs: add a file");
});
