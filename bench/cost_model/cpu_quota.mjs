// Shares of a core for processes, by the kernel's CPU controller (cgroups of either version), so
// that one machine has devices of different speeds.
import { existsSync, mkdirSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

// The kernel takes no quota below a millisecond; short periods make a slow device slow within one
// stage's computing, not only over many.
const kLeastQuotaUs = 1000;
const kLeastPeriodUs = 5000;

// {quotaUs, periodUs} of so much of a core.
export function quotaOf(core) {
  const periodUs = Math.round(Math.max(kLeastPeriodUs, kLeastQuotaUs / core));
  return { periodUs, quotaUs: Math.round(core * periodUs) };
}

function controller() {
  const v1 = "/sys/fs/cgroup/cpu";
  if (existsSync(join(v1, "cpu.cfs_quota_us")) || existsSync(join(v1, "cgroup.procs"))) {
    return { folder: v1, files: ({ quotaUs, periodUs }) =>
      ({ "cpu.cfs_period_us": periodUs, "cpu.cfs_quota_us": quotaUs }) };
  }
  return { folder: "/sys/fs/cgroup", files: ({ quotaUs, periodUs }) =>
    ({ "cpu.max": `${quotaUs} ${periodUs}` }) };
}

// A group whose processes get so much of a core; `prefix` starts a command in it.
export class CpuGroup {
  constructor(name, core) {
    const { folder, files } = controller();
    this.folder = join(folder, `weft-bench-${process.pid}-${name}`);
    try {
      mkdirSync(this.folder);
      for (const [file, value] of Object.entries(files(quotaOf(core)))) {
        writeFileSync(join(this.folder, file), String(value));
      }
    } catch (error) {
      throw new Error(`a group for ${core} of a core needs the right to write below ${folder}: ` +
        error.message);
    }
  }

  get prefix() {
    return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', join(this.folder, "cgroup.procs")];
  }

  // REQUIRES: its processes have ended.
  remove() {
    rmdirSync(this.folder);
  }
}
