// A stand-in for `weft serve` that plays swarms and answers, for working on the page and for its
// tests. It serves the built page with the server's own security headers, so that what breaks the
// policy breaks here too.
//   node web/app/dev/mock_server.mjs [--port 8090] [--swarm up|spare|down|...] [--key KEY]
import { Buffer } from "node:buffer";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { MockAdmin } from "./mock_admin.mjs";
import { dayOfHistory, swarms } from "./mock_swarm.mjs";

// What the server adds to every response (AddSecurityHeaders of static_files.cc).
const kSecurityHeaders = {
  "Content-Security-Policy":
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; img-src 'self' data:; " +
    "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Embedder-Policy": "require-corp",
  "Cross-Origin-Resource-Policy": "same-origin",
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "no-referrer",
};
const kTypes = {
  ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
  ".mjs": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml", ".wasm": "application/wasm", ".json": "application/json",
};
const kFakeWorker = fileURLToPath(new URL("fake_worker.js", import.meta.url));
const kQr = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><path fill="#fff" ' +
  'd="M0 0h8v8H0z"/><path d="M1 1h2v2H1zM5 1h2v2H5zM1 5h2v2H1zM4 4h1v1H4zM6 6h1v1H6z"/></svg>';

const kAnswer = "A **weft** is the thread that goes over and under the others.\n\n" +
  "It holds the cloth together:\n\n- every device is a thread\n- the server is the loom\n\n" +
  "```js\nfor (const thread of threads) weave(thread);\n```\n\nThat is all there is to it.";

export class MockServer {
  apiKey = "";
  joinToken = "";
  hasFakeWorker = true;
  isLan = true;
  requests = []; // bodies of chat requests
  keys = []; // their Idempotency-Keys
  admin = new MockAdmin(); // what /api/admin and /api/keys give
  ownProblem = ""; // of the device that helps
  history = dayOfHistory();
  whatIf = null; // what /api/swarm/what-if gives; null: that the model gets faster
  models = null; // of /v1/models; null: the swarm's one
  cancelled = 0; // chat streams that the page ended
  // What a chat request gets: async (body, stream) => {}; see ChatStream.
  onChat = null;
  #swarm = swarms.up();
  #watchers = new Set();
  #server;
  #webRoot;

  constructor(webRoot) {
    this.#webRoot = webRoot;
    this.#server = createServer((request, response) => {
      this.#answer(request, response).catch((error) => response.destroy(error));
    });
  }

  async listen(port = 0) {
    await new Promise((resolve) => this.#server.listen(port, "127.0.0.1", resolve));
    return this;
  }

  get origin() {
    return `http://127.0.0.1:${this.#server.address().port}`;
  }

  get watcherCount() {
    return this.#watchers.size;
  }

  // A whole picture or some of its fields; every page that watches sees it at once.
  show(swarm) {
    this.#swarm = { ...this.#swarm, ...swarm };
    for (const watcher of this.#watchers) watcher.write(this.#event());
  }

  // Ends the event streams, as a server that was restarted would.
  dropWatchers() {
    for (const watcher of this.#watchers) watcher.destroy();
  }

  async close() {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #event() {
    return `event: swarm\ndata: ${JSON.stringify(this.#swarm)}\n\n`;
  }

  async #answer(request, response) {
    const { pathname } = new URL(request.url, this.origin);
    const bearer = /^Bearer (.*)$/.exec(request.headers.authorization ?? "")?.[1] ?? "";
    if (pathname.startsWith("/api/") || pathname.startsWith("/v1/")) {
      if (this.apiKey !== "" && bearer !== this.apiKey) {
        return refuse(response, 401, "This server wants its API key.", "invalid_api_key");
      }
      return this.#answerApi(pathname, request, response);
    }
    if (pathname === "/worker/state") {
      const problem = this.ownProblem;
      return json(response, 200, { devices: [{ state: "idle", check: "passed", problem }] });
    }
    if (pathname === "/package/weft.json") {
      if (this.joinToken !== "" && bearer !== this.joinToken && bearer !== this.apiKey) {
        return refuse(response, 401, "This swarm wants its join token.", "invalid_join_token");
      }
      return json(response, 200, this.#manifest());
    }
    return this.#answerFile(pathname, response);
  }

  async #answerApi(pathname, request, response) {
    const owned = await this.admin.answer(pathname, request);
    if (owned) return json(response, 200, owned);
    if (pathname === "/api/swarm") return json(response, 200, this.#swarm);
    if (pathname === "/api/swarm/events") return this.#watch(response);
    if (pathname === "/api/swarm/history") return json(response, 200, this.history);
    if (pathname === "/api/swarm/what-if") return this.#answerWhatIf(request, response);
    if (pathname === "/api/swarm/consent") {
      const pieces = [];
      for await (const piece of request) pieces.push(piece);
      this.consented = JSON.parse(Buffer.concat(pieces).toString());
      return json(response, 200, {});
    }
    if (pathname === "/api/share") {
      const hash = this.joinToken === "" ? "" : `#${this.joinToken}`;
      return json(response, 200, {
        join_url: `${this.origin}/join${hash}`,
        chat_url: `${this.origin}/`,
        qr_svg: this.isLan ? kQr : null,
        lan: this.isLan,
      });
    }
    if (pathname === "/v1/models") {
      const data = this.models ?? [{ id: this.#swarm.model.name }];
      return json(response, 200, { object: "list", data });
    }
    if (pathname === "/v1/chat/completions") return this.#answerChat(request, response);
    return refuse(response, 404, `There is nothing at ${pathname}.`, "not_found");
  }

  #answerWhatIf(request, response) {
    this.askedWhatIf = new URL(request.url, this.origin).searchParams.get("memory_bytes");
    return json(response, 200, this.whatIf ?? {
      now: { runs: true, missing_memory_bytes: 0, predicted_us_per_token: 50_000 },
      with: { runs: true, missing_memory_bytes: 0, predicted_us_per_token: 20_000,
        first_layer: 3, end_layer: 10 },
    });
  }

  #watch(response) {
    response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    response.write("retry: 1000\n" + this.#event());
    this.#watchers.add(response);
    response.on("close", () => this.#watchers.delete(response));
  }

  async #answerChat(request, response) {
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    const body = JSON.parse(Buffer.concat(pieces).toString());
    this.requests.push(body);
    this.keys.push(request.headers["idempotency-key"]);
    const stream = new ChatStream(response, body.model);
    response.on("close", () => {
      if (!response.writableEnded) this.cancelled += 1;
    });
    await (this.onChat ?? defaultChat)(body, stream, this);
  }

  #manifest() {
    const { model } = this.#swarm;
    const layers = Array.from({ length: model.layers }, (_, index) => ({ index }));
    return {
      format: 1, name: model.name, architecture: model.architecture,
      quantisation: model.quantisation, layers,
      blobs: { ["ab".repeat(32)]: { byte_count: model.weight_bytes, chunks: [] } },
    };
  }

  #answerFile(pathname, response) {
    if (this.hasFakeWorker && /^\/assets\/help\.worker-[\w-]+\.js$/.test(pathname)) {
      return file(response, kFakeWorker);
    }
    const isRoute = ["/", "/join", "/chat", "/swarm", "/admin", "/certificate"].includes(pathname);
    const path = normalize(join(this.#webRoot, isRoute ? "index.html" : pathname));
    if (!path.startsWith(this.#webRoot) || !existsSync(path)) {
      return refuse(response, 404, `There is nothing at ${pathname}.`, "not_found");
    }
    return file(response, path);
  }
}

// What an answer is made of, in OpenAI's form.
export class ChatStream {
  #response;
  #model;
  tokens = 0;

  constructor(response, model) {
    this.#response = response;
    this.#model = model;
  }

  get isClosed() {
    return this.#response.destroyed;
  }

  begin() {
    this.#response.writeHead(200, { "Content-Type": "text/event-stream" });
    this.#chunk({ role: "assistant", content: "" }, null);
  }

  text(content) {
    this.tokens += 1;
    this.#chunk({ content }, null);
  }

  thought(reasoning_content) {
    this.tokens += 1;
    this.#chunk({ reasoning_content }, null);
  }

  // Pieces of calls, as OpenAI's streams have them.
  calls(tool_calls) {
    this.tokens += 1;
    this.#chunk({ tool_calls }, null);
  }

  end(reason = "stop") {
    this.#chunk({}, reason);
    this.raw(`data: ${JSON.stringify({
      choices: [], usage: { prompt_tokens: 12, completion_tokens: this.tokens },
    })}\n\ndata: [DONE]\n\n`);
    this.#response.end();
  }

  error(message, code = "unavailable", type = "overloaded_error") {
    this.raw(`data: ${JSON.stringify({ error: { message, type, code } })}\n\ndata: [DONE]\n\n`);
    this.#response.end();
  }

  refuse(status, message, code) {
    refuse(this.#response, status, message, code);
  }

  // The connection breaks.
  drop() {
    this.#response.destroy();
  }

  raw(text) {
    this.#response.write(text);
  }

  #chunk(delta, reason) {
    this.raw(`data: ${JSON.stringify({
      id: "chatcmpl-mock", object: "chat.completion.chunk", model: this.#model,
      choices: [{ index: 0, delta, finish_reason: reason }],
    })}\n\n`);
  }
}

async function defaultChat(_body, stream, server) {
  stream.begin();
  await sleep(400);
  for (const piece of kAnswer.split(/(?<=\s)/)) {
    if (stream.isClosed) return;
    stream.text(piece);
    server.playStep?.();
    await sleep(45);
  }
  stream.end();
}

function file(response, path) {
  response.writeHead(200, {
    ...kSecurityHeaders,
    "Content-Type": kTypes[extname(path)] ?? "application/octet-stream",
    "Cache-Control": "no-cache",
  });
  response.end(readFileSync(path));
}

function json(response, status, body) {
  response.writeHead(status, { "Content-Type": "application/json", "Cache-Control": "no-store" });
  response.end(JSON.stringify(body));
}

function refuse(response, status, message, code) {
  json(response, status, { error: { message, type: "invalid_request_error", param: null, code } });
}

function option(name, ifAbsent) {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? ifAbsent : process.argv[at + 1];
}

async function main() {
  const webRoot = option("web-root", fileURLToPath(new URL("../../dist", import.meta.url)));
  const server = await new MockServer(webRoot).listen(Number(option("port", "8090")));
  server.apiKey = option("key", "");
  const swarm = swarms[option("swarm", "spare")]();
  server.show(swarm);
  // Devices compute while an answer is written.
  server.playStep = () => {
    const busy = Math.floor(server.requests.length + Date.now() / 200) % 3;
    server.show({
      tokens_per_second: 18 + (Date.now() % 5),
      workers: swarm.workers.map((worker, index) => ({
        ...worker, computing: index === busy, tokens_computed: (worker.tokens_computed += 1),
      })),
    });
  };
  console.log(`mock server: ${server.origin}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
