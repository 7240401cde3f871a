// Many tabs of the page in one browser, all of them looked at: each loads, and the last one chats.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { ask } from "./lib/pages.mjs";
import { launchBrowser, noBrowser } from "./lib/tabs.mjs";
import { eventually, packageOf, reasonToSkip, root, serve, swarmOf } from "./lib/weft.mjs";

const kTabs = 8;
const kFeeds = 3; // lasting connections of all tabs of a browser, at most: web/app/src/api
const webRoot = join(root, "web/dist");
const noPage = existsSync(join(webRoot, "index.html")) ? false : `there is no page in ${webRoot}`;
const skip = noBrowser() || reasonToSkip("weft-tiny") || noPage;

// Requests of a page that have no whole answer yet, by path.
function openRequests(page) {
  const open = new Map();
  page.on("request", (request) => open.set(request, new URL(request.url()).pathname));
  for (const end of ["requestfinished", "requestfailed"]) {
    page.on(end, (request) => open.delete(request));
  }
  return open;
}

test("eight tabs of one browser load, and the last one chats", { skip, timeout: 180_000 },
  async () => {
    const server = await serve(packageOf("weft-tiny"), ["--threads", "1", "--web-root", webRoot]);
    const browser = await launchBrowser();
    try {
      await eventually(async () => assert.equal((await swarmOf(server.origin)).state, "up"));
      const context = await browser.newContext();
      const feeds = [];
      const pages = [];
      for (let tab = 0; tab < kTabs; ++tab) {
        const page = await context.newPage();
        page.setDefaultTimeout(30_000);
        feeds.push(openRequests(page));
        await page.goto(`${server.origin}/`);
        await page.getByRole("textbox", { name: "Message" }).waitFor();
        pages.push(page);
      }
      for (const page of pages) {
        assert.equal(await page.evaluate(() => document.visibilityState), "visible");
      }
      const followers = feeds.filter((open) => [...open.values()].includes("/api/swarm/events"));
      assert.ok(followers.length >= 1 && followers.length <= kFeeds, `${followers.length} feeds`);
      const last = pages.at(-1);
      await ask(last, "Tell me a story about a fox.");
      await last.locator(".answer-foot").waitFor();
      // A place that a closed tab leaves is taken by one that asked now and then.
      const next = feeds.find((open) => !followers.includes(open));
      for (const [index, page] of pages.entries()) {
        if (followers.includes(feeds[index])) await page.close();
      }
      await eventually(() => {
        const now = feeds.filter((open) => [...open.values()].includes("/api/swarm/events"));
        assert.ok(now.some((open) => !followers.includes(open)), "nobody follows any more");
      });
      assert.ok(next, "every tab had a feed of its own");
    } finally {
      await browser.close();
      await server.stop();
    }
  });
