// The module table: what it refuses and what it lets pass, for C++, CMake and TypeScript.
import { test } from "node:test";
import { assertCaught, assertClean } from "./helpers.mjs";

const include = (...paths) => paths.map((path) => `#include "${path}"`).join("\n");

test("a module may include only what the table gives it", () => {
  assertCaught("cxx-modules", { "src/planner/cost.cc": include("base/result.h", "swarm/core.h") },
    "src/planner/cost.cc:2", /src\/planner includes swarm\/core\.h/);
  assertCaught("cxx-modules", { "src/tensor/x.h": include("kernels/ops/add.h") },
    "src/tensor/x.h:1", /may include only base/);
  assertClean("cxx-modules", {
    "src/engine/a.cc": include("base/result.h", "engine/a.h", "package/manifest.h"),
    "src/apps/main.cc": include("net/server.h", "planner/cost.h"),
  });
});

test("an include in a comment or a string is none", () => {
  assertClean("cxx-modules", {
    "src/base/a.cc": '// #include "swarm/core.h"\n/*\n#include "net/server.h"\n*/\n',
  });
});

test("folders and includes outside the table are named", () => {
  assertCaught("cxx-modules", { "src/extras/a.h": "" }, "src/extras/a.h:1",
    /not in the module table/);
  assertCaught("cxx-modules", { "src/base/a.cc": include("result.h") }, "src/base/a.cc:1",
    /does not name a module/);
});

test("swarm samples, but sees no text", () => {
  assertCaught("cxx-modules", { "src/swarm/a.cc": include("text/utf8.h") }, "src/swarm/a.cc:1",
    /may include only .*sampling/);
  assertClean("cxx-modules", { "src/swarm/a.cc": include("sampling/draw.h") });
});

test("folders of swarm have an order", () => {
  assertCaught("cxx-modules", { "src/swarm/workers/a.cc": include("swarm/flow/session.h") },
    "src/swarm/workers/a.cc:1", /src\/swarm\/workers includes swarm\/flow\/session\.h/);
  assertCaught("cxx-modules", { "src/swarm/a.h": include("swarm/workers/worker.h") },
    "src/swarm/a.h:1", /its own folder/);
  assertCaught("cxx-modules", { "src/swarm/extras/a.h": "" }, "src/swarm/extras/a.h:1",
    /not in the table of the folders of swarm/);
  assertClean("cxx-modules", {
    "src/swarm/flow/a.cc": include("swarm/flow/a.h", "swarm/workers/worker.h", "swarm/events.h"),
    "src/swarm/workers/a_test.cc": include("swarm/tests/core_testing.h"),
    "src/server/a.cc": include("swarm/core/core.h"),
  });
});

test("libraries stay behind their module; tests may use them", () => {
  assertCaught("cxx-modules", { "src/api/a.cc": "#include <boost/beast/http.hpp>" },
    "src/api/a.cc:1", /boost\/beast/);
  assertCaught("cxx-modules", { "src/swarm/a.h": "#include <thread>" }, "src/swarm/a.h:1",
    /thread/);
  assertCaught("cxx-modules", { "src/text/a.cc": include("hwy/highway.h") }, "src/text/a.cc:1",
    /hwy/);
  assertClean("cxx-modules", {
    "src/kernels/a.cc": include("hwy/highway.h"),
    "src/net/a.cc": "#include <boost/beast/http.hpp>",
    "src/api/a_test.cc": "#include <boost/beast/http.hpp>",
  });
});

test("a module's tests may include base and their extras, nothing else", () => {
  assertClean("cxx-modules", { "src/worker/a_test.cc": include("convert/convert.h") });
  assertCaught("cxx-modules", { "src/planner/a_test.cc": include("engine/engine.h") },
    "src/planner/a_test.cc:1", /src\/planner includes engine/);
});

test("CMakeLists.txt links by the same table", () => {
  assertCaught("cmake-modules",
    { "CMakeLists.txt": "\nweft_module(swarm    DEPS base wire kernels LIBS Boost::json)\n" },
    "CMakeLists.txt:2", /swarm links kernels/);
  assertClean("cmake-modules", {
    "CMakeLists.txt": "weft_module(apps DEPS base\n  net LIBS x)\nweft_module(planner DEPS base)\n",
  });
});

const manifest = (dependencies = {}) => JSON.stringify({ dependencies });

test("a web package may import only what the table gives it, type imports too", () => {
  assertCaught("web-modules", {
    "web/packages/ui/package.json": manifest(),
    "web/packages/ui/src/a.ts": 'import type { Frame } from "@weft/wire";\n',
  }, "web/packages/ui/src/a.ts:1", /ui imports @weft\/wire/);
  assertCaught("web-modules", {
    "web/packages/engine/package.json": manifest(),
    "web/packages/engine/src/a.ts": '\nconst x = await import("@weft/worker");\n',
  }, "web/packages/engine/src/a.ts:2", /engine imports @weft\/worker/);
  assertClean("web-modules", {
    "web/packages/worker/package.json": manifest(),
    "web/packages/worker/src/a.ts":
      'import {\n  type A,\n  b,\n} from "@weft/wire";\nexport * from "@weft/engine-ort";\n',
  });
});

test("a web package imports only its own declared dependencies", () => {
  const tree = (dependencies) => ({
    "web/packages/ui/package.json": manifest(dependencies),
    "web/packages/ui/src/a.tsx": 'import { signal } from "@preact/signals";\n',
  });
  assertCaught("web-modules", tree({}), "web/packages/ui/src/a.tsx:1", /@preact\/signals/);
  assertClean("web-modules", tree({ "@preact/signals": "1" }));
  assertClean("web-modules", {
    "web/packages/ui/package.json": manifest(),
    "web/packages/ui/src/a.test.ts": 'import { test } from "vitest";\n',
  });
});

test("a relative import stays in its package", () => {
  assertCaught("web-modules", {
    "web/packages/wire/package.json": manifest(),
    "web/packages/wire/src/a.ts": 'export { b } from "../../engine/src/b.ts";\n',
  }, "web/packages/wire/src/a.ts:1", /leaves the package/);
  assertClean("web-modules", {
    "web/packages/wire/package.json": manifest(),
    "web/packages/wire/src/a.ts": 'export { b } from "../gen/control_pb.ts";\n',
  });
});

test("files do not include each other in a circle", () => {
  assertCaught("cycles", {
    "src/onnx/a.h": include("onnx/b.h"),
    "src/onnx/b.h": include("onnx/c.h"),
    "src/onnx/c.h": include("onnx/a.h"),
  }, "src/onnx/a.h:1", /include cycle/);
  assertCaught("cycles", {
    "web/packages/engine/src/a.ts": 'import type { B } from "./b.ts";\n',
    "web/packages/engine/src/b.ts": 'import { a } from "./a";\n',
  }, "web/packages/engine/src/a.ts:1", /include cycle/);
  assertClean("cycles", {
    "src/onnx/a.h": include("onnx/b.h"), "src/onnx/b.h": "", "src/onnx/a.cc": include("onnx/b.h"),
  });
});

test("a header and its source are one room, and rooms make no circle", () => {
  assertCaught("cycles", {
    "src/onnx/a.h": include("onnx/b.h"), "src/onnx/b.h": "", "src/onnx/b.cc": include("onnx/a.h"),
  }, "src/onnx/a.h:1", /header and source of these include each other/);
  assertClean("cycles", {
    "src/onnx/a.h": include("onnx/b.h"), "src/onnx/b.h": "",
    "src/onnx/b_test.cc": include("onnx/a.h"),
  });
});

test("folders do not use each other in a circle", () => {
  assertCaught("cycles", {
    "src/engine/kv/page.h": include("engine/step/step.h"),
    "src/engine/step/step.h": "",
    "src/engine/step/run.h": include("engine/kv/pool.h"),
    "src/engine/kv/pool.h": "",
  }, "src/engine/kv:1", /folders include each other/);
  assertCaught("cycles", {
    "src/engine/engine.h": include("engine/kv/page.h"),
    "src/engine/kv/page.h": include("engine/types.h"),
    "src/engine/types.h": "",
  }, "src/engine:1", /folders include each other/);
  assertClean("cycles", {
    "src/engine/engine.h": include("engine/kv/page.h"),
    "src/engine/kv/page.h": include("engine/base/types.h"),
    "src/engine/base/types.h": "",
  });
});
