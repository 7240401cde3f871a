// The models that benches run: the embedded one, and one of Qwen3-0.6B's layers whose vocabulary is
// text, made on demand in a cache folder outside the tree.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../../", import.meta.url));

export function cacheFolder() {
  return join(process.env.XDG_CACHE_HOME ?? join(homedir(), ".cache"), "weft-bench");
}

// Every token of weft-tiny's vocabulary but some bytes is text, so that a stream shows it. The head
// has weights of its own: tied random weights repeat one token, in which no error would be seen.
function makeRandom(weft, folder, shape) {
  const checkpoint = `${folder}.checkpoint`;
  const unfinished = `${folder}.part`;
  for (const path of [checkpoint, unfinished]) rmSync(path, { recursive: true, force: true });
  mkdirSync(cacheFolder(), { recursive: true });
  const head = ["--vocab", "4096", "--untied"];
  const tokenizer = ["--tokenizer", join(root, "models/weft-tiny/tokenizer.json")];
  execFileSync("python3",
    [join(root, "tools/random_checkpoint.py"), checkpoint, ...shape, ...head, ...tokenizer]);
  execFileSync(weft, ["convert", checkpoint, unfinished, "--quant", "q4"], { stdio: "pipe" });
  rmSync(checkpoint, { recursive: true });
  renameSync(unfinished, folder);
}

const kModels = {
  tiny: {
    folder: () => join(root, "packages/weft-tiny"),
    make: (weft, folder) =>
      execFileSync(weft, ["convert", join(root, "models/weft-tiny"), folder], { stdio: "pipe" }),
  },
  "0.6b": {
    folder: () => join(cacheFolder(), "qwen3-0.6b-text-q4"),
    make: (weft, folder) => makeRandom(weft, folder, ["--like", "qwen3-0.6b"]),
  },
  // Four of the 36 layers of Qwen3-8B.
  "8b": {
    folder: () => join(cacheFolder(), "qwen3-8b-4-layers-text-q4"),
    make: (weft, folder) => makeRandom(weft, folder, ["--layers", "4", "--hidden", "4096",
      "--mlp", "12288", "--heads", "32", "--kv-heads", "8"]),
  },
  // Two of the 48 layers of Qwen3-30B-A3B.
  "30b-a3b": {
    folder: () => join(cacheFolder(), "qwen3-30b-a3b-2-layers-text-q4"),
    make: (weft, folder) =>
      makeRandom(weft, folder, ["--like", "qwen3-30b-a3b", "--layers", "2"]),
  },
};

function shallow(layers) {
  return {
    folder: () => join(cacheFolder(), `qwen3-0.6b-${layers}-layers-text-q4`),
    make: (weft, folder) =>
      makeRandom(weft, folder, ["--like", "qwen3-0.6b", "--layers", String(layers)]),
  };
}

// {folder, manifest} of the model's package; `layers` of the 28 of "0.6b", where fewer will do.
export function packageOf(weft, model, layers) {
  if (layers !== undefined && model !== "0.6b")
    throw new Error(`--layers goes with --model 0.6b, not with ${model}`);
  const { folder, make } = layers === undefined ? kModels[model] : shallow(layers);
  const path = folder();
  if (!existsSync(join(path, "weft.json"))) make(weft, path);
  return { folder: path, manifest: JSON.parse(readFileSync(join(path, "weft.json"), "utf8")) };
}
