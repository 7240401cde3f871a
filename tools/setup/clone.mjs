// node clone.mjs FOLDER
// FOLDER holds the tracked files alone, as a stranger's clone does. Its packs become reference data
// that must be, byte for byte, what this checkout's tests read; every test program lists the same
// tests with it; and every file that a script or a test imports by a relative path is there.
// Prints what is missing and exits with 1, or says how much was compared.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, readdirSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = fileURLToPath(new URL("../../", import.meta.url));

function filesBelow(folder) {
  return readdirSync(folder, { recursive: true })
    .map((name) => join(folder, name))
    .filter((path) => !path.includes("node_modules") && statSync(path).isFile());
}

function digests(folder) {
  const digest = (path) => createHash("sha256").update(readFileSync(path)).digest("hex");
  return new Map(filesBelow(folder).map((path) => [relative(folder, path), digest(path)]));
}

// Files that differ or that only one of the folders has.
export function differences(one, other) {
  const [a, b] = [digests(one), digests(other)];
  return [...new Set([...a.keys(), ...b.keys()])].filter((name) => a.get(name) !== b.get(name));
}

// Relative paths that a JavaScript or TypeScript source imports: a statement begins its line, and
// so does the brace that ends a long one.
export function importsOf(text) {
  const statement = /^(?:import|export|\})(?:[^"'\n]*from)?\s*["'](\.{1,2}\/[^"']+)["']/gm;
  const found = text.matchAll(statement);
  return [...found].map(([, path]) => path);
}

// A TypeScript import without its ending, a folder's index, or a file as it is named; what the page
// draws its code from at build time (gen/) is made, not tracked.
function isThere(path) {
  if (/\/(gen|dist|build)(\/|$)/.test(path)) return true;
  const bare = path.replace(/\?\w+$/, "");
  const ends = ["", ".ts", ".tsx", ".mjs", "/index.ts"];
  if (ends.some((end) => existsSync(bare + end))) return true;
  return bare.endsWith(".js") && existsSync(bare.replace(/\.js$/, ".ts"));
}

export function missingImports(folder) {
  return filesBelow(folder)
    .filter((path) => /\.(mjs|ts|tsx)$/.test(path))
    .flatMap((path) =>
      importsOf(readFileSync(path, "utf8"))
        .filter((to) => !isThere(join(dirname(path), to)))
        .map((to) => `${relative(folder, path)} imports ${to}`),
    );
}

function listed(program, data) {
  const env = { ...process.env, WEFT_DATA: data };
  const list = execFileSync(program, ["--gtest_list_tests"], { env, encoding: "utf8" });
  // Behind a number stands its parameter, which may be a path.
  return list.replace(/ +#.*$/gm, "");
}

async function main(folder) {
  const there = join(folder, "build", "test-data");
  const unpacker = pathToFileURL(join(folder, "tools", "testdata", "unpack.mjs"));
  const { unpack } = await import(unpacker.href);
  const files = unpack(there);
  const here = join(root, "build", "test-data");
  const problems = differences(here, there).map((name) => `${name} of the reference data differs`);
  const programs = join(root, "build", "release");
  let tests = 0;
  for (const name of readdirSync(programs).filter((entry) => entry.endsWith("_test"))) {
    const list = listed(join(programs, name), there);
    tests += list.split("\n").filter((line) => line.startsWith("  ")).length;
    if (list !== listed(join(programs, name), here)) problems.push(`${name} lists other tests`);
  }
  problems.push(...missingImports(folder));
  for (const problem of problems) console.log(problem);
  console.log(`${files} files of reference data, ${tests} tests listed`);
  process.exitCode = problems.length > 0 ? 1 : 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main(process.argv[2]);
