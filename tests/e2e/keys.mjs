// Named API keys: the commands, a server that follows them, and OpenAI's own client, unchanged,
// that meets their limits.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { npm } from "./lib/clients.mjs";
import { eventually, nativeWorker, packageOf, reasonToSkip, serve, weft } from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny");
const kOwn = "0123456789abcdef0123456789abcdef";
const kQuestion = {
  model: "weft-tiny", temperature: 0, max_tokens: 20,
  messages: [{ role: "user", content: "Where does Mira live?" }],
};

let folder;
let environment;
let server;

// `weft keys ...`: {status, stdout, stderr}.
function keys(args, more = {}) {
  const env = { ...process.env, ...environment, WEFT_API_KEY: "", ...more };
  return spawnSync(weft, ["keys", ...args], { encoding: "utf8", env });
}

// The key that is made.
function add(...args) {
  const made = keys(["add", ...args]);
  assert.equal(made.status, 0, made.stderr);
  assert.match(made.stdout, /^weft-[0-9a-f]{32}\n$/, "the key alone, for scripts");
  return made.stdout.trim();
}

async function clientOf(apiKey) {
  const { default: OpenAI } = await npm("openai");
  return new OpenAI({ baseURL: `${server.origin}/v1`, apiKey, maxRetries: 0 });
}

const ask = async (apiKey, more = {}) =>
  await (await clientOf(apiKey)).chat.completions.create({ ...kQuestion, ...more });

async function fails(apiKey, name, more) {
  const { default: OpenAI } = await npm("openai");
  const error = await ask(apiKey, more).then(() => assert.fail("it was answered"), (e) => e);
  assert(error instanceof OpenAI[name], `${error}`);
  return error;
}

async function get(path, apiKey, options = {}) {
  const headers = { Authorization: `Bearer ${apiKey}`, ...options.headers };
  return await fetch(`${server.origin}${path}`, { ...options, headers });
}

// The server has seen it.
async function known(key) {
  await eventually(async () => assert.equal((await get("/v1/models", key)).status, 200), 1500);
}

async function listed(name) {
  const { data } = await (await get("/api/keys", kOwn)).json();
  return data.find((key) => key.name === name);
}

before(async () => {
  if (skip) return;
  folder = mkdtempSync(join(tmpdir(), "weft-keys-"));
  environment = { XDG_STATE_HOME: folder };
  server = await serve(packageOf("weft-tiny"), ["--threads", "1"],
    { ...environment, WEFT_API_KEY: kOwn });
  await eventually(async () => {
    const swarm = await (await get("/api/swarm", kOwn)).json();
    assert.equal(swarm.state, "up");
  });
});

after(async () => {
  await server?.stop();
  if (folder) rmSync(folder, { recursive: true });
});

test("keys are made, listed and ended, while a server runs", { skip }, async () => {
  assert(!existsSync(join(folder, "weft/weft.db")), "a server that has no keys makes no file");
  assert.match(keys(["list"]).stdout, /There are no keys/);
  const key = add("maths", "--per-minute", "60", "--expires", "90d");
  const file = join(folder, "weft/weft.db");
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert(!readFileSync(file).includes(key), "only its hash is kept");
  assert.match(keys(["list"]).stdout, /maths +user +active +\d{4}-\d\d-\d\dT\S+ +0 +0 +60\/min/);

  await known(key);
  const answer = await ask(key);
  assert.match(answer.choices[0].message.content, /^Mira lives/);

  const begin = Date.now();
  assert.equal(keys(["end", "maths"]).status, 0);
  await eventually(async () => assert.equal((await get("/v1/models", key)).status, 401), 3000);
  assert(Date.now() - begin < 1500, `it took ${Date.now() - begin} ms`);
  const error = await fails(key, "AuthenticationError");
  assert.match(error.message, /'maths' was ended/);
  assert.match(keys(["list"]).stdout, /1 ended before/);
  const [{ state, ended }] = JSON.parse(keys(["list", "--json"]).stdout);
  assert.equal(state, "ended");
  assert(Math.abs(Date.parse(ended) - begin) < 5000);
});

test("what is wrong is told by name", { skip }, () => {
  add("art");
  const said = (...args) => {
    const { status, stdout, stderr } = keys(args);
    assert.notEqual(status, 0);
    assert.equal(stdout, "");
    return stderr;
  };
  assert.match(said("add", "art"), /There is a key 'art' already.*weft keys end art/);
  assert.match(said("end", "atr"), /There is no key 'atr'. Did you mean 'art'\?/);
  assert.match(said("add", "x", "--role", "amdin"), /no role 'amdin'.*Did you mean 'admin'\?/);
  assert.match(said("add", "x", "--expires", "2027-02-30"), /'2027-02-30' is no time; expected/);
  assert.match(said("add", "x", "--expires", "2001-01-01"), /is over already/);
  assert.match(said("add", "x", "--per-minute", "0"), /per-minute/);
  assert.match(said("add", "a/b"), /cannot have the name 'a\/b'/);
  assert.match(said("add", "x", "--server", "http://127.0.0.1:1"), /127\.0\.0\.1:1/);
  writeFileSync(join(folder, "bad.db"), "no database");
  assert.match(said("list", "--file", join(folder, "bad.db")), /bad\.db' cannot be read/);
  assert.equal(readFileSync(join(folder, "bad.db"), "utf8"), "no database");
});

test("roles open what they are for", { skip }, async () => {
  const user = add("user-1");
  const metrics = add("watch", "--role", "metrics");
  const admin = add("boss", "--role", "admin");
  await known(admin);
  const status = async (path, key) => (await get(path, key)).status;
  for (const [path, ofUser, ofMetrics, ofAdmin] of [
    ["/v1/models", 200, 403, 200], ["/api/swarm", 200, 403, 200], ["/metrics", 403, 200, 200],
    ["/api/keys", 403, 403, 200], ["/api/share", 403, 403, 200],
  ]) {
    assert.equal(await status(path, user), ofUser, path);
    assert.equal(await status(path, metrics), ofMetrics, path);
    assert.equal(await status(path, admin), ofAdmin, path);
  }
  const error = await fails(metrics, "PermissionDeniedError");
  assert.match(error.message, /role 'metrics'; this wants the role 'user'/);
  await fails("weft-0123456789abcdef0123456789abcdef", "AuthenticationError");
  const text = await (await get("/metrics", metrics)).text();
  assert.match(text, /weft_keys\{role="metrics"\} 1\n/);
  assert(!text.includes("watch"), "no names");
});

test("limits are met as OpenAI's own errors", { skip }, async () => {
  const minute = add("minute", "--per-minute", "2");
  const once = add("once", "--at-once", "1");
  const tokens = add("tokens", "--tokens-per-day", "20");
  const elsewhere = add("elsewhere", "--models", "Qwen3-8B,gpt-oss");
  await known(elsewhere);

  const client = await clientOf(minute);
  const first = await client.chat.completions.create(kQuestion).withResponse();
  assert.equal(first.response.headers.get("x-ratelimit-limit-requests"), "2");
  assert.equal(first.response.headers.get("x-ratelimit-remaining-requests"), "1");
  assert.match(first.response.headers.get("x-ratelimit-reset-requests"), /^(1m0s|\d+s)$/);
  await ask(minute);
  const limited = await fails(minute, "RateLimitError");
  assert.equal(limited.code, "rate_limit_exceeded");
  const wait = Number(limited.headers.get("retry-after"));
  assert(wait > 30 && wait <= 60, `${wait}`);

  const stream = await ask(once, { stream: true, ignore_eos: true, max_tokens: 1500 });
  const pieces = stream[Symbol.asyncIterator]();
  await pieces.next();
  assert.match((await fails(once, "RateLimitError")).message, /1 requests under way/);
  stream.controller.abort();
  await eventually(() => ask(once), 5000);

  const whole = await ask(tokens, { max_tokens: 40, ignore_eos: true });
  assert.equal(whole.usage.completion_tokens, 40, "an answer under way is not cut");
  assert.match((await fails(tokens, "RateLimitError")).message, /of its 20 tokens of today/);
  const { today } = await listed("tokens");
  assert.equal(today.requests, 1);
  assert.equal(today.completion_tokens, 40);
  assert.equal(today.prompt_tokens, whole.usage.prompt_tokens);

  const denied = await fails(elsewhere, "PermissionDeniedError");
  assert.match(denied.message, /for 'Qwen3-8B', 'gpt-oss'; this server has 'weft-tiny'/);
});

test("a running server makes and ends keys", { skip }, async () => {
  const place = ["--server", server.origin];
  const own = { WEFT_API_KEY: kOwn };
  const made = keys(["add", "remote", "--per-minute", "5", "--expires", "8h", ...place], own);
  assert.equal(made.status, 0, made.stderr);
  const key = made.stdout.trim();
  assert.equal((await get("/v1/models", key)).status, 200, "at once");
  assert.match(keys(["list", ...place], own).stdout, /remote +user +active/);
  assert.match(keys(["add", "remote", ...place], own).stderr, /409: There is a key 'remote'/);
  assert.match(keys(["list", ...place], { WEFT_API_KEY: key }).stderr, /403: .*the role 'admin'/);
  assert.match(keys(["list", ...place]).stderr, /401/);
  const file = join(folder, "admin.txt");
  writeFileSync(file, `${kOwn}\n`);
  assert.equal(keys(["end", "remote", ...place, "--api-key-file", file]).status, 0);
  assert.equal((await get("/v1/models", key)).status, 401, "at once");
  assert.match(keys(["end", "remote", ...place], own).stderr, /404: The key 'remote' ended/);
  const body = JSON.stringify({ name: "x", rol: "user" });
  const refused = await get("/api/keys", kOwn, { method: "POST", body });
  assert.equal(refused.status, 400);
  assert.match((await refused.json()).error.message, /no field 'rol'. Did you mean 'role'\?/);
});

test("two keys share no idempotency key and no computed prefix", { skip }, async () => {
  const [one, two] = [add("one"), add("two")];
  await known(two);
  const question = { ...kQuestion, temperature: 2, max_tokens: 40, ignore_eos: true };
  const answer = async (key, more = {}) => {
    const response = await get("/v1/chat/completions", key, {
      method: "POST", body: JSON.stringify({ ...question, ...more }),
      headers: { "Content-Type": "application/json", "Idempotency-Key": "mine" },
    });
    return { status: response.status, body: await response.json() };
  };
  const first = await answer(one);
  const textOf = ({ body }) => body.choices[0].message.content;
  assert.equal(textOf(await answer(one)), textOf(first), "one user asks again");
  assert.equal((await answer(one, { max_tokens: 41 })).status, 422);
  const other = await answer(two, { max_tokens: 41 });
  assert.equal(other.status, 200, JSON.stringify(other.body));
  assert(!textOf(other).startsWith(textOf(first).slice(0, 60)), "another seed");
  assert.equal(other.body.usage.prompt_tokens_details.cached_tokens, 0);
});

test("join links end, and helpers may do nothing else", { skip }, async () => {
  const place = ["--server", server.origin];
  const env = { ...process.env, ...environment, WEFT_API_KEY: kOwn };
  const link = spawnSync(weft, ["join-link", "--hours", "2", "--name", "phones", ...place],
    { encoding: "utf8", env });
  assert.equal(link.status, 0, link.stderr);
  const [, page, token] = link.stdout.match(/^(http\S+\/join)#(weft-[0-9a-f]{32})\n$/);
  assert.equal(page, `${server.origin}/join`);
  assert.equal((await get("/package/weft.json", token)).status, 200);
  assert.equal((await get("/v1/models", token)).status, 403);

  const cache = join(folder, "cache");
  const args = ["--threads", "1", "--memory", "20MiB", "--cache", cache, "--name", "phone"];
  const help = () => nativeWorker(server.origin, args, { ...environment, WEFT_JOIN_TOKEN: token });
  const helper = help();
  const names = async () =>
    (await (await get("/api/swarm", kOwn)).json()).workers.map(({ name }) => name);
  await eventually(async () => assert((await names()).includes("phone"), helper.output));
  await helper.stop();
  assert.equal(keys(["end", "phones"]).status, 0);
  await eventually(async () =>
    assert.equal((await get("/package/weft.json", token)).status, 401), 1500);
  const late = help();
  assert.notEqual(await late.exited, 0);
  assert.match(late.output, /401|join token/);

  const alone = spawnSync(weft, ["join-link"], { encoding: "utf8", env });
  assert.match(alone.stdout, /^weft-[0-9a-f]{32}\n$/, "no address is known");
  assert.match(keys(["list"]).stdout, /link-\d{4}-\d\d-\d\d-[0-9a-f]{6} +helper +active/);
});

test("usage outlives the server", { skip }, async () => {
  const key = add("counted");
  await known(key);
  const { usage } = await ask(key);
  const before = (await listed("counted")).today;
  assert.equal(before.completion_tokens, usage.completion_tokens);
  await server.stop();
  const after = JSON.parse(keys(["list", "--json"]).stdout).find(({ name }) => name === "counted");
  assert.deepEqual(after.today, before);
  const port = new URL(server.origin).port;
  server = await serve(packageOf("weft-tiny"), ["--threads", "1", "--port", port],
    { ...environment, WEFT_API_KEY: kOwn });
  assert.deepEqual((await listed("counted")).today, before);
  assert.equal((await get("/v1/models", key)).status, 200, "keys outlive it as well");
});

test("a file that is damaged stops who asks for it, and nobody else", { skip }, async () => {
  const file = join(folder, "damaged.db");
  writeFileSync(file, "x".repeat(5000), { mode: 0o600 });
  const args = ["serve", packageOf("weft-tiny"), "--port", "0", "--no-worker"];
  const refused = spawnSync(weft, [...args, "--keys", file], { encoding: "utf8" });
  assert.equal(refused.status, 4);
  assert.match(refused.stderr, /damaged\.db' cannot be read as a database.*move it away/s);
  const state = join(folder, "other");
  execFileSync("mkdir", ["-p", join(state, "weft")]);
  writeFileSync(join(state, "weft/weft.db"), "x".repeat(5000), { mode: 0o600 });
  const going = await serve(packageOf("weft-tiny"), ["--no-worker"], { XDG_STATE_HOME: state });
  await going.waitFor(/goes on without named keys/);
  await going.stop();
});
