// Generates TypeScript of what the C++ side describes: the .proto files, with protoc and
// protoc-gen-es, and the operations of ops.json, with tools/ops. The output folders are not in git.
// Run by `npm run gen` and by every ./dev command that needs it.
// A file that would be the same is left as it is: others may read it meanwhile, and what is built
// of it stays newer.
import { execFileSync } from "node:child_process";
import {
  existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync, statSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const web = join(dirname(fileURLToPath(import.meta.url)), "../..");
const root = join(web, "..");

// Moves the files of a folder to where they differ from what is there, each whole.
function moveChanged(from, to) {
  for (const name of readdirSync(from, { recursive: true })) {
    const [made, target] = [join(from, name), join(to, name)];
    if (!statSync(made).isFile()) continue;
    if (existsSync(target) && readFileSync(made).equals(readFileSync(target))) continue;
    mkdirSync(dirname(target), { recursive: true });
    renameSync(made, target);
  }
}

// Lets `make` fill an empty folder, whose files become those of the package's folder gen/.
function generate(name, make) {
  const out = join(web, "packages", name, "gen");
  mkdirSync(join(root, "build"), { recursive: true });
  const making = mkdtempSync(join(root, "build", `gen-${name}-`));
  try {
    make(making);
    moveChanged(making, out);
  } finally {
    rmSync(making, { recursive: true });
  }
}

function protoc(out, roots, protos) {
  const plugin = join(web, "node_modules/.bin/protoc-gen-es");
  execFileSync("protoc", [
    `--plugin=protoc-gen-es=${plugin}`,
    ...roots.map((path) => `--proto_path=${path}`),
    `--es_out=${out}`,
    "--es_opt=target=ts,import_extension=ts",
    ...protos,
  ], { stdio: "inherit" });
}

generate("wire", (out) => protoc(out, [join(root, "src/wire")], ["control.proto"]));
generate("engine", (out) => {
  execFileSync(process.execPath, [
    join(root, "tools/ops/generate.mjs"), "typescript", join(root, "src/program/ops.json"),
    join(out, "program"),
  ], { stdio: "inherit" });
  protoc(out, [join(root, "src"), out],
    ["program/views.proto", "program/ops.proto", "program/program.proto"]);
});
