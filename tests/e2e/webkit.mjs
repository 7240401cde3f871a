// WebKit, the engine of Safari: its pages and swarms. WebKitGTK has no WebGPU.
import {
  browserTests, mixedSwarmTest, oddityTests, pageTests,
} from "./lib/other_browsers.mjs";
import { launchWebKit, noWebKit } from "./lib/webkit.mjs";

const shared = browserTests(launchWebKit, noWebKit());

pageTests(shared);
oddityTests(shared);
mixedSwarmTest(shared);
