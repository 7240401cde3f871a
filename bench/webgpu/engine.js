// What the WebGPU benchmark takes from the web workspace; bundle.mjs makes one file of it, which
// Node and a Worker run as it is.
export { tuneFor } from "../../web/packages/engine/src/makeWebGpuEngine.ts";
export { MemoryTuneStore } from "../../web/packages/engine/src/tune/store.ts";
export { tunedText } from "../../web/packages/engine/src/tune/tune.ts";
export { openGpu } from "../../web/packages/engine/src/gpu/open.ts";
export { kMaxRows } from "../../web/packages/engine/src/dispatch/layout.ts";
export { RandomModel } from "../../web/packages/engine/src/test/randomModel.ts";
export { DType } from "../../web/packages/engine/src/program/ir.ts";
export { expertProgram } from "../../web/packages/engine/src/program/shards.ts";
export { kDefaultOptions, WebGpuEngine } from "../../web/packages/engine/src/webgpuEngine.ts";
