// ./dev in a copy of its scripts, where whatever would install, build or download leaves a trace:
// options are read before anything is done.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  chmodSync, cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

const kRoot = fileURLToPath(new URL("../..", import.meta.url));
const kWorkers = ["apt-get", "dpkg-query", "sudo", "cmake", "ninja", "npm", "npx", "node", "weft"];

const folder = mkdtempSync(join(tmpdir(), "weft-dev-"));
const copy = join(folder, "weft");
const tools = join(folder, "bin");
after(() => rmSync(folder, { recursive: true }));

mkdirSync(join(copy, "tools"), { recursive: true });
mkdirSync(tools);
for (const path of ["dev", "CMakePresets.json", "tools/setup", "tests/fuzz", "bench"]) {
  cpSync(join(kRoot, path), join(copy, path), { recursive: true });
}
for (const name of kWorkers) {
  writeFileSync(join(tools, name), `#!/bin/sh\necho ${name} >> ${folder}/trace\nexit 1\n`);
  chmodSync(join(tools, name), 0o755);
}

const files = () => readdirSync(folder, { recursive: true }).sort();
const before = files();

function dev(...words) {
  const result = spawnSync(join(copy, "dev"), words, {
    encoding: "utf8", env: { PATH: `${tools}:/usr/bin:/bin`, HOME: folder },
  });
  return { status: result.status, said: result.stdout + result.stderr };
}

// The commands that `./dev` itself lists.
function commands() {
  return [...dev().said.matchAll(/^ {2}([a-z][a-z0-9-]*) /gm)].map((match) => match[1]);
}

test("every command says how it is used and does nothing", () => {
  const names = commands();
  for (const name of ["build", "run", "test", "clean"]) assert.ok(names.includes(name), name);
  for (const name of names) {
    for (const words of [["--help"], ["-h"]]) {
      const { status, said } = dev(name, ...words);
      assert.equal(status, 0, said);
      assert.match(said, new RegExp(`^  ${name} `, "m"));
      assert.deepEqual(files(), before, `./dev ${name} ${words} left something`);
    }
  }
});

const refusals = [
  [["package", "--chekc"], /'--chekc' is no option .*--check/],
  [["build", "relaese"], /'relaese' is no preset .*release, debug, asan-ubsan, tsan, fuzz/],
  [["build", "--hlep"], /'--hlep' is no preset .*release/],
  [["build", "release", "--fast"], /'--fast' is no option/],
  [["test", "--deeep"], /'--deeep' is no option .*--list, --only STEP\[,STEP\], --deep/],
  [["test", "--only"], /--only wants steps/],
  [["test", "--only", "unti"], /'unti' is no step .*tidy, .*unit/],
  [["fuzz", "nothing"], /'nothing' is no target .*frame_fuzz/],
  [["fuzz", "frame", "long"], /'long' is no number of seconds/],
  [["bench", "nothing"], /'nothing' is no benchmark .*swarm/],
  [["e2e", "nothing.mjs"], /there is no 'nothing.mjs'/],
  [["e2e", "--fast"], /'--fast' is no option/],
  [["lint", "nothing.cc"], /there is no 'nothing.cc'/],
  [["onnx-check"], /wants one folder/],
  [["onnx-check", "--limt", "3"], /'--limt' is no option .*--limit/],
  [["biuld"], /'biuld' is no command .*build/],
  ...["check", "fmt", "gen", "setup", "clean"].map(
    (name) => [[name, "--fast"], /'--fast' is no option .*takes none/]),
];

for (const [words, sentence] of refusals) {
  test(`./dev ${words.join(" ")} is refused before anything is done`, () => {
    const { status, said } = dev(...words);
    assert.equal(status, 1, said);
    assert.match(said, sentence);
    assert.deepEqual(files(), before);
  });
}

// What the tests above rely on: a command that is not refused does leave a trace.
test("a command that is not refused begins", () => {
  assert.equal(dev("build", "release").status, 1);
  assert.notDeepEqual(files(), before);
});
