// What the terminal says while an answer moves to another server. The server here is a few lines
// that stream such an answer: the words go to the standard error, and the text stays whole.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { test } from "node:test";

import { weft } from "./lib/weft.mjs";

const chunk = (content) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`;

function answer(request, response) {
  if (request.url === "/v1/models") {
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify({ data: [{ id: "tiny" }] }));
    return;
  }
  response.setHeader("Content-Type", "text/event-stream");
  response.write(`${chunk("The cat")}: progress {"moving":true}\n\n: waiting\n\n`);
  response.end(`${chunk(" sat.")}data: [DONE]\n\n`);
}

test("weft run says that an answer moves, beside its text", async () => {
  const server = createServer(answer);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const child = spawn(weft, ["run", `http://127.0.0.1:${server.address().port}`]);
    const said = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"]) {
      child[name].setEncoding("utf8");
      child[name].on("data", (text) => (said[name] += text));
    }
    child.stdin.end("What sat?\n");
    const status = await new Promise((resolve) => child.on("close", resolve));
    assert.equal(status, 0, said.stderr);
    assert.match(said.stdout, /The cat sat\./);
    assert.doesNotMatch(said.stdout, /moving|waiting/);
    assert.equal(said.stderr.match(/\(moving to another server\)/g)?.length, 1, said.stderr);
  } finally {
    server.close();
  }
});
