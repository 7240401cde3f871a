// Rules about which files may be in git, and that the tree rule list is wired to the program.
import assert from "node:assert/strict";
import { test } from "node:test";
import { checkTree } from "../tidy.mjs";
import { fakeFile, problemsOf } from "./helpers.mjs";

const required = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md",
  "LICENSE", "dev", ".ci/run"];
const complete = Object.fromEntries(required.map((path) => [path, "# x\n"]));

test("the repository's own papers must be there", () => {
  assert.deepEqual(problemsOf("repository-files", complete), []);
  for (const path of required) {
    const { [path]: _, ...rest } = complete;
    assert.deepEqual(problemsOf("repository-files", rest).map((problem) => problem.path), [path]);
  }
});

test("built files do not belong into git", () => {
  for (const path of ["web/dist/index.html", "web/node_modules/a/b.js", "build/a",
    "web/packages/wire/gen/control_pb.ts", "packages/weft-tiny/weft.json"]) {
    const problems = problemsOf("repository-files", { ...complete, [path]: "" });
    assert.deepEqual(problems.map((problem) => problem.path), [path]);
  }
});

test("files are at most 512 KiB, models excepted", () => {
  const large = (path, byteCount) => checkTree([
    ...required.map((name) => fakeFile(name, "# x\n")),
    { path, text: "", byteCount, isText: false },
  ]).filter((problem) => problem.rule === "repository-files");
  assert.equal(large("docs/a.png", 512 * 1024 + 1).length, 1);
  assert.equal(large("docs/a.png", 512 * 1024).length, 0);
  assert.equal(large("models/weft-tiny/model.safetensors", 15 << 20).length, 0);
});
