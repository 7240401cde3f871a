// Runs this program once more where one card is the only one that has device files. Dawn takes the
// first card of a name, so that equal ones can be told apart only by hiding the others: Vulkan's
// drivers find cards by their files in /dev, and a mount namespace has a /dev of its own.
import { spawn, spawnSync } from "node:child_process";
import { constants } from "node:os";

import { kTokenVariable, UsageError } from "../server/address.ts";
import type { Card } from "./cards.ts";

// In the environment of the program that is started: "0000:41:00.0 1", the card and its index.
const kVariable = "WEFT_ONLY_CARD";

// What programs, and drivers of any card, need of /dev.
const kCommonNodes = [
  "null", "zero", "full", "random", "urandom", "tty", "console", "ptmx", "pts", "shm", "mqueue",
  "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", "nvidia-caps", "kfd",
].map((name) => `/dev/${name}`);

const kCannotMount = 125;

// NODE... -- COMMAND...: mounts a /dev of these files alone, and becomes the command. Files are
// bound, not made: without root's rights nobody may make device files. The folder is read-only,
// because NVIDIA's driver makes the files of hidden cards again where root runs it.
const kScript = `
d=$(mktemp -d) && mount -n -t tmpfs -o mode=755 weft "$d" || exit ${kCannotMount}
while [ "$1" != -- ]; do
  if [ -e "$1" ]; then
    to="$d\${1#/dev}"
    mkdir -p "\${to%/*}"
    if [ -d "$1" ]; then mkdir -p "$to"; else : > "$to"; fi
    mount -n --rbind "$1" "$to" || exit ${kCannotMount}
  fi
  shift
done
shift
ln -s /proc/self/fd "$d/fd"
for i in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/\${i%:*}" "$d/\${i#*:}"; done
mount -n -o remount,bind,ro "$d" && mount -n --move "$d" /dev || exit ${kCannotMount}
rmdir "$d"
exec "$@"
`;

export interface OnlyCard {
  readonly pci: string;
  readonly index: number;
}

// What this program was started with by runWithOnly; null: it sees every card.
export function onlyCard(environment = process.env): OnlyCard | null {
  const [, pci, index] = /^(\S+) (\d+)$/.exec(environment[kVariable] ?? "") ?? [];
  return pci === undefined ? null : { pci, index: Number(index) };
}

// Options of unshare(1) with which this user may mount; null: there are none. The second makes the
// user root of a user namespace, which some systems forbid.
export function namespaceOptions(): string[] | null {
  if (process.platform !== "linux") return null;
  const may = (options: string[]): boolean =>
    spawnSync("unshare", [...options, "sh", "-c", "mount -n -t tmpfs weft /tmp"], {
      stdio: "ignore",
    }).status === 0;
  return [["-m"], ["-U", "-r", "-m"]].find(may) ?? null;
}

const kNoRights =
  "Two of this machine's GPUs have the same name, by which alone Dawn tells them apart, and the " +
  "others cannot be hidden: that needs unshare and mount (Debian, Ubuntu: util-linux) and either " +
  "root's rights or user namespaces (sysctl kernel.unprivileged_userns_clone=1, on newer Ubuntu " +
  "kernel.apparmor_restrict_unprivileged_userns=0).";

// The command line that runs `command` where `card` is the only one. Throws UsageError where this
// user may not.
export function commandWithOnly(card: Card, command: readonly string[]): string[] {
  const options = namespaceOptions();
  if (options === null) throw new UsageError(kNoRights);
  return ["unshare", ...options, "sh", "-c", kScript, "weft-gpu", ...kCommonNodes, ...card.nodes,
    "--", ...command];
}

// Runs this program with `args`, and the join token in its environment, which others than this user
// cannot read; its exit status. Signals go on to
// it, each once: it has a session of its own, where a terminal's Ctrl-C does not reach it. It ends
// when this process does.
export async function runWithOnly(
  card: Card, index: number, args: readonly string[], joinToken: string,
): Promise<number> {
  const again = [process.execPath, ...process.execArgv, process.argv[1]!, ...args];
  const [program, ...rest] = commandWithOnly(card, again);
  const child = spawn(program!, rest, {
    stdio: ["inherit", "inherit", "inherit", "ipc"],
    detached: true,
    env: {
      ...process.env,
      [kVariable]: `${card.pci} ${index}`,
      ...(joinToken && { [kTokenVariable]: joinToken }),
    },
  });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => child.kill(signal));
  }
  return await new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("exit", (status, signal) => {
      if (status === kCannotMount) reject(new UsageError(kNoRights));
      else resolve(status ?? 128 + (signal ? constants.signals[signal] : 0));
    });
  });
}

// In the program that runWithOnly started: leaves when the one that started it is gone.
export function endWithParent(): void {
  if (process.channel) process.on("disconnect", () => process.kill(process.pid, "SIGTERM"));
}
