// What conformance_check.mjs takes from the web workspace: it reads packages from the disk.
export * from "./engine.js";
export { PackageFolder } from "../../web/packages/engine/src/test/packageFolder.ts";
export { runCase } from "../../web/packages/engine/src/test/runCase.ts";
