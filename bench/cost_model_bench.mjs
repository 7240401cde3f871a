// The planner's cost model against real swarms: native workers with shares of a core behind links
// with delays and rates. Predicted against measured time per token (dynamic-graph-partitioning
// 7.3), equal against dynamic splits over its devices' speeds (7.4), and what each metric is worth
// to the estimate (7.5). Needs the right to make CPU control groups (root on most systems).
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { ablations, splits, validations } from "./cost_model/configurations.mjs";
import { warmCache } from "./cost_model/device_swarm.mjs";
import { errorsOf } from "./cost_model/estimates.mjs";
import { ablate, compareSplit, validate } from "./cost_model/measure.mjs";
import { packageOf } from "./lib/packages.mjs";
import { rounded } from "./lib/statistics.mjs";

const kUsage = `Usage: ./dev bench cost-model [options]
  --parts LIST     of validation,split,ablation (default all three)
  --models LIST    of tiny,0.6b (default both; splits and ablations take the last one)
  --only TEXT      configurations whose names contain it
  --requests N     answers for each configuration (default 5)
  --tokens N       tokens of an answer (default 48)
  --share X        devices get so much of their share of a core (default 1): on a machine that has
                   other work too, less is what they really get
  --settle N       seconds for which a plan has to stay before it is measured (default 5)
  --json FILE      appends a line of JSON for each configuration
  --list           prints the names of all configurations and ends
`;

const text = (value) => ({ type: "string", default: value });
const flag = { type: "boolean", default: false };
const { values: options } = parseArgs({ options: {
  weft: text("build/release/weft"), parts: text("validation,split,ablation"),
  models: text("tiny,0.6b"), only: text(""), requests: text("5"),
  tokens: text("48"), share: text("1"), settle: text("5"),
  json: text(""), list: flag, help: flag,
} });

// [[what runs it, configuration]]
function plannedRuns() {
  const models = options.models.split(",");
  const known = {
    validation: () => validations(models).map((each) => [validate, each]),
    split: () => splits(models.at(-1)).map((each) => [compareSplit, each]),
    ablation: () => ablations(models.at(-1)).map((each) => [ablate, each]),
  };
  const runs = options.parts.split(",").flatMap((part) => {
    if (!known[part]) throw new Error(`no part is called '${part}': see --help`);
    return known[part]();
  });
  const share = Number(options.share);
  const shared = (each) => ({ ...each,
    devices: each.devices.map((device) => ({ ...device, core: device.core * share })) });
  return runs.filter(([, { name }]) => name.includes(options.only))
    .map(([run, configuration]) => [run, shared(configuration)]);
}

async function modelsOf(runs, scratch) {
  const models = {};
  for (const name of new Set(runs.map(([, { model }]) => model))) {
    const cache = join(scratch, name);
    models[name] = { ...packageOf(options.weft, name), cache };
    await warmCache(options.weft, models[name].folder, cache);
  }
  return models;
}

async function runAll(runs) {
  const scratch = mkdtempSync(join(tmpdir(), "weft-cost-model-cache-"));
  const settings = { weft: options.weft, tokens: Number(options.tokens),
    requests: Number(options.requests), settleMs: Number(options.settle) * 1000 };
  const rows = [];
  try {
    const models = await modelsOf(runs, scratch);
    for (const [run, configuration] of runs) {
      const row = await run(configuration, models[configuration.model], settings);
      rows.push(row);
      const { initial_pairs: initial, running_pairs: running, ...shown } = row;
      console.log(JSON.stringify(shown));
      if (options.json) appendFileSync(options.json, `${JSON.stringify(row)}\n`);
    }
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
  return rows;
}

// Tables 7.4 and 7.5: errors of both estimates by model and by setting.
function printErrors(rows) {
  for (const by of ["model", "setting"]) {
    const groups = new Set(rows.map((row) => row[by]));
    console.table([...groups].map((group) => {
      const some = rows.filter((row) => row[by] === group);
      const initial = errorsOf(some.flatMap((row) => row.initial_pairs));
      const running = errorsOf(some.flatMap((row) => row.running_pairs));
      return { [by]: group, configurations: initial.count,
        "initial MAE ms": rounded(initial.mae_ms, 2), "initial MAPE %": rounded(initial.mape, 1),
        "running MAE ms": rounded(running.mae_ms, 2), "running MAPE %": rounded(running.mape, 1) };
    }));
  }
}

if (options.help) console.log(kUsage);
else if (options.list) for (const [, { name }] of plannedRuns()) console.log(name);
else {
  if (options.json) writeFileSync(options.json, "");
  const rows = await runAll(plannedRuns());
  const validated = rows.filter(({ part }) => part === "validation");
  if (validated.length > 0) printErrors(validated);
  for (const wanted of ["split", "ablation"]) {
    const some = rows.filter(({ part }) => part === wanted);
    if (some.length > 0) console.table(some.map(({ part, ...shown }) => shown));
  }
}
