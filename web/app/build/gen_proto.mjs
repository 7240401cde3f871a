// Generates the TypeScript form of the C++ side's .proto files with protoc and protoc-gen-es.
// The output folders are not in git. Run by `npm run gen` and by every ./dev command that needs it.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const web = join(dirname(fileURLToPath(import.meta.url)), "../..");
const kProtos = [
  { source: "wire/control.proto", package: "wire" },
  { source: "program/program.proto", package: "engine" },
];

for (const proto of kProtos) {
  const source = join(web, "../src", proto.source);
  if (!existsSync(source)) {
    console.log(`gen: src/${proto.source} does not exist, skipped`);
    continue;
  }
  const out = join(web, "packages", proto.package, "gen");
  mkdirSync(out, { recursive: true });
  const plugin = join(web, "node_modules/.bin/protoc-gen-es");
  execFileSync("protoc", [
    `--plugin=protoc-gen-es=${plugin}`,
    `--proto_path=${dirname(source)}`,
    `--es_out=${out}`,
    "--es_opt=target=ts",
    source,
  ], { stdio: "inherit" });
}
