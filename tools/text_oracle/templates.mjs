// Writes what @huggingface/jinja renders, for chat_template_test.cc: every template of the
// reference data with every conversation, and small templates of one feature each.
//   node tools/text_oracle/templates.mjs [FOLDER]
// FOLDER is build/text-oracle unless given; the reference data is at $WEFT_DATA.
import { Template } from "@huggingface/jinja";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";

import { conversations } from "./conversations.mjs";
import { snippets, snippetContext } from "./snippets.mjs";

const root = path.resolve(import.meta.dirname, "../..");
const data = process.env.WEFT_DATA ?? path.join(root, "build/test-data");
const folder = path.resolve(process.argv[2] ?? path.join(root, "build/text-oracle"));

// The library reads the clock for strftime_now. It is always noon of 25 July 2024 here.
const localNow = { seconds: Date.UTC(2024, 6, 25, 12, 0, 0) / 1000 };
const RealDate = Date;
globalThis.Date = class extends RealDate {
  constructor(...args) {
    if (args.length > 0) super(...args);
    else super(2024, 6, 25, 12, 0, 0);
  }
};

const tokens = { bos_token: "<s>", eos_token: "</s>" };

// The library adds an array or an object to a string with JavaScript's own text of them ("[object
// Map]"); Jinja refuses.
const refuseText = () => {
  throw new Error("an array or object beside a string");
};
const texts = [Array.prototype, Map.prototype].map((prototype) => [prototype, prototype.toString]);

function render(source, context) {
  try {
    const template = new Template(source);
    const copy = structuredClone(context);
    for (const [prototype] of texts) prototype.toString = refuseText;
    return { text: template.render(copy) };
  } catch (error) {
    return { error: String(error.message) };
  } finally {
    for (const [prototype, toString] of texts) prototype.toString = toString;
  }
}

await mkdir(folder, { recursive: true });
const names = (await readdir(path.join(data, "templates")))
  .filter((name) => name.endsWith(".jinja"))
  .sort();
const templates = {};
let failed = 0;
for (const name of names) {
  const source = await readFile(path.join(data, "templates", name), "utf8");
  templates[name] = {};
  for (const [key, conversation] of Object.entries(conversations)) {
    templates[name][key] = render(source, { ...tokens, ...conversation });
    if ("error" in templates[name][key]) ++failed;
  }
}
const small = snippets.map((source) => ({ source, ...render(source, snippetContext) }));
const contexts = Object.fromEntries(
  Object.entries(conversations).map(([key, value]) => [key, { ...tokens, ...value }]),
);
await writeFile(
  path.join(folder, "templates.json"),
  JSON.stringify({
    local_now_s: localNow.seconds,
    contexts,
    templates,
    snippets: small,
    snippet_context: snippetContext,
  }),
);
console.log(
  `${names.length} templates x ${Object.keys(conversations).length} conversations, ` +
    `${failed} refused; ` +
    `${small.length} snippets, ${small.filter((s) => "error" in s).length} refused`,
);
