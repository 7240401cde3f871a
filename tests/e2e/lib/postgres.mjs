// A PostgreSQL of its own for end-to-end tests: in a temporary folder, on a free port.
import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import {
  appendFileSync, chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync,
} from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { eventually } from "./weft.mjs";

const kVersions = "/usr/lib/postgresql";

function programs() {
  if (!existsSync(kVersions)) return undefined;
  const found = readdirSync(kVersions).map((version) => join(kVersions, version, "bin"));
  return found.filter((folder) => existsSync(join(folder, "initdb"))).sort().at(-1);
}

// It refuses to run as root.
function otherUser() {
  if (process.getuid() !== 0) return {};
  const idOf = (flag) => Number(execFileSync("id", [flag, "postgres"]).toString());
  return { uid: idOf("-u"), gid: idOf("-g") };
}

export function noPostgres() {
  return programs() ? false : `there is no PostgreSQL in ${kVersions}`;
}

const kPatienceMs = 60_000;

export async function freePort() {
  const probe = net.createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => probe.on("listening", resolve));
  const { port } = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

// The process ids whose parent this one is.
function childrenOf(parent) {
  return readdirSync("/proc").filter((name) => /^\d+$/.test(name)).map(Number).filter((id) => {
    try {
      const stat = readFileSync(`/proc/${id}/stat`, "utf8");
      return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]) === parent;
    } catch {
      return false;
    }
  });
}

// `host` is where others reach it, beside 127.0.0.1.
export async function postgres(host = "127.0.0.1") {
  const folder = mkdtempSync(join(tmpdir(), "weft-postgres-"));
  const user = otherUser();
  if (user.uid !== undefined) chownSync(folder, user.uid, user.gid);
  const place = join(folder, "data");
  const options = { ...user, cwd: "/", stdio: "pipe" };
  const made = spawnSync(join(programs(), "initdb"),
    ["-D", place, "-A", "trust", "-U", "weft", "-N"], options);
  assert.equal(made.status, 0, made.stderr.toString());
  appendFileSync(join(place, "pg_hba.conf"), `host all all ${host}/24 trust\n`);
  const port = await freePort();
  const settings = [`listen_addresses=${[...new Set(["127.0.0.1", host])]}`,
    "unix_socket_directories=", "max_connections=20",
    "shared_buffers=8MB"].flatMap((each) => ["-c", each]);
  const query = (sql) => {
    const asked = spawnSync(join(programs(), "psql"),
      ["-h", "127.0.0.1", "-p", String(port), "-U", "weft", "-At", "-c", sql, "postgres"]);
    assert.equal(asked.status, 0, asked.stderr.toString());
    return asked.stdout.toString().split("\n").filter((line) => line !== "");
  };
  let child, gone;
  const begin = () => {
    child = spawn(join(programs(), "postgres"), ["-D", place, "-p", String(port), ...settings],
      { ...options, stdio: "ignore" });
    gone = new Promise((resolve) => child.on("exit", resolve));
  };
  // It listens before it answers. Behind a kill it ends at once while the system still takes down
  // the memory that its killed processes shared.
  const start = async () => {
    begin();
    await eventually(() => {
      if (child.exitCode !== null) begin();
      query("select 1");
    }, kPatienceMs);
  };
  await start();
  const signal = (name) => {
    for (const id of [child.pid, ...childrenOf(child.pid)]) {
      try {
        process.kill(id, name);
      } catch {
        // One that served a connection has ended meanwhile.
      }
    }
  };
  return {
    url: `postgres://weft@${host}:${port}/postgres`,
    // All of its processes stop, or go on.
    pause: () => signal("SIGSTOP"),
    goOn: () => signal("SIGCONT"),
    // They all end without a word, whatever they were writing; then it begins again.
    kill: async () => {
      signal("SIGKILL");
      await gone;
    },
    start,
    // The rows of a query, each the text of its columns, separated by "|".
    query,
    stop: async () => {
      signal("SIGCONT");
      child.kill("SIGQUIT");
      await gone;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
