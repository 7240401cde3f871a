// Servers for the clients that people use, and these clients themselves, as they come from npm.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { inOrder, writeScriptedModel } from "./scripted_model.mjs";
import { eventually, packageOf, root, serve, weft } from "./weft.mjs";

const require = createRequire(join(root, "tools/package.json"));

// A package of tools/package.json.
export const npm = (name) => import(require.resolve(name));

async function withPackage(folder, body, { args = ["--threads", "1"], environment = {} } = {}) {
  const server = await serve(folder, args, environment);
  try {
    const { WEFT_API_KEY: key } = environment;
    const headers = key ? { "X-Api-Key": key } : {};
    await eventually(async () => {
      const swarm = await (await fetch(`${server.origin}/api/swarm`, { headers })).json();
      assert.equal(swarm.state, "up");
    });
    await body(server);
  } finally {
    await server.stop();
  }
}

// A model that writes stories, with what else `weft serve` is told.
export const withStories = (body, options) => withPackage(packageOf("weft-tiny"), body, options);

// What is said stands for itself; behind what a tool said the model begins otherwise.
const kTemplate = `{%- if tools %}{{ tools | tojson }}{% endif %}
{%- for m in messages %}[{{ m.role }}]
{%- if m.tool_calls %}{% for c in m.tool_calls %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}{% else %}{{ m.content }}{% endif %}<|end|>
{%- endfor %}{% if enable_thinking %}<think>{% endif %}
{%- if messages[-1].role == "tool" %}<|behind_tool|>{% else %}<|begin|>{% endif %}`;

// Thinks, calls get_weather, and says how warm it is when the tool has answered. What ends thoughts
// in its place is followed by a line break.
const kCalling = {
  "\n": "Let ",
  ...inOrder("<|begin|>", ["<think>", "Who ", "asks", "</think>", "Let ", "me look. ",
    "<tool_call>", "{\"name\": \"get_weather\", ", "\"arguments\": {\"city\": ", "\"Zürich\"}}",
    "</tool_call>"]),
  ...inOrder("<|behind_tool|>", ["It is ", "21 degrees", " there."]),
};

// A model called "scripted" that calls a tool.
export const withCalls = (body, options) => withScripted({
  follows: kCalling, special: ["<tool_call>", "</tool_call>", "<|behind_tool|>"],
}, body, options);

// One that says what `script` has it say (scripted_model.mjs), by the template above.
export async function withScripted(script, body, options) {
  const folder = mkdtempSync(join(tmpdir(), "weft-scripted-"));
  try {
    writeScriptedModel(join(folder, "source"), { chatTemplate: kTemplate, ...script });
    execFileSync(weft, ["convert", join(folder, "source"), join(folder, "scripted"), "--name",
      "scripted", "--quant", "f32"], { stdio: "pipe" });
    await withPackage(join(folder, "scripted"), body, options);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
