// Installs what `./dev package` packed in empty folders and asks for an answer there: the one npm
// file that has everything, the two that would be published, and the tarball. No registry is asked.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { copyFileSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

const packed = fileURLToPath(new URL("../build/package/", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "weft-npx-"));
after(() => rmSync(folder, { recursive: true, force: true }));
const kPatienceMs = 120_000;

// An npm that knows nothing of this machine's user and reaches no registry.
const environment = {
  PATH: process.env.PATH, HOME: folder, npm_config_cache: join(folder, "npm"),
  npm_config_registry: "http://127.0.0.1:9/", npm_config_fetch_retries: "0",
  npm_config_audit: "false", npm_config_yes: "true", npm_config_loglevel: "error",
};

const fileLike = (pattern) => {
  const name = readdirSync(packed).find((entry) => pattern.test(entry));
  assert.ok(name, `${pattern} is not in build/package`);
  return join(packed, name);
};

// Runs `weft serve` of the small model that the package brings, until it has answered once. Gives
// the seconds until then.
async function answersBy(command, args, model) {
  const beginMs = performance.now();
  const child = spawn(command, [...args, "serve", "--port", "0", model], {
    cwd: folder, env: environment, stdio: ["ignore", "pipe", "pipe"], detached: true,
  });
  try {
    const address = await addressOf(child);
    const response = await fetch(`${address}/v1/chat/completions`, {
      method: "POST", headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ model: "weft-tiny", max_tokens: 8,
        messages: [{ role: "user", content: "Tell me a story." }] }),
    });
    const answer = await response.json();
    const seconds = ((performance.now() - beginMs) / 1000).toFixed(1);
    assert.ok(answer.choices?.[0].message.content.length > 0, JSON.stringify(answer));
    assert.match(await (await fetch(`${address}/`)).text(), /<title>weft/i);
    return seconds;
  } finally {
    // As a terminal's Ctrl-C: npx does not pass on what it alone is sent.
    process.kill(-child.pid, "SIGINT");
    await new Promise((resolve) => child.on("close", resolve));
  }
}

function addressOf(child) {
  return new Promise((resolve, reject) => {
    let said = "";
    const timer = setTimeout(() => reject(new Error(`no address: ${said}`)), kPatienceMs);
    timer.unref();
    const listen = (text) => {
      said += text;
      const address = /^ {2}API: +(http\S+)\/v1$/m.exec(said)?.[1];
      if (address) resolve(address);
    };
    child.stdout.on("data", listen);
    child.stderr.on("data", listen);
    child.on("close", () => reject(new Error(`it ended: ${said}`)));
    child.on("close", () => clearTimeout(timer));
  });
}

test("npx with the one file runs weft and answers", async (t) => {
  // An absolute path would be run as a program itself.
  const whole = fileLike(/^weft-\d.*\.tgz$/);
  const file = `./${basename(whole)}`;
  copyFileSync(whole, join(folder, file));
  const installed = mkdtempSync(join(folder, "model-"));
  writeFileSync(join(installed, "package.json"), "{}");
  execFileSync("npm", ["install", whole], { cwd: installed, env: environment });
  const model = join(installed, "node_modules/@weft-swarm/weft/node_modules",
    "@weft-swarm/weft-linux-x64/share/weft/models/weft-tiny");
  // The first run of npx unpacks the file once more.
  t.diagnostic(`first answer after ${await answersBy("npx", [file], model)} s`);
  const version = execFileSync("npx", [file, "--version"], { cwd: folder, env: environment,
    encoding: "utf8" });
  assert.match(version, /^weft \d/);
});

test("the launcher and the program as two packages run weft", async () => {
  const files = [fileLike(/^npm-linux-x64-.*\.tgz$/), fileLike(/^npm-launcher-.*\.tgz$/)];
  const own = mkdtempSync(join(folder, "two-"));
  writeFileSync(join(own, "package.json"), "{}");
  execFileSync("npm", ["install", ...files], { cwd: own, env: environment });
  const model = join(own, "node_modules/@weft-swarm/weft-linux-x64/share/weft/models/weft-tiny");
  await answersBy(join(own, "node_modules/.bin/weft"), [], model);
});

test("the launcher says what is missing", () => {
  const own = mkdtempSync(join(folder, "one-"));
  writeFileSync(join(own, "package.json"), "{}");
  execFileSync("npm", ["install", "--omit=optional", fileLike(/^npm-launcher-.*\.tgz$/)],
    { cwd: own, env: environment });
  assert.throws(
    () => execFileSync(join(own, "node_modules/.bin/weft"), ["--version"], { stdio: "pipe" }),
    /weft-linux-x64 is missing/);
});

test("the tarball runs weft where it is unpacked", async () => {
  const file = fileLike(/^weft-\d.*\.tar\.gz$/);
  execFileSync("tar", ["-xzf", file, "-C", folder]);
  const tree = join(folder, readdirSync(folder).find((name) => /^weft-\d/.test(name)));
  await answersBy(join(tree, "bin/weft"), [], join(tree, "share/weft/models/weft-tiny"));
});
