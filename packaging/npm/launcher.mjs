#!/usr/bin/env node
// Starts the program of this system's package: `npx @weft-swarm/weft run ...` is `weft run ...`.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { constants } from "node:os";
import { dirname, join } from "node:path";

// Where distributions keep the certificates that the program's own OpenSSL is to trust.
const kCertificates = [
  "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem",
];

function programFolder() {
  const system = `${process.platform}-${process.arch}`;
  if (system !== "linux-x64") {
    return fail(`weft has no program for ${system} yet, only for linux-x64. This device can help ` +
      "a weft server all the same: open the server's help address (/join) in a browser.");
  }
  try {
    const manifest = `@weft-swarm/weft-${system}/package.json`;
    return dirname(createRequire(import.meta.url).resolve(manifest));
  } catch {
    return fail(`The package @weft-swarm/weft-${system} is missing. npm leaves it out with ` +
      "--omit=optional or --no-optional: install weft again without that.");
  }
}

function fail(sentence) {
  console.error(sentence);
  process.exit(1);
}

function environment() {
  const found = kCertificates.find((path) => existsSync(path));
  return found ? { SSL_CERT_FILE: found, ...process.env } : process.env;
}

const child = spawn(join(programFolder(), "bin/weft"), process.argv.slice(2), {
  stdio: "inherit", env: environment(),
});
// A terminal sends Ctrl-C to both; the program says when it is over.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    if (signal !== "SIGINT" || !process.stdin.isTTY) child.kill(signal);
  });
}
child.on("error", (error) => fail(`The program does not start: ${error.message}. It needs Linux ` +
  "with glibc 2.36 or newer (Debian 12, Ubuntu 24.04, Fedora 37 or newer)."));
child.on("exit", (status, signal) => {
  process.exit(signal ? 128 + constants.signals[signal] : status);
});
