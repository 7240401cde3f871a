// weft as a service: what systemd is told, SIGHUP, and what the manual and the completions hold of
// the program's own --help.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import tls from "node:tls";

import { bashCompletion, zshCompletion } from "../../packaging/completions.mjs";
import { helpOf, parseHelp, spellings } from "../../packaging/help_text.mjs";
import { manual } from "../../packaging/manual.mjs";
import { eventually, packageOf, reasonToSkip, weft } from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny");
const folder = mkdtempSync(join(tmpdir(), "weft-service-"));
after(() => rmSync(folder, { recursive: true, force: true }));

// Prints the datagrams that come to a socket, as a service manager would read them.
const kListener = `
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
print("listening", flush=True)
while True: print(s.recv(4096).decode(), flush=True)
`;

function start(command, args, env = {}) {
  const child = spawn(command, args, { env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"] });
  const started = { child, output: "" };
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (text) => (started.output += text));
  }
  after(() => child.kill("SIGKILL"));
  return started;
}

const says = (started, pattern) =>
  eventually(() => assert.match(started.output, pattern), 60_000);

function makeCertificate(name) {
  execFileSync("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
    "-nodes", "-days", "2", "-subj", `/CN=${name}`, "-keyout", join(folder, `${name}.key`),
    "-out", join(folder, `${name}.pem`)], { stdio: "pipe" });
}

function nameShownAt(port) {
  return new Promise((resolve, reject) => {
    const socket = tls.connect({ host: "127.0.0.1", port, rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate().subject.CN);
      socket.destroy();
    });
    socket.on("error", reject);
  });
}

test("a service says READY, and reads its certificate again at SIGHUP", { skip }, async () => {
  for (const name of ["first", "second"]) makeCertificate(name);
  const path = join(folder, "notify");
  const manager = start("python3", ["-c", kListener, path]);
  await says(manager, /listening/);
  const server = start(weft, ["serve", "--port", "0", "--no-worker", "--tls",
    join(folder, "first.pem"), "--tls-key", join(folder, "first.key"), packageOf("weft-tiny")],
  { NOTIFY_SOCKET: path, XDG_STATE_HOME: folder });
  await says(manager, /^READY=1$/m);
  const port = Number(/API: +https:\S+:(\d+)\/v1/.exec(server.output)[1]);
  assert.equal(await nameShownAt(port), "first");

  // A key that does not fit is said, and nothing changes.
  renameSync(join(folder, "second.pem"), join(folder, "first.pem"));
  server.child.kill("SIGHUP");
  await says(server, /goes on/);
  assert.equal(await nameShownAt(port), "first");

  renameSync(join(folder, "second.key"), join(folder, "first.key"));
  server.child.kill("SIGHUP");
  await says(server, /was read again/);
  assert.equal(await nameShownAt(port), "second");

  server.child.kill("SIGTERM");
  const status = await new Promise((resolve) => server.child.on("close", resolve));
  assert.equal(status, 0, server.output);
});

test("SIGHUP without a certificate leaves a service alone", { skip }, async () => {
  const server = start(weft, ["serve", "--port", "0", "--no-worker", packageOf("weft-tiny")],
    { XDG_STATE_HOME: folder });
  await says(server, /API: /);
  server.child.kill("SIGHUP");
  await says(server, /nothing is read again/);
  server.child.kill("SIGTERM");
  await new Promise((resolve) => server.child.on("close", resolve));
});

test("the manual and the completions name every command and every option", { skip }, () => {
  const helps = helpOf(weft);
  assert.ok(helps.length > 20, `${helps.length} commands`);
  const page = manual(helps, "0.1.0").replaceAll("\\-", "-");
  const shells = [bashCompletion(helps), zshCompletion(helps)];
  for (const help of helps) {
    const name = help.words.join(" ");
    if (name) assert.match(page, new RegExp(`^\\.SS weft ${name}$`, "m"));
    const options = help.options.flatMap(spellings);
    assert.ok(options.includes("--help"), name);
    const own = page.slice(page.indexOf(name ? `.SS weft ${name}\n` : ".SH OPTIONS"));
    for (const option of options) {
      for (const shell of shells) {
        const line = shell.split("\n").find((text) => text.startsWith(`    "${name}") words`));
        assert.ok(line.includes(option), `${name} ${option}`);
      }
      if (name === "" || !["-h", "--help"].includes(option)) {
        assert.ok(own.includes(option), `${name} ${option} is not in the manual`);
      }
    }
  }
});

test("help is read as CLI11 writes it", () => {
  const help = parseHelp([
    "Make a key.", "Usage: ./weft keys add [OPTIONS] name", "", "Positionals:",
    "  name TEXT REQUIRED          Whose it is", "", "Options:",
    "  -h,--help                   Print this help message and exit",
    "  --per-minute UINT:UINT in [1 - 100000]", "                              Requests in 60 s",
    "", "Subcommands:", "  add                         Make one.", "",
  ].join("\n"));
  assert.equal(help.description, "Make a key.");
  assert.equal(help.usage, "weft keys add [OPTIONS] name");
  assert.deepEqual(help.positionals, [{ name: "name TEXT REQUIRED", text: "Whose it is" }]);
  assert.deepEqual(help.options.map(spellings), [["-h", "--help"], ["--per-minute"]]);
  assert.equal(help.options[1].text, "Requests in 60 s");
  assert.deepEqual(help.subcommands, [{ name: "add", text: "Make one." }]);
});
