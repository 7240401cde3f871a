// The page's tests without weft: Chromium, the built page, and the stand-in server of web/app/dev.
// Every test gets a fresh browser context and a fresh server; anything that the browser reports as
// an error (a script error, a refused resource, a broken policy) fails the test.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { MockServer } from "../../../web/app/dev/mock_server.mjs";
import { swarms } from "../../../web/app/dev/mock_swarm.mjs";

const kWebRoot = process.env.WEFT_WEB_ROOT ??
  fileURLToPath(new URL("../../../web/dist", import.meta.url));
const kChromium = process.env.CHROMIUM ?? "/usr/bin/chromium";

function reasonToSkip() {
  if (!existsSync(kChromium)) return `there is no ${kChromium}`;
  if (!existsSync(`${kWebRoot}/index.html`)) return `there is no built page at ${kWebRoot}`;
  return false;
}

let browser = null;

export function setUpBrowser() {
  before(async () => {
    if (reasonToSkip()) return;
    const require = createRequire(new URL("../../../web/package.json", import.meta.url));
    const { chromium } = require("playwright-core");
    browser = await chromium.launch({
      executablePath: kChromium,
      args: ["--no-sandbox", "--no-first-run", "--disable-background-networking",
        "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"],
    });
  });
  after(async () => browser?.close());
}

// body({page, server, errors}); options are those of a context, and `swarm`: the picture to begin
// with. `errors` may be emptied by a test that provokes them.
export function pageTest(name, { swarm = "up", ...options }, body) {
  test(name, { skip: reasonToSkip(), timeout: 60_000 }, async () => {
    const server = await new MockServer(kWebRoot).listen();
    server.show(swarms[swarm]());
    const viewport = { width: 1280, height: 800 };
    const context = await browser.newContext({ viewport, ...options });
    const page = await context.newPage();
    page.setDefaultTimeout(15_000);
    const errors = [];
    page.on("pageerror", (error) => errors.push(String(error)));
    page.on("console", (message) => {
      if (message.type() === "error") errors.push(message.text());
    });
    try {
      await body({ page, server, errors, context });
      assert.deepEqual(errors, [], "the browser reported errors");
    } finally {
      await context.close();
      await server.close();
    }
  });
}

export async function ask(page, text) {
  await page.getByRole("textbox", { name: "Message" }).fill(text);
  await page.keyboard.press("Enter");
}

// A promise and what settles it: lets a test decide when the server goes on.
export function gate() {
  let open;
  const opened = new Promise((resolve) => {
    open = resolve;
  });
  return { open, opened };
}
