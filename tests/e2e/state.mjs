// What servers know goes out into a file and comes in on another machine.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { packageOf, reasonToSkip, serve, weft } from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny");

// Without a seed: what the text says comes from the key.
async function ask(origin, key) {
  const answer = await fetch(`${origin}/v1/chat/completions`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "Idempotency-Key": key },
    body: JSON.stringify({
      messages: [{ role: "user", content: "Tell me about a fox." }],
      temperature: 1, max_tokens: 24, ignore_eos: true,
    }),
  });
  const body = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(body));
  return body.choices[0].message.content;
}

async function withServer(folder, body) {
  const server = await serve(packageOf("weft-tiny"),
    ["--context", "256", "--journal", join(folder, "serve.db")]);
  try {
    return await body(server);
  } finally {
    server.child.kill("SIGTERM");
    await server.exited;
  }
}

function inFolder(body) {
  return async () => {
    const folder = mkdtempSync(join(tmpdir(), "weft-state-"));
    try {
      await body(folder);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  };
}

test("an export has all that another machine needs", { skip, timeout: 180_000 },
  inFolder(async (folder) => {
    const places = (machine) => ["--keys", join(folder, `${machine}.keys`),
      "--journal", join(folder, machine, "serve.db")];
    const key = execFileSync(weft, ["keys", "add", "maths", "--file", join(folder, "a.keys")],
      { encoding: "utf8" }).trim();
    let first;
    const exported = join(folder, "export.jsonl");
    await withServer(join(folder, "a"), async ({ origin }) => {
      first = await ask(origin, "a-key");
      const out = spawnSync(weft, ["state", "export", exported, ...places("a")],
        { encoding: "utf8" });
      assert.equal(out.status, 0, out.stderr);
      assert.match(out.stderr, /1 rows of keys and usage/);
    });
    assert.equal(statSync(exported).mode & 0o777, 0o600);
    const text = readFileSync(exported, "utf8");
    assert.equal(text.indexOf(key), -1, "keys are hashes");
    for (const line of text.trim().split("\n")) JSON.parse(line);

    const imported = spawnSync(weft, ["state", "import", exported, ...places("b")],
      { encoding: "utf8" });
    assert.equal(imported.status, 0, imported.stderr);
    const listed = execFileSync(weft, ["keys", "list", "--file", join(folder, "b.keys")],
      { encoding: "utf8" });
    assert.match(listed, /maths/);
    await withServer(join(folder, "b"), async ({ origin }) => {
      assert.equal(await ask(origin, "a-key"), first);
    });
    const again = spawnSync(weft, ["state", "import", exported, ...places("b")],
      { encoding: "utf8" });
    assert.equal(again.status, 5, again.stderr);
    assert.match(again.stderr, /an import needs an empty one/);
  }));

test("what is no export is refused, and nothing is made of it", { skip: false },
  inFolder(async (folder) => {
    const run = (...args) => spawnSync(weft, ["state", ...args, "--keys", join(folder, "k.db"),
      "--journal", join(folder, "j.db")], { encoding: "utf8" });
    const missing = run("import", join(folder, "none"));
    assert.equal(missing.status, 3);
    assert.match(missing.stderr, /There is no file/);
    writeFileSync(join(folder, "letter"), "dear weft\n");
    const letter = run("import", join(folder, "letter"));
    assert.equal(letter.status, 4);
    assert.match(letter.stderr, /Line 1 is no row of an export: it is no JSON object/);
    const nothing = run("export", join(folder, "out"));
    assert.equal(nothing.status, 3, nothing.stderr);
  }));
