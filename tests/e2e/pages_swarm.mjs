// The picture of the swarm, and what the chat says while the swarm cannot answer.
import assert from "node:assert/strict";
import { swarms, threeDevices } from "../../web/app/dev/mock_swarm.mjs";
import { pageTest, setUpBrowser } from "./lib/pages.mjs";
import { eventually } from "./lib/weft.mjs";

setUpBrowser();

const cardOf = (page, name) => page.locator(".device-card").filter({ hasText: name });

pageTest("each device is shown with what it holds and how fast it is", { swarm: "spare" },
  async ({ page, server }) => {
    await page.goto(`${server.origin}/swarm`);
    const card = cardOf(page, "Otter, Safari on iPhone");
    for (const words of [
      "browser tab · ort-webgpu · iPhone", "Runs layers 7–8 and the head.", "2.7 ms",
      "370 tokens/s", "11.8 ms", "4.8 of 256 MiB", "Ready",
    ]) await card.getByText(words, { exact: true }).waitFor();
    await cardOf(page, "Wren").getByText("has 6 layers in its cache").waitFor();
    await cardOf(page, "Old tablet").getByText("It would slow the swarm down").waitFor();
    const bar = page.getByRole("img", { name: /^Who runs what\./ });
    assert.match(await bar.getAttribute("aria-label"),
      /A \(this server\): the embedding and layers 1–3; B \(Heron.*\): layers 4–6; C/);
    const widths = await bar.locator(".segment").evaluateAll((segments) =>
      segments.map((segment) => segment.getBoundingClientRect().width));
    const total = widths.reduce((a, b) => a + b);
    [4, 3, 3].forEach((layers, index) =>
      assert.ok(Math.abs(widths[index] / total - layers / 10) < 0.01, "as wide as its layers"));
    await page.getByText("The embedding and layers 1–3 are on one device only").waitFor();
    await page.getByText("9.51 ms", { exact: true }).waitFor();
    await page.getByText("10.2 ms (+7%)", { exact: true }).waitFor();
  });

pageTest("who computes is highlighted in words, and not for ever", {}, async ({ page, server }) => {
  await page.goto(`${server.origin}/swarm`);
  const heron = cardOf(page, "Heron");
  await heron.getByText("Ready", { exact: true }).waitFor();
  const busy = threeDevices();
  busy[1].computing = true;
  server.show({ workers: busy, tokens_per_second: 21.4 });
  await heron.getByText("Computing", { exact: true }).waitFor();
  await page.locator(".segment.is-computing").waitFor();
  await page.getByText("21.4 tokens/s").first().waitFor();
  const idle = setInterval(() => server.show({ workers: threeDevices() }), 200);
  await heron.getByText("Ready", { exact: true }).waitFor();
  clearInterval(idle);
});

pageTest("the states have words, and changes arrive by themselves", { swarm: "empty" },
  async ({ page, server }) => {
    await page.goto(`${server.origin}/swarm`);
    const status = page.locator(".swarm-state-words");
    for (const [name, word, message] of [
      ["empty", "Down", "No device computes for this swarm yet"],
      ["preparing", "Preparing", "2 devices load their layers (34%)"],
      ["repairing", "Taking over", "another one takes over its layers"],
      ["up", "Up", "Ready: 3 devices"],
    ]) {
      server.show(swarms[name]());
      await status.getByText(word, { exact: true }).waitFor();
      await status.getByText(message).waitFor();
    }
    assert.equal(await status.getAttribute("role"), "status");
  });

pageTest("the owner is asked whether a device may compute it all", {},
  async ({ page, server }) => {
    await page.goto(`${server.origin}/swarm`);
    await page.getByText("Ready: 3 devices").waitFor();
    const dialog = page.getByRole("dialog", { name: "Run it all on one device?" });
    for (const [button, allow, worker] of [["Allow it", true, 2], ["No", false, 3]]) {
      server.show({ ...swarms.up(), consents: [{ worker, ends_in_s: 29 }] });
      await dialog.getByText(threeDevices()[worker - 1].name).waitFor();
      await dialog.getByRole("button", { name: button, exact: true }).click();
      await dialog.waitFor({ state: "detached" });
      await eventually(async () => assert.deepEqual(server.consented, { worker, allow }));
      server.show(swarms.up());
    }
  });

pageTest("a download shows its progress", { swarm: "preparing" }, async ({ page, server }) => {
  await page.goto(`${server.origin}/swarm`);
  const bar = cardOf(page, "Heron").getByRole("progressbar", { name: "Downloading" });
  assert.equal(await bar.evaluate((it) => Math.round(100 * it.value / it.max)), 35);
  await page.getByText("3.4 MB of 9.8 MB").waitFor();
});

pageTest("without enough memory the chat says what is missing and how to help", { swarm: "down" },
  async ({ page, server, context }) => {
    server.joinToken = "f".repeat(32);
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.goto(server.origin);
    await page.getByText("This swarm needs 1.2 GB more memory", { exact: true }).waitFor();
    await page.getByRole("img", { name: "QR code of the join link" }).waitFor();
    const link = `${server.origin}/join#${"f".repeat(32)}`;
    assert.equal(await page.getByRole("textbox", { name: "Join link" }).inputValue(), link);
    await page.getByRole("button", { name: "Copy" }).click();
    await page.getByRole("button", { name: "Copied" }).waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), link);
    await page.getByRole("textbox", { name: "Message" }).fill("Hello");
    assert.ok(await page.getByRole("button", { name: "Send" }).isDisabled());
    await page.getByText("The swarm cannot answer yet").waitFor();
    server.show(swarms.up());
    await eventually(async () =>
      assert.ok(await page.getByRole("button", { name: "Send" }).isEnabled()));
    assert.equal(await page.getByText("more memory").count(), 0);
  });

pageTest("on a phone one reads first what the swarm lacks",
  { swarm: "down", viewport: { width: 375, height: 720 } }, async ({ page, server }) => {
    await page.goto(server.origin);
    const title = page.getByText("This swarm needs 1.2 GB more memory", { exact: true });
    await title.waitFor();
    await page.getByRole("img", { name: "QR code of the join link" }).waitFor();
    const strip = await page.locator(".swarm-strip").boundingBox();
    const { y } = await title.boundingBox();
    assert.ok(y > strip.y + strip.height && y < 300, `the notice is at ${y}`);
    assert.equal(await page.getByRole("button", { name: "Latest" }).count(), 0);
  });

pageTest("a server that has loaded no model claims nothing of one", { swarm: "idle" },
  async ({ page, server }) => {
    await page.goto(`${server.origin}/swarm`);
    await page.getByText("No model is loaded. Ask one, and it will be.").waitFor();
    await page.getByRole("heading", { name: "History" }).waitFor();
    assert.equal(await page.getByRole("region", { name: "Layers" }).count(), 0);
    assert.equal(await page.getByText("0 bytes").count(), 0);
  });

pageTest("a server that other devices cannot reach says so", {}, async ({ page, server }) => {
  server.isLan = false;
  await page.goto(`${server.origin}/swarm`);
  await page.getByText("Other devices cannot reach this address").waitFor();
  await page.getByText("weft serve --share").waitFor();
});

pageTest("an address that others reach over plain http says that helping needs https", {},
  async ({ page, server }) => {
    await page.goto(`${server.origin}/swarm`); // the stand-in says that others reach it
    await page.getByText("can help only over https://").waitFor();
  });

pageTest("a lost connection is said and mended", {}, async ({ page, server, errors }) => {
  await page.goto(`${server.origin}/swarm`);
  await page.getByText("Ready: 3 devices").waitFor();
  let isGone = true;
  await page.route("**/api/swarm/events", (route) => isGone ? route.abort() : route.continue());
  server.dropWatchers();
  await page.getByRole("alert").getByText("Connection lost, reconnecting").waitFor();
  isGone = false;
  await page.getByText("Connection lost").waitFor({ state: "detached" });
  errors.length = 0; // Chromium reports the lost requests
});

pageTest("a 401 asks for the key once, keeps it and goes on", {},
  async ({ page, server, errors }) => {
    server.apiKey = "k".repeat(32);
    server.onChat = async (_body, stream) => {
      stream.begin();
      stream.text("Let in.");
      stream.end();
    };
    await page.goto(server.origin);
    const dialog = page.getByRole("dialog", { name: "This swarm asks for its API key" });
    await dialog.getByLabel("API key").fill("wrong");
    await page.keyboard.press("Enter");
    await dialog.getByText("The server did not accept that key").waitFor();
    await dialog.getByLabel("API key").fill("k".repeat(32));
    await dialog.getByRole("button", { name: "Use this key" }).click();
    await page.getByText("Ready: 3 devices").first().waitFor();
    await page.getByRole("textbox", { name: "Message" }).fill("Hello");
    await page.keyboard.press("Enter");
    await page.locator(".answer").getByText("Let in.").waitFor();
    await page.reload();
    await page.getByText("Ready: 3 devices").first().waitFor();
    assert.equal(await page.locator("dialog[open]").count(), 0);
    errors.length = 0; // Chromium reports the refused requests
  });

pageTest("without a key the page says how to get in", {}, async ({ page, server, errors }) => {
  server.apiKey = "k".repeat(32);
  await page.goto(server.origin);
  await page.getByRole("button", { name: "Not now" }).click();
  await page.getByText("Open the chat link that").waitFor();
  await page.getByRole("button", { name: "Enter the key" }).click();
  await page.getByRole("dialog", { name: "This swarm asks for its API key" }).waitFor();
  errors.length = 0; // Chromium reports the refused requests
});

pageTest("a chat link's key leaves the address bar at once and never enters a request's address",
  {}, async ({ page, server }) => {
    server.apiKey = "a1".repeat(16);
    const addresses = [];
    page.on("request", (request) => addresses.push(request.url()));
    await page.goto(`${server.origin}/#key=${server.apiKey}`);
    await page.getByText("Ready: 3 devices").first().waitFor();
    assert.equal(page.url(), `${server.origin}/`);
    const [, ...later] = addresses; // the first is the address that was typed
    assert.ok(later.every((address) => !address.includes(server.apiKey)));
    assert.equal(await page.evaluate(() => history.length <= 2 && location.hash), "");
  });

pageTest("a hidden page holds no connection for the picture", {}, async ({ page, server }) => {
  await page.goto(server.origin);
  await page.getByText("Ready: 3 devices").first().waitFor();
  assert.equal(server.watcherCount, 1);
  const setHidden = (hidden) => page.evaluate((value) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => value });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
  await setHidden(true);
  await eventually(() => assert.equal(server.watcherCount, 0));
  await setHidden(false);
  await eventually(() => assert.equal(server.watcherCount, 1));
});

pageTest("the history of an hour and a day is drawn, and one more device is weighed", {},
  async ({ page, server }) => {
    await page.goto(`${server.origin}/swarm`);
    const devices = page.getByRole("region", { name: "Devices" });
    await devices.getByText("from 1 to 3").waitFor();
    await page.getByText(/^could answer 9\d% of the time$/).waitFor();
    await page.locator(".history-canvas canvas").nth(2).waitFor();
    const picture = () => page.locator(".history-canvas canvas").first()
      .evaluate((canvas) => canvas.toDataURL());
    const light = await picture();
    await page.emulateMedia({ colorScheme: "dark" });
    await eventually(async () => assert.notEqual(await picture(), light));
    server.history.levels[1].devices.fill(7);
    await page.reload();
    await page.getByRole("radio", { name: "Last day" }).focus();
    await page.keyboard.press("Space");
    await devices.getByText("7 all the time").waitFor();

    await page.getByText("4.1 MB, 9.3 MB").waitFor();
    await page.getByText("300 µs, 1.45 ms").waitFor();
    await page.getByLabel("A laptop that lends").selectOption("8 GiB");
    await page.getByRole("button", { name: "What would change?" }).click();
    await page.getByText(/^One answer would get faster: about 50 tokens\/s/).waitFor();
    assert.equal(server.askedWhatIf, String(8 * 2 ** 30));
    server.whatIf = { now: { runs: false }, with: { runs: false, missing_memory_bytes: 3e9 } };
    await page.getByLabel("A laptop that lends").selectOption("2 GiB");
    await page.getByRole("button", { name: "What would change?" }).click();
    await page.getByText("The model would still not run: 3 GB of memory would be missing.")
      .waitFor();
  });
