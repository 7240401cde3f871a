// llama.cpp, as npm has it built for this processor or GPU, as a subject of `./dev bench engine`
// and `gpu-llama`: it does what lines of its input say, and answers each with a line of JSON.
//
//   node bench/engine/llama_subject.mjs model.gguf --threads 2 --context 3000
//   prefill 512     a prompt of 512 rows                            {"ms":...,"cpu_ms":...}
//   decode 128 32   32 tokens behind 128 positions                  the same of all, together
import { statSync } from "node:fs";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";

import { getLlama, LlamaLogLevel } from "node-llama-cpp";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    threads: { type: "string", default: "2" },
    context: { type: "string", default: "3000" },
    gpu: { type: "string" }, // vulkan or cuda: all layers there
  },
});
const [modelPath] = positionals;
const threads = Number(values.threads);

const llama = await getLlama({
  gpu: values.gpu ?? false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: threads,
});
const model = await llama.loadModel({ modelPath, ...(values.gpu && { gpuLayers: "max" }) });
const context = await model.createContext({
  contextSize: Number(values.context), batchSize: 512, threads: { ideal: threads, min: threads },
});
const sequence = context.getSequence();

// No prompt begins as the one before it.
let round = 0;
const prompt = (count) => Array.from({ length: count }, (_, i) => 100 + ((++round + 7 * i) % 150));

// The clock's and the processor's milliseconds.
function begin() {
  const cpu = process.cpuUsage();
  const start = performance.now();
  return () => {
    const ms = performance.now() - start;
    const { user, system } = process.cpuUsage(cpu);
    return { ms, cpu_ms: (user + system) / 1e3 };
  };
}

async function prefill(count) {
  await sequence.clearHistory();
  const tokens = prompt(count);
  const time = begin();
  await sequence.evaluateWithoutGeneratingNewTokens(tokens);
  return time();
}

async function decode(position, count) {
  await sequence.clearHistory();
  const made = sequence.evaluate(prompt(position), { temperature: 0, yieldEogToken: true });
  await made.next(); // the prompt, whose last row gives the first token
  const time = begin();
  for (let i = 0; i < count; ++i) await made.next();
  const times = time();
  await made.return();
  return times;
}

const say = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);
const { size: bytes } = statSync(modelPath);
const cores = `${llama.cpuMathCores} cores, ${context.currentThreads} threads`;
say({ bytes, kernels: `npm's ${values.gpu ? llama.gpu : cores}` });
for await (const line of createInterface({ input: process.stdin })) {
  const [what, ...numbers] = line.split(" ");
  const [first, second] = numbers.map(Number);
  say(what === "prefill" ? await prefill(first) : await decode(first, second));
}
await llama.dispose();
