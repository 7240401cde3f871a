// The example of docs/compose.yaml: its commands are those that this program takes. Where Docker
// or a parser of YAML is there, these read it, too.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { root, weft } from "./lib/weft.mjs";

const file = join(root, "docs/compose.yaml");
const text = readFileSync(file, "utf8");
const skip = existsSync(weft) ? false : `there is no ${weft}`;

// {name: {command: [...], ports: [...], ...}}: lists in brackets are JSON.
function services() {
  const found = {};
  for (const [, name, body] of text.matchAll(/^ {2}(\w+):\n((?: {4}.*\n| {6}.*\n)+)/gm)) {
    found[name] = {};
    for (const [, field, list] of body.matchAll(/^ {4}(\w+): (\[[^\]]*\])/gm))
      found[name][field] = JSON.parse(list);
    for (const [, variable, value] of body.matchAll(/^ {6}([A-Z_]+): (\S+)$/gm))
      found[name][variable] = value;
  }
  return found;
}

function optionsOf(...command) {
  const help = spawnSync(weft, [...command, "--help"], { encoding: "utf8" });
  assert.equal(help.status, 0, help.stderr);
  return new Set(help.stdout.match(/(?<![\w-])--[a-z][a-z-]*/g));
}

const isOption = (word) => word.startsWith("--");

test("servers of the example are started with options that there are", { skip }, () => {
  const known = optionsOf("serve");
  const { a, b } = services();
  for (const { command, ports } of [a, b]) {
    assert.equal(command[0], "serve");
    for (const option of command.filter(isOption)) assert.ok(known.has(option), option);
    const valueOf = (option) => command[command.indexOf(option) + 1];
    assert.equal(ports[0], `${valueOf("--port")}:${valueOf("--port")}`);
    assert.equal(new URL(valueOf("--url")).port, valueOf("--port"));
  }
  assert.deepEqual(a.command.filter(isOption), b.command.filter(isOption));
  assert.notEqual(a.command.join(), b.command.join());
});

test("the example makes the key where its servers look for it", { skip }, () => {
  const { init, a, b } = services();
  const words = init.command[0].split(" ");
  assert.deepEqual(words.slice(0, 3), ["weft", "cluster", "init"]);
  const known = optionsOf("cluster", "init");
  for (const option of words.filter(isOption)) assert.ok(known.has(option), option);
  for (const { command } of [a, b]) {
    assert.equal(command[command.indexOf("--cluster") + 1], init.WEFT_CLUSTER);
    assert.equal(command[command.indexOf("--cluster-key") + 1], init.KEY);
  }
});

const yaml = spawnSync("python3", ["-c", "import yaml"]).status === 0;

test("the example is YAML", { skip: yaml ? false : "python3-yaml is not installed" }, () => {
  const script = "import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.stdin)))";
  const { status, stdout, stderr } = spawnSync("python3", ["-c", script],
    { input: text, encoding: "utf8" });
  assert.equal(status, 0, stderr);
  const parsed = JSON.parse(stdout);
  assert.deepEqual(Object.keys(parsed.services), ["db", "init", "a", "b"]);
  assert.deepEqual(parsed.services.a.command, services().a.command);
  const volumes = Object.values(parsed.services).flatMap((service) => service.volumes);
  for (const volume of volumes) assert.ok(volume.split(":")[0] in parsed.volumes, volume);
});

const compose = spawnSync("docker", ["compose", "version"]).status === 0;

test("Docker takes the example", { skip: compose ? false : "there is no Docker" }, () => {
  const { status, stderr } = spawnSync("docker", ["compose", "-f", file, "config", "--quiet"],
    { encoding: "utf8", env: { ...process.env, WEFT_DB_PASSWORD: "x" } });
  assert.equal(status, 0, stderr);
});
