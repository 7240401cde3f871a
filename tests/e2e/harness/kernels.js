// Hands every kernel of our WebGPU engine to the browser's WGSL compiler.
import { everyKernel } from "../../../web/packages/engine/src/test/everyKernel.ts";

const kFeatureOf = { f16: "shader-f16", subgroups: "subgroups" };

function neededBy({ code }) {
  return [...code.matchAll(/^enable (\w+);/gm)].map(([, name]) => kFeatureOf[name] ?? name);
}

async function errorsOf(device, { key, code }) {
  device.pushErrorScope("validation");
  const module = device.createShaderModule({ label: key, code });
  const [error, { messages }] =
    await Promise.all([device.popErrorScope(), module.getCompilationInfo()]);
  const said = messages.filter(({ type }) => type === "error").map((each) =>
    `${each.message} (line ${each.lineNum}: ${code.split("\n")[each.lineNum - 1]?.trim()})`);
  if (said.length === 0 && error) said.push(error.message);
  return said;
}

// {compiled: keys, refused: [{key, errors}], lacking: keys}; the last want features that the
// adapter has not, so that the engine does not make them there.
export async function compileKernels() {
  const adapter = await navigator.gpu.requestAdapter();
  const there = Object.values(kFeatureOf).filter((name) => adapter.features.has(name));
  const device = await adapter.requestDevice({ requiredFeatures: there });
  const result = { compiled: [], refused: [], lacking: [] };
  for (const kernel of everyKernel()) {
    const { key } = kernel;
    if (neededBy(kernel).some((name) => !there.includes(name))) {
      result.lacking.push(key);
      continue;
    }
    const errors = await errorsOf(device, kernel);
    if (errors.length > 0) result.refused.push({ key, errors });
    else result.compiled.push(key);
  }
  device.destroy();
  return result;
}
