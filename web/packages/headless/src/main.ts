// Entry of the headless worker: `weft worker --gpu` starts it with Node, and so can anybody. Its
// threads that download start here, too.
import { isMainThread, parentPort, workerData } from "node:worker_threads";

import { formatMemory } from "@weft/ui/words/format.ts";

import { chooseAdapter, listAdapters, openAdapter, theOnlyAdapter } from "./gpu/adapters.ts";
import type { AdapterEntry } from "./gpu/adapters.ts";
import { findDawn } from "./gpu/dawn.ts";
import { cardMemory, defaultOffer } from "./gpu/memory.ts";
import { endWithParent, namespaceOptions, onlyCard, runWithOnly } from "./gpu/onlyCard.ts";
import { hasSecret, kHelp, parseOptions, withoutSecrets } from "./options.ts";
import type { HelpOptions } from "./options.ts";
import { kTokenVariable, UsageError } from "./server/address.ts";
import { Display } from "./terminal/display.ts";
import { plainText } from "./terminal/words.ts";
import { serveAsThread, work } from "./work.ts";
import type { FetchJob } from "./work.ts";

const kOldestNode = 20;

async function list(): Promise<number> {
  const dawn = await findDawn();
  const entries = await listAdapters(dawn);
  for (const entry of entries) {
    const card = await cardMemory(entry, entries);
    const holds = entry.isSoftware
      ? "a software adapter: only with --allow-software"
      : `could hold ${formatMemory(defaultOffer(card))}` +
        (card ? ` of ${formatMemory(card.totalBytes)}` : " of the system's memory");
    const { pci = "", uuid = "", nodes = [] } = entry.card ?? {};
    const names = [plainText(entry.name), holds, pci, ...nodes, uuid && `UUID ${uuid}`];
    process.stdout.write(`${[entry.index, ...names].filter((it) => it !== "").join("  ")}\n`);
  }
  if (entries.length > 0) return 0;
  chooseAdapter(entries, null, false); // says why there is none
  return 1;
}

// Whether the others have to be hidden so that this one computes. Where nobody named it, the first
// of its name will do if they cannot be.
function wantsToBeAlone(entry: AdapterEntry, options: HelpOptions): boolean {
  if (entry.isAlone || entry.card === null) return false;
  return options.adapter !== null || !entry.isReachable || namespaceOptions() !== null;
}

async function help(options: HelpOptions): Promise<number> {
  const dawn = await findDawn();
  const entries = await listAdapters(dawn);
  const only = onlyCard();
  const entry = only
    ? theOnlyAdapter(entries, only)
    : chooseAdapter(entries, options.adapter, options.allowSoftware);
  const memoryBytes = options.memoryBytes ??
    defaultOffer(await cardMemory(entry, entries), entry.isSoftware);
  if (only) {
    endWithParent();
  } else if (wantsToBeAlone(entry, options)) {
    const args = [...withoutSecrets(process.argv.slice(2)), "--memory", String(memoryBytes)];
    return await runWithOnly(entry.card!, entry.index, args, options.joinToken);
  }
  const adapter = openAdapter(dawn, entry);
  const display = new Display(process.stderr, () => performance.now());
  display.say(`Helping with ${plainText(adapter.name)}; offering ${formatMemory(memoryBytes)}.`);
  const status = await work(options, adapter, memoryBytes, display);
  display.finish();
  return status;
}

async function run(): Promise<number> {
  if (Number(process.versions.node.split(".")[0]) < kOldestNode) {
    throw new UsageError(
      `This is Node ${process.versions.node}; weft's GPU worker needs Node ${kOldestNode} or ` +
        `newer (https://nodejs.org).`,
    );
  }
  const args = process.argv.slice(2);
  // Overwrites what `ps` shows of this process.
  if (args.some(hasSecret)) process.title = "weft worker --gpu";
  const command = parseOptions(args);
  delete process.env[kTokenVariable];
  switch (command.kind) {
    case "help":
      process.stdout.write(kHelp);
      return 0;
    case "list":
      return await list();
    case "work":
      return await help(command);
  }
}

if (isMainThread) {
  start();
} else {
  serveAsThread(parentPort!, workerData as FetchJob);
}

// A pipe that nobody reads any more, or a full disk under a log, ends nothing: what is written
// there is lost. Without a listener Node would end the process.
function outliveReaders(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined);
}

// What Dawn still holds would keep the process, or end it with a fault: it is left as it is.
function start(): void {
  outliveReaders();
  run().then(
    (status) => process.exit(status),
    (error: unknown) => {
      const text = error instanceof Error ? error.message : String(error);
      process.stderr.write(`weft: ${error instanceof UsageError ? text : `it failed: ${text}`}\n`);
      process.exit(1);
    },
  );
}
