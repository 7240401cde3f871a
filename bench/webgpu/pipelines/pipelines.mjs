// What NVIDIA's driver makes of our kernels: machine code, registers, which instructions.
//
//   node bench/webgpu/pipelines/pipelines.mjs build DIR
//     builds the layer of pipeline_layer.cc in DIR (g++, Debian's libvulkan-dev) and prints how to
//     run something with it
//   node bench/webgpu/pipelines/pipelines.mjs read DIR [--least 200] [--of IDP]
//     disassembles what a run has left in DIR (zstd, nvdisasm of CUDA 12 or later) to DIR/*.sass,
//     and prints a line for every pipeline: registers, and how often it has which instructions.
//     --of and --least leave out those with fewer of one instruction.
//
// A pipeline's cache is NVIDIA's own form around one zstd frame, as driver 580 has it:
//
//   "NVuc", version, count of sections (16 bits) ...    32 bytes
//   kind, size, where it begins ...                      32 bytes for each section
//   kind 1 is the code, kind 3 the number of registers
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const kUsage = "usage: pipelines.mjs build|read DIR [--least N] [--of INSTRUCTION] [--card SM90]";
const kFrame = Buffer.from("28b52ffd", "hex");
const kProgram = Buffer.from("NVuc");
const kSectionBytes = 32;
const kCode = 1;
const kRegisters = 3;
const kName = "VK_LAYER_WEFT_pipelines";

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    least: { type: "string", default: "0" },
    of: { type: "string", default: "IDP" },
    card: { type: "string", default: "SM90" },
  },
});

function build(folder) {
  mkdirSync(folder, { recursive: true });
  const source = join(dirname(fileURLToPath(import.meta.url)), "pipeline_layer.cc");
  const flags = ["-std=c++20", "-O1", "-shared", "-fPIC"];
  execFileSync("g++", [...flags, "-o", join(folder, "libpipelines.so"), source], {
    stdio: "inherit",
  });
  const layer = {
    name: kName,
    type: "GLOBAL",
    library_path: "./libpipelines.so",
    api_version: "1.3.0",
    implementation_version: "1",
    description: "Keeps what the driver made of compute pipelines",
    functions: { vkNegotiateLoaderLayerInterfaceVersion: "weft_negotiate" },
  };
  const manifest = { file_format_version: "1.1.2", layer };
  writeFileSync(join(folder, "pipelines.json"), JSON.stringify(manifest, null, 2));
  console.log(`WEFT_PIPELINES=${folder} VK_ADD_LAYER_PATH=${folder} VK_INSTANCE_LAYERS=${kName} ` +
    "node ...");
}

// The sections of a pipeline's cache by their kinds; null where the driver keeps another form.
function sectionsOf(cache) {
  const at = cache.indexOf(kFrame);
  if (at < 0) return null;
  const whole = execFileSync("zstd", ["-dcq"], {
    input: cache.subarray(at),
    maxBuffer: 1 << 26,
    stdio: ["pipe", "pipe", "ignore"],
  });
  const begin = whole.indexOf(kProgram);
  if (begin < 0) return null;
  const program = whole.subarray(begin);
  const sections = new Map();
  for (let i = 0; i < program.readUInt16LE(8); ++i) {
    const entry = kSectionBytes * (i + 1);
    const size = program.readUInt32LE(entry + 4);
    const first = program.readUInt32LE(entry + 8);
    sections.set(program.readUInt32LE(entry), program.subarray(first, first + size));
  }
  return sections;
}

// How often the text has each instruction.
function countsOf(text) {
  const counts = new Map();
  for (const [, name] of text.matchAll(/\*\/\s+(?:@!?U?P\w\s+)?([A-Z][A-Z0-9]*)/g)) {
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return counts;
}

function read(folder) {
  for (const name of readdirSync(folder).filter((each) => each.endsWith(".bin")).sort()) {
    const sections = sectionsOf(readFileSync(join(folder, name)));
    const code = sections?.get(kCode);
    if (!code) {
      console.log(`${name}: no machine code was found`);
      continue;
    }
    const binary = join(folder, name.replace(".bin", ".code"));
    writeFileSync(binary, code);
    const text = execFileSync("nvdisasm", ["-b", options.card, binary], {
      encoding: "utf8",
      maxBuffer: 1 << 27,
    });
    const counts = countsOf(text);
    if ((counts.get(options.of) ?? 0) < Number(options.least)) continue;
    writeFileSync(binary.replace(".code", ".sass"), text);
    const registers = sections.get(kRegisters)?.readUInt32LE(0);
    const most = [...counts].sort(([, a], [, b]) => b - a).slice(0, 8);
    const instructions = most.map(([of, times]) => `${times} ${of}`).join(", ");
    console.log(`${name}: ${registers} registers, ${instructions}`);
  }
}

const [command, folder] = positionals;
if (!folder || !["build", "read"].includes(command)) {
  console.error(kUsage);
  process.exit(2);
}
(command === "build" ? build : read)(resolve(folder));
