// What the WebGPU benchmark takes from the web workspace; bundle.mjs makes one file of it.
export { openGpu } from "../../web/packages/engine/src/gpu/open.ts";
export { PackageFolder } from "../../web/packages/engine/src/test/packageFolder.ts";
export { kShapes, RandomModel } from "../../web/packages/engine/src/test/randomModel.ts";
export { runCase } from "../../web/packages/engine/src/test/runCase.ts";
export { kDefaultOptions, WebGpuEngine } from "../../web/packages/engine/src/webgpuEngine.ts";
