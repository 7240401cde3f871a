// A log, or a terminal, that takes nothing any more: its pipe has no reader, or its disk is full.
// Whoever serves or computes goes on; commands that only print end quietly.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, openSync, rmSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import {
  complete, eventually, gpuWorker, nativeWorker, noDawn, packageOf, reasonToSkip, serve, swarmOf,
  weft,
} from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny");
const kServer = ["--context", "256", "--no-worker"];
const kWorker = ["--memory", "256MiB", "--threads", "1"];

// The readers of both pipes go away: the next write meets nobody.
function breakPipes({ child }) {
  child.stdout.destroy();
  child.stderr.destroy();
}

const endOf = (child) =>
  new Promise((resolve) => child.on("exit", (status, signal) => resolve(signal ?? status)));

async function joins(server, count) {
  await eventually(async () => {
    const { workers } = await swarmOf(server.origin);
    assert.equal(workers.length, count, JSON.stringify(workers));
  }, 60_000);
}

async function answers(server) {
  const messages = [{ role: "user", content: "Tell me a story." }];
  await eventually(async () => {
    const answer = await complete(server.origin, { model: "weft-tiny", messages, max_tokens: 4 });
    assert.ok(answer.choices[0].message.content.length > 0);
  }, 60_000);
}

async function withServer(body) {
  const server = await serve(packageOf("weft-tiny"), kServer);
  const cache = mkdtempSync(join(tmpdir(), "weft-cache-"));
  const children = [server];
  try {
    await body(server, (process) => {
      children.push(process);
      return process;
    }, cache);
  } finally {
    for (const { child } of children) child.kill("SIGKILL");
    rmSync(cache, { recursive: true });
  }
}

function pipeTest(name, body, reason = skip) {
  test(name, { skip: reason, timeout: 120_000 }, () => withServer(body));
}

pipeTest("a server whose log has no reader any more goes on", async (server, keep, cache) => {
  breakPipes(server);
  for (const name of ["first", "second"]) { // each joins, and leaves, with a line of the log
    const args = [...kWorker, "--cache", cache, "--name", name];
    const worker = keep(nativeWorker(server.origin, args));
    await joins(server, 1);
    await answers(server);
    await worker.stop();
    await joins(server, 0);
  }
  const ended = endOf(server.child);
  server.child.kill("SIGINT");
  assert.equal(await ended, 0);
});

pipeTest("a worker whose log has no reader any more helps and takes its leave",
  async (server, keep, cache) => {
    const worker = keep(nativeWorker(server.origin, [...kWorker, "--cache", cache]));
    await joins(server, 1);
    breakPipes(worker);
    await answers(server);
    const ended = endOf(worker.child);
    worker.child.kill("SIGINT");
    assert.equal(await ended, 0);
    await server.waitFor(/closed: it left/);
  });

pipeTest("a headless worker whose log has no reader any more helps and takes its leave",
  async (server, keep, cache) => {
    const worker = keep(gpuWorker(server.origin, ["--memory", "512MiB", "--cache", cache]));
    await worker.waitFor(/Helping with/, 60_000);
    breakPipes(worker);
    await answers(server);
    const ended = endOf(worker.child);
    worker.child.kill("SIGINT");
    assert.equal(await ended, 0);
    await server.waitFor(/closed: it left/);
  }, skip || noDawn());

pipeTest("a chat whose output nobody reads stops the answer and goes on with the next",
  async (server, keep, cache) => {
    keep(nativeWorker(server.origin, [...kWorker, "--cache", cache]));
    await answers(server);
    for (const isAlsoSilent of [false, true]) {
      const child = spawn(weft, ["run", server.origin]);
      keep({ child });
      let said = "";
      child.stderr.setEncoding("utf8").on("data", (text) => (said += text));
      await eventually(() => assert.match(said, /Chatting with/));
      child.stdout.destroy();
      if (isAlsoSilent) child.stderr.destroy();
      const ended = endOf(child);
      child.stdin.write("Tell me a story.\nAnother.\n");
      if (!isAlsoSilent) {
        await eventually(() =>
          assert.equal(said.match(/cannot be written to standard output/g)?.length, 2, said));
      }
      child.stdin.end("/bye\n");
      assert.equal(await ended, 0, said);
    }
  });

test("commands that only print end quietly when nobody reads", { skip }, async () => {
  for (const args of [["--help"], ["serve", "--help"], ["sim", "--seed", "1", "--seeds", "1"]]) {
    const child = spawn(weft, args, { stdio: ["ignore", "pipe", "pipe"] });
    child.stdout.destroy();
    let said = "";
    child.stderr.setEncoding("utf8").on("data", (text) => (said += text));
    const ended = endOf(child);
    assert.ok(["SIGPIPE", 0].includes(await ended), `${args}: ${await ended}`);
    assert.equal(said, "");
  }
  const shell = spawn("bash", ["-c", '"$0" --help | head -1; echo "${PIPESTATUS[0]}"', weft]);
  let said = "";
  for (const stream of [shell.stdout, shell.stderr]) stream.on("data", (text) => (said += text));
  await endOf(shell);
  assert.match(said, /^weft runs [^\n]*\n(0|141)\n$/);
});

test("a server whose log lies on a full disk goes on", { skip, timeout: 120_000 }, async () => {
  const probe = net.createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => probe.on("listening", resolve));
  const { port } = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  const full = openSync("/dev/full", "w");
  const args = ["serve", packageOf("weft-tiny"), "--context", "256", "--threads", "1"];
  const child = spawn(weft, [...args, "--port", String(port)], { stdio: ["ignore", full, full] });
  const ended = endOf(child);
  try {
    await answers({ origin: `http://127.0.0.1:${port}` });
    child.kill("SIGINT");
    assert.equal(await ended, 0);
  } finally {
    child.kill("SIGKILL");
  }
});
