// Generates TypeScript of what the C++ side describes: the .proto files, with protoc and
// protoc-gen-es, and the operations of ops.json, with tools/ops. The output folders are not in git.
// Run by `npm run gen` and by every ./dev command that needs it.
import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const web = join(dirname(fileURLToPath(import.meta.url)), "../..");
const root = join(web, "..");

// What the package's folder gen/ gets of `protos`, which import each other by paths under `roots`.
function generate(name, roots, protos) {
  const out = join(web, "packages", name, "gen");
  mkdirSync(out, { recursive: true });
  const plugin = join(web, "node_modules/.bin/protoc-gen-es");
  execFileSync("protoc", [
    `--plugin=protoc-gen-es=${plugin}`,
    ...[...roots, out].map((path) => `--proto_path=${path}`),
    `--es_out=${out}`,
    "--es_opt=target=ts,import_extension=ts",
    ...protos,
  ], { stdio: "inherit" });
}

generate("wire", [join(root, "src/wire")], ["control.proto"]);
execFileSync(process.execPath, [
  join(root, "tools/ops/generate.mjs"), "typescript", join(root, "src/program/ops.json"),
  join(web, "packages/engine/gen/program"),
], { stdio: "inherit" });
generate("engine", [join(root, "src")],
  ["program/views.proto", "program/ops.proto", "program/program.proto"]);
