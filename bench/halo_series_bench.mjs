// All cells of the figures on tensor groups and experts (halo/series.mjs), one run of
// halo_bench.mjs after another:
//
//   ./dev bench halo-series --json FILE --packages 8B=FOLDER,0.6B=FOLDER,30B-A3B=FOLDER
//                           [--minutes N] [--only NAME,...] [--dllama PROGRAM] [--list]
//   ./dev bench halo --plot FILE --out FOLDER
//
// Cells that FILE has are not measured again: what --minutes cut short goes on with the next call.
// No run begins after so many minutes. Series whose package is not named are left out, and those of
// distributed-llama without --dllama. A run that fails is told, and the others go on.
//
// The packages are made of random weights:
//
//   node bench/webgpu/peers/random_gguf.mjs DIR --size 8B --layers 8 --vocabulary 4096
//   weft convert DIR/model-00001-of-*.gguf WHOLE --quant q4s    # 30B-A3B and 8x7B end here
//   weft groups WHOLE FOLDER --text FILE                        # 8B and 0.6B
//   weft groups WHOLE FOLDER                                    # 8x7B-parts, of 8x7B
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { argumentsOf, isMeasured, kSeries } from "./halo/series.mjs";

const kMostRunMs = 480_000;
const { values: options } = parseArgs({
  options: {
    weft: { type: "string", default: "build/release/weft" },
    json: { type: "string" },
    packages: { type: "string", default: "" },
    minutes: { type: "string", default: "1440" },
    only: { type: "string" },
    dllama: { type: "string" },
    list: { type: "boolean", default: false },
  },
});
if (options.list) {
  for (const { name } of kSeries) console.log(name);
  process.exit(0);
}
if (!options.json) {
  console.error("--json FILE is missing: the cells are kept there.");
  process.exit(2);
}
const packages = Object.fromEntries(options.packages.split(",").filter(Boolean)
  .map((each) => each.split(/=(.*)/s)));
const names = options.only?.split(",");
const unknown = names?.find((name) => kSeries.every((series) => series.name !== name));
if (unknown !== undefined) {
  console.error(`There is no series '${unknown}'; --list names them.`);
  process.exit(2);
}

function cellsSoFar() {
  if (!existsSync(options.json)) return [];
  return readFileSync(options.json, "utf8").split("\n").filter(Boolean).map((line) =>
    JSON.parse(line));
}

// Gives the exit status; null: it took too long, and was ended with all that it had started.
function statusOf(args) {
  const run = spawn(process.execPath, args,
    { stdio: ["ignore", "ignore", "inherit"], detached: true });
  const end = () => process.kill(-run.pid, "SIGKILL");
  const endAll = () => {
    end();
    process.exit(130);
  };
  const timer = setTimeout(end, kMostRunMs);
  process.once("SIGINT", endAll);
  return new Promise((resolve) => run.on("exit", (status) => {
    clearTimeout(timer);
    process.off("SIGINT", endAll);
    resolve(status);
  }));
}

const wanted = kSeries.filter(({ name }) => !names || names.includes(name));
const runs = wanted.flatMap((series) => series.helpers.flatMap((helpers) =>
  series.kinds.map((kind) => ({ series, helpers, kind }))));
const end = performance.now() + 60_000 * Number(options.minutes);
const bench = join(fileURLToPath(new URL(".", import.meta.url)), "halo_bench.mjs");
let [failed, left] = [0, 0];
for (const { series, helpers, kind } of runs) {
  if (kind === "dllama" ? !options.dllama : !packages[series.package]) continue;
  if (isMeasured(series, helpers, kind, cellsSoFar())) continue;
  if (performance.now() > end) {
    ++left;
    continue;
  }
  const begin = performance.now();
  const args = argumentsOf(series, helpers, kind, { ...options, packages });
  const status = await statusOf([bench, ...args]);
  if (status !== 0) ++failed;
  const seconds = ((performance.now() - begin) / 1000).toFixed(0);
  console.log(`${series.name}, ${helpers + 1} devices, ${kind}: ` +
    `${status === 0 ? "measured" : "failed"} in ${seconds} s`);
}
console.log(`${failed} runs failed, ${left} are left for the next call`);
process.exit(failed > 0 ? 1 : 0);
