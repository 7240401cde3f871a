// The cells of the churn bench: which swarm meets which failures while it answers which prompts.

const kModels = ["tiny", "0.6b"];
const kNeeded = [1, 3, 5];
const kLoads = [
  { promptTokens: 25, answerTokens: 128 },
  { promptTokens: 25, answerTokens: 1024 },
  { promptTokens: 2600, answerTokens: 128 },
  { promptTokens: 2600, answerTokens: 1024 },
];
// swarm: 10 s between failures, whoever they meet. needed: each worker with a part fails after 10 s
// in the mean.
const kFailures = ["swarm", "needed"];
export const kMeanMs = 10_000;

function cell(fields) {
  const { model, needed, workers, failures, promptTokens, answerTokens } = fields;
  const name = `${model}-${needed}of${workers}-${failures}-${promptTokens}-${answerTokens}`;
  return { name, kind: "native", seconds: 120, ...fields };
}

function* grid() {
  for (const model of kModels) {
    for (const needed of kNeeded) {
      for (const workers of [needed + 1, 10]) {
        for (const failures of kFailures) {
          for (const load of kLoads) yield cell({ model, needed, workers, failures, ...load });
        }
      }
    }
  }
}

// web-distributed-inference-architecture 6.5: ten workers, of which 1, 3 or 5 are needed, whose
// failures grow from none to one each 10 s; its prompts chat and creative.
function* figures() {
  for (const model of kModels) {
    for (const needed of kNeeded) {
      for (const load of kLoads.slice(0, 2)) {
        yield cell({ model, needed, workers: 10, failures: "ramp", seconds: 600, ...load });
      }
    }
  }
}

// Three tabs, one or two of which are needed.
function* tabs() {
  for (const needed of [1, 2]) {
    for (const failures of kFailures) {
      const made = cell({ model: "tiny", needed, workers: 3, failures, ...kLoads[0] });
      yield { ...made, kind: "tabs", name: `tabs-${made.name}` };
    }
  }
}

export function allCells() {
  return [...grid(), ...figures(), ...tabs()];
}

// Cells whose names match one of the comma-separated patterns, in which * stands for anything.
export function selectCells(patterns) {
  const expressions = patterns.split(",").map((pattern) => {
    const parts = pattern.trim().split("*").map((part) => part.replace(/[.]/g, "\\."));
    return new RegExp(`^${parts.join(".*")}$`);
  });
  const chosen = allCells().filter(({ name }) => expressions.some((each) => each.test(name)));
  if (chosen.length === 0) throw new Error(`no cell is called ${patterns}: see --list`);
  return chosen;
}

// The least availability, as a share of what was possible, that a cell is meant to have; null where
// the recovery model sets the bar.
export function availabilityBar({ kind, failures, promptTokens, workers }) {
  if (kind === "tabs" || failures !== "swarm" || promptTokens !== 25) return null;
  return workers === 10 ? 0.99 : 0.97;
}
