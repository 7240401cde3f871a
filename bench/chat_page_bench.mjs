// How quickly the chat page draws a long answer, and how long its tasks are while one streams.
//
//   ./dev bench chat-page [--characters 170000] [--rate 100] [--seconds 10] [--rounds 5]
//
// One line of JSON each for drawing (a kept chat is opened), streaming (tokens follow an answer of
// as many characters), and streaming code. Times in ms: `ms` until what is in view is drawn,
// `wholeMs` until all of it is; `cpu` leaves out what other programs took meanwhile.
import { parseArgs } from "node:util";
import { fileURLToPath } from "node:url";

import { launchBrowser } from "../tests/e2e/lib/tabs.mjs";
import { MockServer } from "../web/app/dev/mock_server.mjs";
import { swarms } from "../web/app/dev/mock_swarm.mjs";
import { median } from "./lib/statistics.mjs";

const { values } = parseArgs({
  options: {
    weft: { type: "string" },
    characters: { type: "string", default: "170000" },
    rate: { type: "string", default: "100" },
    seconds: { type: "string", default: "10" },
    rounds: { type: "string", default: "5" },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log("Options: --characters N --rate TOKENS_PER_SECOND --seconds N --rounds N");
  process.exit(0);
}
const kCharacters = Number(values.characters);
const kLongTaskMs = 50;

// Of everything that answers have, as much as models write of it.
function section(number) {
  return `## Section ${number}

The **weft** goes over and under, as \`thread(${number})\` does, and _then_ it holds. A
[link](https://example.com/${number}) says more about ~~that~~ this. Some more words follow, so that
the paragraph has a usual length, three or four lines of a page, with \\(x_${number} + 1\\) in it.

- first point with **bold** words
- second point, \`code\`
  - nested one
- third point

| Name | Count | Note |
| --- | ---: | --- |
| a | ${number} | one |
| b | ${2 * number} | two |

\`\`\`js
for (let i = 0; i < ${number}; i += 1) {
  weave(threads[i], "over and under");
}
\`\`\`

> A quote of somebody who said it *better*.

1. do this
2. then that

`;
}

function prose(characters) {
  let text = "";
  for (let number = 1; text.length < characters; number += 1) text += section(number);
  return text.slice(0, characters);
}

function code(characters) {
  let text = "```js\n";
  for (let number = 1; text.length < characters; number += 1) {
    text += `const thread${number} = weave(threads[${number}], "over and under");\n`;
  }
  return text;
}

function keptChat(text) {
  return {
    id: "bench", title: "Bench", updatedAtMs: 1,
    messages: [
      { role: "user", id: "q", text: "A long answer, please." },
      { role: "assistant", id: "a", text, phase: "done" },
    ],
  };
}

// From the click that opens the chat to the frame that shows it.
async function drawOnce(browser, origin) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  await page.goto(origin);
  await page.evaluate((chat) => localStorage.setItem("weft.chat.bench", JSON.stringify(chat)),
    keptChat(prose(kCharacters)));
  await page.reload();
  await page.getByRole("button", { name: "Chats" }).click();
  const open = page.getByRole("button", { name: /^Bench/ });
  await open.waitFor();
  await browser.startTracing(page, { categories: ["toplevel"] });
  const drawnMs = await open.evaluate((button) => new Promise((resolve) => {
    const startMs = performance.now();
    button.click();
    const look = () => {
      if (document.querySelector(".prose")) resolve(performance.now() - startMs);
      else requestAnimationFrame(look);
    };
    // The frame after the one that holds the answer begins once that is on the screen.
    requestAnimationFrame(() => requestAnimationFrame(look));
  }));
  // Parts out of view come behind that frame.
  const wholeMs = drawnMs + await page.evaluate(() => new Promise((resolve) => {
    const startMs = performance.now();
    const look = () => {
      if (!document.querySelector(".prose-part:empty")) resolve(performance.now() - startMs);
      else setTimeout(look);
    };
    look();
  }));
  const tasks = tasksOf(await browser.stopTracing());
  const nodes = await page.evaluate(() => document.querySelectorAll(".prose *").length);
  await page.context().close();
  return {
    drawnMs, wholeMs, nodes,
    cpuMs: tasks.reduce((sum, { cpuMs }) => sum + cpuMs, 0),
    longestCpuMs: Math.max(...tasks.map(({ cpuMs }) => cpuMs)),
  };
}

async function draw(browser, origin) {
  const runs = [];
  for (let round = 0; round < Number(values.rounds); round += 1) {
    runs.push(await drawOnce(browser, origin));
  }
  const of = (figure) => Math.round(median(runs.map((run) => run[figure])));
  return {
    what: "drawing", characters: kCharacters, nodes: runs[0].nodes,
    ms: of("drawnMs"), wholeMs: of("wholeMs"), cpuMs: of("cpuMs"), longestCpuMs: of("longestCpuMs"),
  };
}

function pieces(text) {
  return text.match(/[\s\S]{1,4}/g);
}

// The tasks of the page's main thread from a trace of Chromium, in ms.
function tasksOf(trace) {
  const { traceEvents } = JSON.parse(trace.toString());
  const main = traceEvents.filter(({ name, args }) =>
    name === "thread_name" && args.name === "CrRendererMain");
  const isMain = new Set(main.map(({ pid, tid }) => `${pid}.${tid}`));
  return traceEvents
    .filter(({ name, pid, tid, dur }) => name === "ThreadControllerImpl::RunTask" && dur > 0 &&
      isMain.has(`${pid}.${tid}`))
    .map(({ dur, tdur = dur }) => ({ wallMs: dur / 1000, cpuMs: tdur / 1000 }));
}

async function stream(browser, server, what, text) {
  const [before, after] = [text.slice(0, kCharacters), text.slice(kCharacters)];
  let begin;
  const begun = new Promise((resolve) => (begin = resolve));
  let end;
  const ended = new Promise((resolve) => (end = resolve));
  server.onChat = async (_body, answer) => {
    answer.begin();
    answer.text(before);
    await begun;
    const startMs = performance.now();
    let sent = 0;
    for (const piece of pieces(after)) {
      answer.text(piece);
      sent += 1;
      const waitMs = startMs + (1000 * sent) / Number(values.rate) - performance.now();
      if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
      if (performance.now() - startMs > 1000 * Number(values.seconds)) break;
    }
    end(sent / ((performance.now() - startMs) / 1000));
    answer.end();
  };
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  await page.goto(server.origin);
  await page.getByRole("textbox", { name: "Message" }).fill("Go on");
  await page.keyboard.press("Enter");
  await page.waitForFunction((length) =>
    document.querySelector(".prose")?.textContent.length > length / 2, before.length);
  await page.waitForTimeout(2000); // colours and formulas of what came at once
  await browser.startTracing(page, { categories: ["toplevel"] });
  begin();
  const tokensPerSecond = await ended;
  const tasks = tasksOf(await browser.stopTracing());
  await page.context().close();
  const longest = (kind) => Math.round(Math.max(...tasks.map((task) => task[kind])));
  return {
    what, characters: before.length, tokensPerSecond: Math.round(tokensPerSecond),
    tasks: tasks.length, longestMs: longest("wallMs"), longestCpuMs: longest("cpuMs"),
    over50: tasks.filter(({ wallMs }) => wallMs > kLongTaskMs).length,
    over50Cpu: tasks.filter(({ cpuMs }) => cpuMs > kLongTaskMs).length,
  };
}

const webRoot = fileURLToPath(new URL("../web/dist", import.meta.url));
const server = await new MockServer(webRoot).listen();
server.show(swarms.up());
const browser = await launchBrowser();
try {
  const more = 8 * Number(values.rate) * Number(values.seconds);
  console.log(JSON.stringify(await draw(browser, server.origin)));
  const cases = [["streaming", prose(kCharacters + more)],
    ["streaming code", code(kCharacters + more)]];
  for (const [what, text] of cases) {
    console.log(JSON.stringify(await stream(browser, server, what, text)));
  }
} finally {
  await browser.close();
  await server.close();
}
