// Starts weft itself for end-to-end tests: packages converted once, servers and native workers on
// free ports, chat completions, the picture of the swarm.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import {
  cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

import { encodeTensor } from "../../../tools/convert_oracle/gguf_blocks.mjs";
import { ggufMetadata, ggufTensors, writeGguf } from
  "../../../tools/convert_oracle/gguf_writer.mjs";
import { readSafetensors } from "../../../tools/onnx_check/reference.mjs";

export const root = fileURLToPath(new URL("../../../", import.meta.url));
export const weft = process.env.WEFT ?? join(root, "build/release/weft");
export const data = process.env.WEFT_DATA ?? join(root, "build/test-data");

// Sources of the packages that tests use.
const kModels = {
  "weft-tiny": join(root, "models/weft-tiny"),
  "weft-tiny-moe": join(root, "models/weft-tiny-moe"),
  stories260K: join(data, "stories260K"),
};

export function reasonToSkip(...models) {
  if (!existsSync(weft)) return `there is no ${weft}`;
  for (const model of models) {
    if (!existsSync(kModels[model])) return `there is no ${kModels[model]}`;
  }
  return false;
}

export function modelFolder(model) {
  return kModels[model];
}

// The folder of the converted model, with weights of this type (default: convert's).
export function packageOf(model, quantisation = "") {
  const name = [model, quantisation].filter(Boolean).join("-");
  const folder = join(root, "build/e2e/packages", name);
  if (existsSync(join(folder, "weft.json"))) return folder;
  // Two processes of tests may want it at the same time: whoever is first puts it there whole.
  const making = mkdtempSync(join(mkdir("build/e2e"), "making-"));
  const how = quantisation === "" ? [] : ["--quant", quantisation];
  const source = withChatTemplate(kModels[model], making);
  execFileSync(weft, ["convert", source, join(making, name), ...how], { stdio: "pipe" });
  mkdir("build/e2e/packages");
  try {
    renameSync(join(making, name), folder);
  } catch (error) {
    if (!existsSync(join(folder, "weft.json"))) throw error;
  }
  rmSync(making, { recursive: true });
  return folder;
}

function mkdir(name) {
  mkdirSync(join(root, name), { recursive: true });
  return join(root, name);
}

// A model without a chat template gets one that joins what is said, in a copy of its folder, so
// that tests may ask any model in the same way.
function withChatTemplate(source, folder) {
  const config = JSON.parse(readFileSync(join(source, "tokenizer_config.json"), "utf8"));
  if (config.chat_template || existsSync(join(source, "chat_template.jinja"))) return source;
  const copy = join(folder, "models", basename(source));
  cpSync(source, copy, { recursive: true });
  const joined = "{{ bos_token }}{% for message in messages %}{{ message.content }}{% endfor %}";
  writeFileSync(join(copy, "chat_template.jinja"), joined);
  return copy;
}

// The same with dense MLPs in neuron groups of 64 columns, and how many groups and ranges it has.
// `more`: arguments of `weft groups`.
export function groupedPackageOf(model, ...more) {
  const from = packageOf(model);
  const folder = [`${from}-groups`, ...more].join("");
  const text = `${folder}.jsonl`;
  const documents = ["Tell me a story about a fox.", "Once upon a time there was a bear."];
  writeFileSync(text, documents.map((each) => JSON.stringify(each)).join("\n"));
  const args = ["groups", from, folder, "--text", text, "--columns", "64", "--force", ...more];
  const said = execFileSync(weft, args, { stdio: "pipe" }).toString();
  const [, layers, each] = said.match(/(\d+) layers of (\d+) neuron groups/);
  const [ofHead, ofAttention] = ["the output head", "attention"].map((what) =>
    Number(said.match(new RegExp(`${what} in (\\d+) ranges`))?.[1] ?? 0));
  return { folder, groups: Number(layers) * Number(each) + ofHead + ofAttention };
}

// The model as a GGUF file of Q4_K, Q5_K and Q6_K, whose superblocks the package keeps, with the
// model's own tokenizer.
export function kQuantPackageOf(model) {
  const from = packageOf(model);
  const folder = `${from}-k`;
  const making = mkdtempSync(join(mkdir("build/e2e"), "making-"));
  const config = JSON.parse(readFileSync(join(kModels[model], "config.json"), "utf8"));
  const checkpoint = readSafetensors(join(kModels[model], "model.safetensors"));
  const tensors = ggufTensors(config, checkpoint).map(({ name, shape, values }) => {
    const type = shape.length < 2 ? "F32" : name.includes("ffn_down") ? "Q6_K" :
      name.includes("ffn_up") ? "Q5_K" : "Q4_K";
    return { name, type, shape, bytes: encodeTensor(type, values) };
  });
  const file = join(making, "model.gguf");
  writeGguf(file, ggufMetadata(config).metadata, tensors);
  const args = ["convert", file, folder, "--quant", "keep-k", "--name", model, "--force"];
  execFileSync(weft, [...args, "--no-tokenizer"], { stdio: "pipe" });
  rmSync(making, { recursive: true });
  const manifestOf = (path) => JSON.parse(readFileSync(join(path, "weft.json"), "utf8"));
  const manifest = manifestOf(folder);
  const { files } = manifestOf(from);
  for (const name of ["tokenizer.json", "tokenizer_config.json", "generation_config.json"]) {
    cpSync(join(from, name), join(folder, name));
    manifest.files[name] = files[name];
  }
  writeFileSync(join(folder, "weft.json"), JSON.stringify(manifest));
  return folder;
}

// Those that have not ended: while one of them is there, the file that started it does not end.
const running = new Set();

class Process {
  constructor(args, environment, prefix = []) {
    this.output = "";
    const [program, ...all] = [...prefix, weft, ...args];
    this.child = spawn(program, all, { env: { ...process.env, ...environment } });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream.setEncoding("utf8");
      stream.on("data", (text) => (this.output += text));
    }
    this.exited = new Promise((resolve) => this.child.on("exit", resolve));
    running.add(this);
    this.exited.then(() => running.delete(this));
  }

  async waitFor(pattern, timeoutMs = 20_000) {
    return await eventually(() => {
      const match = this.output.match(pattern);
      assert(match, `no ${pattern} in: ${this.output}`);
      return match;
    }, timeoutMs);
  }

  async stop() {
    this.child.kill("SIGTERM");
    const timer = setTimeout(() => this.child.kill("SIGKILL"), 5000);
    await this.exited;
    clearTimeout(timer);
  }
}

// Ends every server and worker that a file has started.
export async function endAll() {
  await Promise.all([...running].map((each) => each.stop()));
}

// `weft serve` of a package, or of several, on any port unless `args` names one; stop() ends it.
// `prefix` is a command that runs another one in its place.
export async function serve(folder, args, environment = {}, prefix = []) {
  const port = args.includes("--port") ? [] : ["--port", "0"];
  // A GPU that this machine may have takes part only in tests that ask for it.
  const own = { WEFT_GPU: "off", ...environment };
  const server = new Process(["serve", ...[folder].flat(), ...port, ...args], own, prefix);
  const match = await server.waitFor(/chat:\s+(https?:\/\/[^/\s]+)\//).catch(async (error) => {
    await server.stop();
    throw error;
  });
  server.origin = match[1];
  return server;
}

export function nativeWorker(origin, args, environment = {}) {
  return new Process(["worker", origin.replace(/^http/, "ws"), ...args], environment);
}

// Without a GPU, Dawn computes on the software adapter that Debian's Chromium brings.
const kSoftware = "/usr/lib/chromium/vk_swiftshader_icd.json";
export const softwareGpu = {
  VK_ICD_FILENAMES: kSoftware,
  LD_LIBRARY_PATH: [process.env.LD_LIBRARY_PATH, "/usr/lib/chromium"].filter(Boolean).join(":"),
};

export function noDawn() {
  const needed = [join(root, "web/dist/headless/worker.mjs"),
    join(root, "web/node_modules/webgpu/index.js"), kSoftware];
  const missing = needed.find((path) => !existsSync(path));
  return missing ? `there is no ${missing}` : false;
}

// `weft worker --gpu`; with `isAllowed` it takes the software adapter.
export function gpuWorker(origin, args, isAllowed = true, environment = {}) {
  const software = isAllowed ? ["--allow-software"] : [];
  const address = origin.replace(/^http/, "ws");
  return new Process(["worker", "--gpu", ...software, ...args, address],
    { ...softwareGpu, ...environment });
}

export async function swarmOf(origin) {
  const response = await fetch(`${origin}/api/swarm`);
  return await response.json();
}

// A whole answer; `stream` is what /v1/chat/completions or /v1/completions takes.
export async function complete(origin, request) {
  const response = await fetch(`${origin}/v1/chat/completions`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ temperature: 0, ...request }),
  });
  const answer = await response.json();
  assert.equal(response.status, 200, JSON.stringify(answer));
  return answer;
}

// Streams an answer; `onDelta` is told of each piece of text. The whole text and its finish reason.
export async function stream(origin, request, onDelta = () => {}) {
  const response = await fetch(`${origin}/v1/chat/completions`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ temperature: 0, ...request, stream: true }),
  });
  assert.equal(response.status, 200);
  let text = "";
  let finishReason = null;
  let pending = "";
  for await (const bytes of response.body.pipeThrough(new TextDecoderStream())) {
    pending += bytes;
    const events = pending.split("\n\n");
    pending = events.pop();
    for (const event of events) {
      const data = event.replace(/^data: /, "");
      if (data === "[DONE]" || !event.startsWith("data: ")) continue;
      const [choice] = JSON.parse(data).choices ?? [];
      if (!choice) continue;
      finishReason = choice.finish_reason ?? finishReason;
      if (!choice.delta?.content) continue;
      text += choice.delta.content;
      await onDelta(text);
    }
  }
  return { text, finishReason };
}

// The text of an answer at whose first piece a worker gets a signal.
export async function textWhileLosing(origin, request, worker, signal = "SIGKILL") {
  let sent = false;
  const { text } = await stream(origin, request, () => {
    if (sent) return;
    sent = true;
    worker.child.kill(signal);
  });
  assert.ok(sent, "the answer had no text");
  return text;
}

// What `promise` gives, or an error after so long, so that the test that waits still cleans up.
export async function within(timeoutMs, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`nothing came in ${timeoutMs} ms`)), timeoutMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

// Waits until `check` does not throw any more. A machine whose cores others use takes its time.
export async function eventually(check, timeoutMs = 45_000) {
  const endMs = Date.now() + timeoutMs;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (Date.now() > endMs) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

// So many devices are there, nobody loads any more, and they hold so many experts, or neuron
// groups, between them.
export async function settled(server, count, experts) {
  let quietSince = Date.now();
  await eventually(async () => {
    const swarm = await swarmOf(server.origin);
    const held = swarm.workers.reduce((sum, each) => sum + each.experts_held, 0);
    const isQuiet = swarm.state === "up" && swarm.workers.length === count &&
      swarm.workers.every((each) => each.experts_held === each.experts_told) &&
      swarm.workers.every((each) => each.state !== "preparing") && held >= experts;
    if (!isQuiet) quietSince = Date.now();
    assert.ok(Date.now() - quietSince > 1500, `${JSON.stringify(swarm.workers)} ${server.output}`);
  }, 100_000);
}
