// The helper's page with a worker that only pretends: what is told to it, and what is shown of it.
import assert from "node:assert/strict";
import { pageTest, setUpBrowser } from "./lib/pages.mjs";
import { eventually } from "./lib/weft.mjs";

setUpBrowser();

const kMiB = 2 ** 20;

// What the page told its worker, and statuses that the worker shall send.
async function direct(page) {
  await page.evaluate(() => {
    window.fake = new BroadcastChannel("fake-worker");
    window.told = [];
    window.fake.onmessage = ({ data }) => {
      if (data.kind === "told") window.told.push(data.message);
    };
  });
  return {
    told: () => page.evaluate(() => window.told),
    play: (status) => page.evaluate((it) => window.fake.postMessage({ kind: "play", status: it }),
      status),
  };
}

const startButton = (page) => page.getByRole("button", { name: "Help compute" });
const stopButton = (page) => page.getByRole("button", { name: "Stop helping" });

pageTest("nothing starts by itself; one click starts with what the form says", {},
  async ({ page, server }) => {
    const requested = [];
    page.on("request", (request) => requested.push(new URL(request.url()).pathname));
    const query = "memory=16777216&name=Test%20tab&engine=wasm";
    await page.goto(`${server.origin}/join?${query}#${"b".repeat(32)}`);
    assert.equal(page.url(), `${server.origin}/join?${query}`);
    await page.getByText("Downloads up to 15 MB of weft-tiny").waitFor();
    await page.getByText("with at most 16 MiB of memory").waitFor();
    const worker = await direct(page);
    await page.waitForTimeout(300);
    assert.deepEqual(await worker.told(), []);
    assert.ok(requested.every((path) => !path.includes("worker")), "no worker was loaded");
    await startButton(page).click();
    await stopButton(page).waitFor();
    await eventually(async () => assert.equal((await worker.told()).length, 1));
    const [start] = await worker.told();
    assert.match(start.workerId, /^[0-9a-f]{32}$/);
    delete start.workerId;
    assert.deepEqual(start, {
      kind: "start", serverOrigin: server.origin, joinToken: "b".repeat(32), name: "Test tab",
      memoryBytes: 16 * kMiB, processorBytes: 16 * kMiB, isPhone: false, engine: "wasm",
    });
    await stopButton(page).click();
    await startButton(page).waitFor();
    assert.deepEqual((await worker.told()).map(({ kind }) => kind), ["start", "stop"]);
  });

pageTest("the whole model is offered, asked for and given back", {}, async ({ page, server }) => {
  await page.goto(`${server.origin}/join`);
  const worker = await direct(page);
  await startButton(page).click();
  await eventually(async () => assert.equal((await worker.told()).length, 1));
  const ready = {
    engine: "webgpu", modelName: "weft-tiny", layers: [0, 10], memoryBytes: 512 * kMiB,
    cachedBytes: 0, message: "", phase: "ready",
  };
  const all = page.getByRole("button", { name: "Run it all here" });
  const shared = page.getByRole("button", { name: "Share the work again" });
  await worker.play({ ...ready, whole: "no" });
  await page.locator(".helping-head [role=status]").getByText("Ready", { exact: true }).waitFor();
  assert.equal(await all.count(), 0);
  await worker.play({ ...ready, whole: "possible" });
  await all.click();
  await worker.play({ ...ready, whole: "here" });
  await page.getByText("This device computes the whole model by itself").waitFor();
  await shared.click();
  await worker.play({ ...ready, whole: "possible" });
  await all.waitFor();
  assert.deepEqual((await worker.told()).slice(1), [
    { kind: "runHere", isWanted: true, apiKey: "" },
    { kind: "runHere", isWanted: false, apiKey: "" },
  ]);
});

pageTest("the worker's status is shown", {}, async ({ page, server }) => {
  await page.goto(`${server.origin}/join`);
  const worker = await direct(page);
  await startButton(page).click();
  await eventually(async () => assert.equal((await worker.told()).length, 1));
  const base = {
    engine: "ort-wasm", modelName: "weft-tiny", layers: null, memoryBytes: 512 * kMiB,
    cachedBytes: 0, message: "",
  };
  const status = page.locator(".helping-head [role=status]");
  await worker.play({ ...base, phase: "idle", message: "Connected. The swarm has no work yet." });
  await status.getByText("Connected. The swarm has no work yet.").waitFor();
  await worker.play({ ...base, phase: "downloading", message: "Downloading layers 4–6.",
    download: { doneBytes: 2_000_000, totalBytes: 8_000_000 } });
  await status.getByText("Downloading", { exact: true }).waitFor();
  await page.getByText("2 MB of 8 MB (25%)").waitFor();
  await worker.play({ ...base, phase: "loading" });
  await page.getByRole("progressbar", { name: "Warm-up" }).waitFor();
  await worker.play({ ...base, phase: "computing", layers: [4, 10], usedBytes: 5 * kMiB,
    cachedBytes: 4_900_000, keepsWeights: true, rowsComputed: 1234, stepsComputed: 90,
    lastStepMs: 3.25,
    rowsPerSecond: 41.5 });
  for (const words of [
    "Computing", "layers 4–8 and the head", "41.5 rows/s", "3.25 ms", "1\u202f234",
    "5 of 512 MiB", "ort-wasm", "4.9 MB of weights are kept in this browser.",
  ]) await page.getByText(words, { exact: true }).waitFor();
  // Steps take milliseconds: the words do not change with each.
  await worker.play({ ...base, phase: "ready", layers: [4, 10] });
  assert.equal(await status.getByText("Computing", { exact: true }).count(), 1);
  await status.getByText("Ready", { exact: true }).waitFor();
  await worker.play({ ...base, phase: "reconnecting", message: "Trying again in 4 s." });
  const alert = page.getByRole("alert");
  await alert.getByText("Connection lost, reconnecting").waitFor();
  await alert.getByText("Trying again in 4 s.").waitFor();
  await page.getByRole("button", { name: "Forget cached weights" }).click();
  await eventually(async () => assert.ok(
    (await worker.told()).some(({ kind }) => kind === "forgetCache")));
});

pageTest("a refusal leads back to the form and says why", {}, async ({ page, server }) => {
  await page.goto(`${server.origin}/join`);
  const worker = await direct(page);
  await startButton(page).click();
  await eventually(async () => assert.equal((await worker.told()).length, 1));
  await worker.play({ phase: "refused", message: "The server speaks protocol 2, this page 1: " +
    "reload the page." });
  await page.getByRole("alert").getByText("speaks protocol 2, this page 1: reload").waitFor();
  await startButton(page).waitFor();
});

pageTest("a page that goes away tells its worker", {}, async ({ page, server, context }) => {
  await page.goto(`${server.origin}/join`);
  await startButton(page).click();
  await stopButton(page).waitFor();
  // Another page of the same origin listens, since this one goes away.
  const listener = await context.newPage();
  await listener.goto(`${server.origin}/join`);
  const worker = await direct(listener);
  await eventually(async () => {
    await page.evaluate(() => dispatchEvent(new Event("pagehide")));
    assert.ok((await worker.told()).some(({ kind }) => kind === "leaving"));
  });
});

pageTest("battery and metered connections want permission; helping pauses and goes on", {},
  async ({ page, server }) => {
    await page.addInitScript(() => {
      const battery = Object.assign(new EventTarget(), { charging: false });
      window.battery = battery;
      navigator.getBattery = () => Promise.resolve(battery);
    });
    await page.goto(`${server.origin}/join`);
    const worker = await direct(page);
    const kinds = async () => (await worker.told()).map(({ kind }) => kind);
    await page.getByText("This device runs on battery.").waitFor();
    assert.ok(await startButton(page).isDisabled());
    await page.getByLabel("on battery").check();
    await startButton(page).click();
    await eventually(async () => assert.deepEqual(await kinds(), ["start"]));
    await stopButton(page).click();
    await page.getByLabel("on battery").uncheck();
    const setCharging = (charging) => page.evaluate((value) => {
      window.battery.charging = value;
      window.battery.dispatchEvent(new Event("chargingchange"));
    }, charging);
    await setCharging(true);
    await startButton(page).click();
    await eventually(async () => assert.deepEqual(await kinds(), ["start", "stop", "start"]));
    await setCharging(false);
    await page.getByRole("alert").getByText("Paused").waitFor();
    await eventually(async () => assert.deepEqual((await kinds()).slice(3), ["stop"]));
    await page.waitForTimeout(400); // the stopped worker is gone after a quarter of a second
    await setCharging(true);
    await eventually(async () => assert.deepEqual((await kinds()).slice(3), ["stop", "start"]));
    await stopButton(page).click();
    await startButton(page).waitFor();
  });

pageTest("a swarm that wants a token asks for it; a whole link is welcome", {},
  async ({ page, server, errors }) => {
    server.joinToken = "c4".repeat(16);
    server.apiKey = "d5".repeat(16);
    await page.goto(`${server.origin}/join`);
    await page.getByRole("heading", { name: "This swarm asks for its join token" }).waitFor();
    assert.ok(await startButton(page).isDisabled());
    assert.equal(await page.locator("dialog[open]").count(), 0, "the API key is not asked for");
    await page.getByLabel("Join token or join link").fill("e6".repeat(16));
    await page.getByRole("button", { name: "Use this token" }).click();
    await page.getByText("The server did not accept the token").waitFor();
    await page.getByLabel("Join token or join link")
      .fill(`${server.origin}/join#${server.joinToken}`);
    await page.getByRole("button", { name: "Use this token" }).click();
    await page.getByText("Downloads up to 15 MB of weft-tiny").waitFor();
    assert.ok(await startButton(page).isEnabled());
    errors.length = 0; // Chromium reports the refused requests
  });

pageTest("over plain http from another device it says what to do instead", {},
  async ({ page, server }) => {
    await page.addInitScript(() => {
      Object.defineProperty(window, "isSecureContext", { value: false });
    });
    await page.goto(`${server.origin}/join`);
    await page.getByText("This address cannot be used for helping").waitFor();
    await page.getByText("A phone or another computer needs an address with https://").waitFor();
    await page.getByText("weft serve --share").waitFor();
    assert.ok(await startButton(page).isDisabled());
  });

pageTest("memory: sensible default, small steps, phones offer half a GiB", {},
  async ({ page, server }) => {
    const setDevice = (mobile) => page.addInitScript((isMobile) => {
      const define = (key, value) =>
        Object.defineProperty(navigator, key, { configurable: true, get: () => value });
      define("deviceMemory", 8);
      define("userAgentData", { mobile: isMobile });
    }, mobile);
    await setDevice(false);
    await page.goto(`${server.origin}/join`);
    const slider = page.getByRole("slider", { name: "Memory to offer" });
    assert.equal(await slider.getAttribute("aria-valuetext"), "2 GiB");
    await slider.press("Home");
    assert.equal(await slider.getAttribute("aria-valuetext"), "8 MiB");
    await page.getByText("Downloads up to 8.4 MB").waitFor();
    await slider.press("End");
    assert.equal(await slider.getAttribute("aria-valuetext"), "4 GiB");
    await setDevice(true);
    await page.reload();
    assert.equal(await slider.getAttribute("aria-valuetext"), "512 MiB");
  });

const kAsk = "Ask the graphics processor";

// A card of an NVIDIA GPU that has so much memory, and refuses what goes beyond.
function giveCard(page, bytes) {
  return page.addInitScript((memoryBytes) => {
    const limits = { maxBufferSize: 2 ** 32, maxStorageBufferBindingSize: 2 ** 31 };
    const makeDevice = () => {
      const scopes = [];
      let held = 0;
      let isFull = false;
      const createBuffer = ({ size }) => {
        isFull = held + size > memoryBytes;
        if (isFull) return { destroy: () => undefined };
        held += size;
        return { destroy: () => (held -= size) };
      };
      const popErrorScope = async () =>
        scopes.pop() === "out-of-memory" && isFull ? { message: "no memory" } : null;
      const onSubmittedWorkDone = () => new Promise((resolve) => setTimeout(resolve, 2));
      return {
        limits, createBuffer, popErrorScope, pushErrorScope: (filter) => scopes.push(filter),
        createCommandEncoder: () => ({ clearBuffer: () => undefined, finish: () => undefined }),
        queue: { submit: () => undefined, onSubmittedWorkDone },
        destroy: () => (window.heldAtTheEnd = held),
      };
    };
    const info = { vendor: "nvidia", architecture: "ada" };
    const requestDevice = async () => makeDevice();
    const requestAdapter = async () => ({ info, limits, features: new Set(), requestDevice });
    Object.defineProperty(navigator, "gpu", { configurable: true, value: { requestAdapter } });
  }, bytes);
}

pageTest("a card is asked for its memory once its owner says so; what it gave is kept", {},
  async ({ page, server }) => {
    await giveCard(page, 24 * 2 ** 30);
    await page.goto(`${server.origin}/join`);
    const slider = page.getByRole("slider", { name: "Memory to offer" });
    const shown = () => slider.getAttribute("aria-valuetext");
    await page.getByRole("button", { name: kAsk }).click();
    const found = "The graphics processor gave 24 GiB: up to 21.6 GiB may be lent";
    await page.getByText(found).waitFor();
    assert.equal(await page.evaluate(() => window.heldAtTheEnd), 0, "all of it was given back");
    assert.equal(await shown(), "18 GiB");
    await slider.press("End");
    assert.equal(await shown(), "21 GiB");
    await slider.press("ArrowLeft");
    const worker = await direct(page);
    await startButton(page).click();
    await eventually(async () => assert.equal((await worker.told()).length, 1));
    const [{ memoryBytes, processorBytes }] = await worker.told();
    assert.equal(memoryBytes, 20 * 2 ** 30);
    assert.ok(processorBytes < memoryBytes, "the system's memory is not the card's");
    await worker.play({
      phase: "ready", message: "", engine: "webgpu", modelName: "weft-tiny", layers: [0, 10],
      memoryBytes, usedBytes: 2 ** 30, cachedBytes: 0,
    });
    await page.getByText("20 of 24 GiB", { exact: true }).waitFor();
    await page.reload();
    assert.equal(await shown(), "20 GiB");
    await page.getByText("The graphics processor gave 24 GiB").waitFor();
    await page.getByRole("button", { name: "Ask it again" }).waitFor();
  });

pageTest("a phone is not asked, nor is a GPU that nobody wants", {}, async ({ page, server }) => {
  await giveCard(page, 24 * 2 ** 30);
  await page.goto(`${server.origin}/join?engine=wasm`);
  await startButton(page).waitFor();
  assert.equal(await page.getByRole("button", { name: kAsk }).count(), 0);
  await page.goto(`${server.origin}/join`);
  await page.getByRole("button", { name: kAsk }).waitFor();
  await page.addInitScript(() => Object.defineProperty(navigator, "userAgentData",
    { configurable: true, get: () => ({ mobile: true }) }));
  await page.reload();
  await startButton(page).waitFor();
  assert.equal(await page.getByRole("button", { name: kAsk }).count(), 0);
});

// The software adapter of this Chromium takes the system's memory, of which half may be lent.
pageTest("Chromium's own adapter is asked, and gives what a tab may take", {},
  async ({ page, server }) => {
    await page.addInitScript(() => Object.defineProperty(navigator, "deviceMemory",
      { configurable: true, get: () => 1 }));
    await page.goto(`${server.origin}/join`);
    await page.getByRole("button", { name: kAsk }).click();
    await page.getByText("There is no graphics processor here").waitFor({ timeout: 60_000 });
    await page.goto(`${server.origin}/join?engine=webgpu`);
    await page.getByRole("button", { name: kAsk }).click();
    await page.getByText("gave 512 MiB, which it shares").waitFor({ timeout: 60_000 });
    const slider = page.getByRole("slider", { name: "Memory to offer" });
    assert.equal(await slider.getAttribute("aria-valuetext"), "256 MiB");
  });

pageTest("two tabs of one browser help as two devices, each the same after a reload", {},
  async ({ page, server, context }) => {
    const idOf = async (tab) => {
      const worker = await direct(tab);
      await startButton(tab).click();
      // The channel is heard by every tab: only a start of this tab's own name counts.
      const name = await tab.evaluate(() => new URLSearchParams(location.search).get("name"));
      return eventually(async () => {
        const start = (await worker.told()).find((message) => message.name === name);
        assert.ok(start);
        return start.workerId;
      });
    };
    const other = await context.newPage();
    await page.goto(`${server.origin}/join?name=one`);
    await other.goto(`${server.origin}/join?name=two`);
    const first = await idOf(page);
    const second = await idOf(other);
    assert.notEqual(first, second);
    await page.reload();
    assert.equal(await idOf(page), first);
  });

pageTest("helping goes on while the chat is used, and the navigation shows it", {},
  async ({ page, server }) => {
    await page.goto(`${server.origin}/join`);
    const worker = await direct(page);
    await startButton(page).click();
    await stopButton(page).waitFor();
    await page.getByRole("link", { name: "Chat" }).click();
    await page.getByRole("textbox", { name: "Message" }).waitFor();
    await page.getByRole("link", { name: "Help (helping now)" }).click();
    await stopButton(page).waitFor();
    assert.deepEqual((await worker.told()).map(({ kind }) => kind), ["start"]);
  });

pageTest("a helper rests, keeps to its data limit, and hears why it is put aside or slept", {},
  async ({ page, server }) => {
    // Noon, so that no day ends while the clock runs ahead.
    await page.clock.install({ time: new Date().setHours(12, 0, 0, 0) });
    await page.goto(`${server.origin}/join`);
    await page.getByText("weft-tiny").waitFor();
    const worker = await direct(page);
    await page.getByLabel(/^Compute/).selectOption("At most 25% of the time");
    await page.getByLabel("Data of a day").selectOption("At most 2 GB");
    server.ownProblem = "It would slow the swarm down, so it holds no layers.";
    await startButton(page).click();
    await eventually(async () => assert.equal((await worker.told())[0]?.share, 0.25));
    await page.getByText("The swarm does without this device for now").waitFor();
    await page.getByText("It would slow the swarm down, so it holds no layers.").waitFor();
    server.ownProblem = "";
    await page.clock.runFor(6000);
    await page.getByText("The swarm does without this device").waitFor({ state: "detached" });

    const used = (trafficBytes) => worker.play({ phase: "ready", trafficBytes });
    await used(1.5e9);
    await page.getByText("1.5 GB of 2 GB").waitFor();
    await page.clock.fastForward("12:00"); // the device slept: no timer ran
    await page.getByText("This tab was suspended for 12 minutes").waitFor();
    await used(2.1e9);
    await page.getByText("The data limit of 2 GB a day is used up.").first().waitFor();
    await eventually(async () => assert.equal((await worker.told()).at(-1).kind, "stop"));
    await page.clock.runFor(6000);
    await page.reload();
    await page.getByText("The data limit of 2 GB a day is used up.").waitFor();
    assert.equal(await startButton(page).isDisabled(), true);
    await page.getByLabel("Data of a day").selectOption("At most 5 GB");
    assert.equal(await startButton(page).isDisabled(), false);
  });
