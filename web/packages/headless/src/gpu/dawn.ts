// npm `webgpu` (Dawn for Node), wherever it is installed: beside this program, in weft's own
// folder, or in the user's npm folders.
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

import { dataFolder } from "../disk/folders.ts";
import { UsageError } from "../server/address.ts";

export interface Dawn {
  readonly create: (flags: string[]) => GPU;
}

// The version that weft is tested with.
const kVersion = "0.6.2";

// The line that installs it. The same in C++: src/apps/gpu_worker.cc.
export function installLine(): string {
  return `npm install --prefix ${dataFolder()} webgpu@${kVersion}`;
}

function candidateFolders(): string[] {
  const beside: string[] = [];
  // Node's own search, from this file upwards and in NODE_PATH.
  for (const path of createRequire(import.meta.url).resolve.paths("webgpu") ?? []) {
    beside.push(path);
  }
  const { npm_config_prefix: prefix, APPDATA: roaming } = process.env;
  const node = dirname(process.execPath);
  return [
    ...beside,
    join(dataFolder(), "node_modules"),
    join(homedir(), "node_modules"),
    ...(prefix === undefined ? [] : [join(prefix, "lib", "node_modules")]),
    join(homedir(), ".npm-global", "lib", "node_modules"),
    join(node, "..", "lib", "node_modules"),
    join(node, "node_modules"),
    ...(roaming === undefined ? [] : [join(roaming, "npm", "node_modules")]),
  ];
}

// Throws UsageError with what to do.
export async function findDawn(folders = candidateFolders()): Promise<Dawn> {
  const found = folders.map((folder) => join(folder, "webgpu", "index.js")).find(existsSync);
  if (found === undefined) {
    throw new UsageError(`Dawn is not installed. This line installs it: ${installLine()}`);
  }
  try {
    return (await import(/* @vite-ignore */ pathToFileURL(found).href)) as Dawn;
  } catch (error) {
    const why = error instanceof Error ? error.message.split("\n")[0] : String(error);
    throw new UsageError(
      `Dawn in ${dirname(found)} cannot be loaded (${why}). This line installs the version that ` +
        `weft is tested with: ${installLine()}`,
    );
  }
}
