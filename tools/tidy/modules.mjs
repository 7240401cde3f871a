// The module table: who may include whom. design.md and ARCHITECTURE.md print the same table for
// people; CMakeLists.txt must agree with it (rules/modules.mjs checks that).

// C++: folder under src/ -> modules that it may include.
export const kCxxModules = {
  base: [],
  tensor: ["base"],
  sampling: ["base"],
  wire: ["base", "tensor", "sampling"],
  dispatch: ["base", "tensor", "wire"],
  package: ["base", "tensor"],
  onnx: ["base", "tensor"],
  program: ["base", "tensor"],
  lower: ["base", "tensor", "onnx", "program"],
  text: ["base"],
  grammar: ["base"],
  chat: ["base", "text"],
  convert: ["base", "tensor", "onnx", "lower", "program", "package", "text"],
  planner: ["base"],
  kernels: ["base", "tensor", "sampling"],
  engine: ["base", "tensor", "sampling", "program", "kernels", "package"],
  swarm: ["base", "tensor", "wire", "dispatch", "planner", "sampling"],
  worker: ["base", "tensor", "sampling", "wire", "dispatch", "engine", "program", "package"],
  net: ["base"],
  registry: ["base", "net", "package"],
  store: ["base"],
  postgres: ["base", "net"],
  shared_store: ["base", "cluster", "net", "postgres", "store"],
  cluster_host: ["base", "wire", "cluster", "net", "postgres", "shared_store"],
  api: ["base", "swarm", "text", "chat", "sampling", "grammar"],
  server: ["base", "wire", "package", "text", "chat", "planner", "swarm", "net", "store",
    "api", "cluster", "cluster_host", "shared_store"],
  cluster: ["base"],
  sim: ["base", "swarm", "cluster", "planner", "wire", "worker", "engine", "program", "sampling"],
  apps: ["*"],
};

// Folders of a module, lowest first -> folders beside them that they may include; "" is that of the
// module itself. Tests may include all. A module that is not named here has no order, but no
// circles either.
export const kCxxFolders = {
  swarm: {
    "": [],
    workers: [""],
    flow: ["", "workers"],
    experts: ["", "workers"],
    plan: ["", "workers", "experts"],
    view: ["", "workers", "flow", "experts", "plan"],
    core: ["", "workers", "flow", "experts", "plan", "view"],
    tests: ["", "workers", "flow", "experts", "plan", "view", "core"],
  },
};

// What a module's tests may include beyond the table, each because the test needs it to build its
// input. Keep this list short: a test that needs much more belongs in tests/.
export const kCxxTestExtras = {
  worker: ["convert", "net"],
  engine: ["convert", "text"],
  api: ["net"],
  grammar: ["text"],
};

// Third-party headers that stay behind one module's interface.
export const kConfinedHeaders = [
  { pattern: /^boost\/(asio|beast)\b/, modules: ["net"], instead: "use the interface of src/net" },
  { pattern: /^google\/protobuf\b/, modules: ["wire", "onnx", "program"],
    instead: "use the generated classes through that module's own functions" },
  { pattern: /^openssl\//, modules: ["base", "net", "server"], instead: "use src/base" },
  { pattern: /^curl\//, modules: ["registry"], instead: "use registry/http_connections.h" },
  { pattern: /^spdlog\//, modules: ["base"], instead: "use base/log.h" },
  { pattern: /^hwy\//, modules: ["kernels", "tensor"],
    instead: "put vector code into src/kernels" },
  { pattern: /^pcre2\.h$|^utf8proc\.h$/, modules: ["text"], instead: "use src/text" },
  { pattern: /^qrencode\.h$/, modules: ["server"], instead: "keep it in src/server" },
  { pattern: /^sqlite3\.h$/, modules: ["store"], instead: "use src/store" },
  { pattern: /^libpq-fe\.h$/, modules: ["postgres"], instead: "use postgres/connection.h" },
  { pattern: /^prometheus\//, modules: ["server"], instead: "use server/metric_families.h" },
  { pattern: /^toml\+\+\//, modules: ["apps"], instead: "use apps/config_file.h" },
  { pattern: /^CLI\//, modules: ["apps"], instead: "keep it in src/apps" },
  {
    pattern: /^(thread|mutex|condition_variable|future|fstream|filesystem)$/,
    except: ["base", "tensor", "wire", "package", "onnx", "program", "lower", "text", "chat",
      "convert", "kernels", "engine", "worker", "net", "registry", "store", "postgres",
      "shared_store", "cluster_host", "api", "server", "apps"],
    instead: "swarm, cluster, planner, dispatch and sim have no threads and no files: " +
      "make it an action",
  },
];

// Packages that run in Node and may use its own modules.
export const kNodePackages = ["headless"];

// TypeScript: folder under web/packages (or "app") -> packages of ours that it may import.
export const kWebPackages = {
  wire: [],
  engine: [],
  "engine-ort": ["engine"],
  worker: ["wire", "engine", "engine-ort"],
  headless: ["wire", "engine", "worker", "ui"], // of ui: words alone
  ui: [],
  app: ["*"],
};
