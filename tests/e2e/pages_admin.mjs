// The page of the server's owner: what it shows of devices, models and keys, and what it orders.
import assert from "node:assert/strict";
import { pageTest, setUpBrowser } from "./lib/pages.mjs";
import { eventually } from "./lib/weft.mjs";

setUpBrowser();

const cardOf = (page, name) => page.locator(".device-card").filter({ hasText: name });
const rowOf = (page, name) => page.locator(".admin-row").filter({ hasText: name });
const ordered = (server, expected) =>
  eventually(async () => assert.deepEqual(server.admin.orders, expected));

pageTest("each device says where it is from, what it holds and why it gets nothing", {},
  async ({ page, server }) => {
    await page.goto(`${server.origin}/admin`);
    const heron = cardOf(page, "Heron, Chrome on Linux");
    for (const words of [
      "browser tab · 8 threads · 192.168.1.20", "4.8 of 512 MiB", "34% of the time",
      "24 MB/s, 8 MB/s", "1 h ago",
      "For weft-tiny: runs layers 4–6, stands by with layers 7–8 and the head.",
    ]) await heron.getByText(words, { exact: true }).waitFor();
    const otter = cardOf(page, "Otter, Safari on iPhone");
    await otter.getByText("It failed too often in a row.").waitFor();
    await otter.getByText("Again in 1 min.").waitFor();
    await otter.getByText("Nothing has been heard of it for 42 s.").waitFor();
    await otter.getByText("values that are not finite").waitFor();
    const own = cardOf(page, "native program");
    await own.getByText("this server").first().waitFor();
    assert.equal(await own.getByRole("button").count(), 0, "the server's own worker stays");
  });

pageTest("evicting asks first, says what it means, and can be taken back", {},
  async ({ page, server }) => {
    await page.goto(`${server.origin}/admin`);
    const evict = page.getByRole("button", { name: "Evict Heron, Chrome on Linux" });
    await evict.click();
    const dialog = page.getByRole("dialog", { name: "Evict this device?" });
    await dialog.getByText("conversations go on").waitFor();
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.deepEqual(server.admin.orders, []);
    await evict.click();
    await dialog.getByRole("button", { name: "Evict it" }).click();
    await page.getByRole("status").getByText("Heron, Chrome on Linux is evicted.").waitFor();
    await rowOf(page, "may come back in 1 h").waitFor();
    await page.getByRole("button", { name: "Let in Heron, Chrome on Linux" }).click();
    await ordered(server, [
      'POST /api/admin/devices/evict {"worker":2,"model":"weft-tiny"}',
      "DELETE /api/admin/evicted/1",
    ]);
    await page.getByText("evicted device").waitFor({ state: "detached" });
  });

pageTest("models say who uses them, and are loaded and unloaded", {}, async ({ page, server }) => {
  await page.goto(`${server.origin}/admin`);
  const loaded = rowOf(page, "Ready: 3 devices");
  await loaded.getByText("3 devices help. 2 answers under way, 1 waits: ").waitFor();
  await loaded.getByText("maths (2), 192.168.1.7 (1).").waitFor();
  await loaded.getByText("Without a question it is unloaded in 4 min.").waitFor();
  await page.getByText("There is no memory for 'qwen3-8b'").waitFor();
  await page.getByRole("button", { name: "Load qwen3-8b" }).click();
  await page.getByRole("button", { name: "Unload weft-tiny" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Unload it" }).click();
  await ordered(server, [
    'POST /api/admin/models/load {"model":"qwen3-8b"}',
    'POST /api/admin/models/unload {"model":"weft-tiny"}',
  ]);
  await rowOf(page, "qwen3-8b").getByText("loading", { exact: true }).waitFor();
});

pageTest("a server of one model has no buttons for it", {}, async ({ page, server }) => {
  server.admin.hasSeveral = false;
  await page.goto(`${server.origin}/admin`);
  await rowOf(page, "qwen3-8b").waitFor();
  assert.equal(await page.getByRole("button", { name: /oad (qwen3|weft)/ }).count(), 0);
});

pageTest("a key is made, shown once with its link, and ended", {}, async ({ page, server }) => {
  await page.goto(`${server.origin}/admin`);
  const secret = `weft-${"a".repeat(32)}`;
  await page.getByLabel("Name").fill("guests");
  await page.getByLabel("For").selectOption("helper");
  await page.getByLabel("Ends").selectOption("8h");
  assert.equal(await page.getByLabel("Tokens a day").count(), 0, "who helps asks nothing");
  await page.getByRole("button", { name: "Make it" }).click();
  await page.getByText("“guests” was made.").waitFor();
  assert.equal(await page.getByLabel("The key").inputValue(), secret);
  assert.equal(await page.getByLabel("The link with it").inputValue(),
    `${server.origin}/join#${secret}`);
  const maths = rowOf(page, "60 requests a minute");
  await maths.getByText("Today: 12 requests, 3\u202f400 tokens.").waitFor();
  await page.getByRole("button", { name: "End maths" }).click();
  await page.getByRole("dialog", { name: "End this key?" })
    .getByRole("button", { name: "End it" }).click();
  await maths.getByText("ended", { exact: true }).waitFor();
  await ordered(server, [
    'POST /api/keys {"name":"guests","role":"helper","expires":"8h"}',
    "DELETE /api/keys/maths",
  ]);
});

pageTest("who is no admin is told so", {}, async ({ page, server, errors }) => {
  await page.route("**/api/admin/**", (route) => route.fulfill({
    status: 403, contentType: "application/json",
    body: JSON.stringify({ error: { message: "This key has the role 'user'.", code: "role" } }),
  }));
  await page.goto(`${server.origin}/admin`);
  await page.getByRole("alert").getByText("This key has the role 'user'.").waitFor();
  assert.equal(await page.locator(".device-card").count(), 0);
  errors.length = 0; // Chromium reports the refusals
});

pageTest("the swarm's page leads whoever is an admin here", {}, async ({ page, server }) => {
  await page.goto(`${server.origin}/swarm`);
  await page.getByRole("link", { name: /administration/ }).click();
  await page.getByRole("heading", { name: "Administration" }).waitFor();
  // The title comes with the frame after the heading's.
  await eventually(async () => assert.equal(await page.title(), "Administration – weft"));
});
