// Packs the npm packages: the launcher, the program for linux-x64, and both in one file, which runs
// without a registry. Nothing is published. Usage: node make.mjs VERSION TREE FOLDER
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const [version, tree, out] = process.argv.slice(2);
const kSystem = "linux-x64";
const kPlatformName = `@weft-swarm/weft-${kSystem}`;

const common = { version, license: "Apache-2.0", engines: { node: ">=20" } };
const kPlatform = {
  name: kPlatformName,
  ...common,
  description: `The program of weft for ${kSystem}; install @weft-swarm/weft instead`,
  os: ["linux"], cpu: ["x64"], libc: ["glibc"],
  files: ["bin", "lib", "share"],
};
const kLauncher = {
  name: "@weft-swarm/weft",
  ...common,
  description: "One language model over all of your devices",
  type: "module",
  bin: { weft: "launcher.mjs" },
  files: ["launcher.mjs"],
  optionalDependencies: { [kPlatformName]: version },
};

function writePackage(folder, manifest) {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
}

function writeLauncher(folder, manifest) {
  writePackage(folder, manifest);
  cpSync(join(here, "launcher.mjs"), join(folder, "launcher.mjs"));
  cpSync(join(here, "README.md"), join(folder, "README.md"));
}

function writePlatform(folder) {
  writePackage(folder, kPlatform);
  for (const name of kPlatform.files) {
    cpSync(join(tree, name), join(folder, name), { recursive: true });
  }
}

// npm names its file after the scope; ours says what it is.
function pack(folder, name) {
  const command = ["pack", "--json", "--ignore-scripts", "--pack-destination", out];
  const said = execFileSync("npm", command, { cwd: folder, encoding: "utf8",
    maxBuffer: 64 * 1024 * 1024, stdio: ["ignore", "pipe", "pipe"] });
  const packed = JSON.parse(said);
  const { filename } = Object.values(packed)[0];
  renameSync(join(out, filename.replace("@", "").replace("/", "-")), join(out, name));
}

const work = mkdtempSync(join(tmpdir(), "weft-npm-"));
try {
  writeLauncher(join(work, "launcher"), kLauncher);
  pack(join(work, "launcher"), `npm-launcher-${version}.tgz`);
  writePlatform(join(work, "platform"));
  pack(join(work, "platform"), `npm-${kSystem}-${version}.tgz`);
  const whole = join(work, "whole");
  writeLauncher(whole, { ...kLauncher, optionalDependencies: undefined,
    dependencies: kLauncher.optionalDependencies, bundleDependencies: [kPlatformName] });
  mkdirSync(join(whole, "node_modules/@weft-swarm"), { recursive: true });
  renameSync(join(work, "platform"), join(whole, "node_modules", kPlatformName));
  pack(whole, `weft-${version}.tgz`);
} finally {
  rmSync(work, { recursive: true });
}
