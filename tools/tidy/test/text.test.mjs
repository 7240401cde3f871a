// Rules about a file's text: width, length, functions, banned calls, words, heads.
import assert from "node:assert/strict";
import { test } from "node:test";
import { assertCaught, assertClean, problemsOf } from "./helpers.mjs";

const lines = (count, text = "x();") => `${Array(count).fill(text).join("\n")}\n`;

test("lines are at most 100 columns", () => {
  assertCaught("layout", { "src/base/a.cc": `ok\n${"x".repeat(101)}\n` }, "src/base/a.cc:2",
    /101 columns/);
  assertCaught("layout", { "docs/a.md": `${"word ".repeat(21)}\n` }, "docs/a.md:1", /105 columns/);
  assertClean("layout", {
    "src/base/a.cc": `${"x".repeat(100)}\n${"é".repeat(100)}\n`,
    "docs/a.md": `| ${"x".repeat(200)} |\n\`\`\`\n${"x".repeat(200)}\n\`\`\`\n`,
    "data.json": "x".repeat(500),
    "models/a/card.md": "x".repeat(500),
  });
});

test("files are at most 800 lines", () => {
  assertCaught("layout", { "src/base/a.cc": lines(801) }, "src/base/a.cc:800", /801 lines/);
  assertClean("layout", { "src/base/a.cc": lines(800), "LICENSE": lines(900) });
});

test("functions are at most 70 lines, kernels 120", () => {
  const cxx = (count) =>
    `namespace weft {\nint Long(int a,\n         int b) {\n${lines(count - 3)}}\n}\n`;
  assertCaught("functions", { "src/base/a.cc": cxx(71) }, "src/base/a.cc:2", /function Long of 71/);
  assertClean("functions", { "src/base/a.cc": cxx(70), "src/kernels/a.cc": cxx(120) });
  assertCaught("functions", { "src/kernels/a.cc": cxx(121) }, "src/kernels/a.cc:2", /limit is 120/);
});

test("functions are found in every shape that C++ gives them", () => {
  const body = lines(70);
  const shapes = {
    constructor: `class A {\n public:\n  A() : a_{1}, b_(2) {\n${body}  }\n};\n`,
    qualified: `Result<A> B::Make(Span<const int> x) const {\n${body}}\n`,
    trailing: `template <class T>\nauto Make(T x) -> Result<T> {\n${body}}\n`,
    test: `TEST(Suite, Name) {\n${body}}\n`,
    returnsStruct: `struct stat Read(int file) {\n${body}}\n`,
    afterDirective: `#define OPEN {\nvoid A() {\n${body}}\n`,
    bracesInText: `void A() {\n  const char* x = "}}}"; // }}\n  char y = '}';\n${body}}\n`,
    afterSeparator: `constexpr int kBig = 1'000'000;\nvoid A() {\n${body}}\n`,
  };
  for (const [name, text] of Object.entries(shapes)) {
    assert.equal(problemsOf("functions", { "src/base/a.cc": text }).length, 1, name);
  }
  const noFunction = `constexpr Table kTable[] = {\n${lines(100, "{1, 2},")}};\n` +
    `enum class Code {\n${lines(100, "kA,")}};\n`;
  assertClean("functions", { "src/base/a.cc": noFunction });
});

test("functions are measured in TypeScript, WGSL, Python and shell", () => {
  const body = lines(70);
  const cases = {
    "web/app/src/a.ts": `export async function run(a: { b: number }): Promise<void> {\n${body}}\n`,
    "web/app/src/b.ts": `class A {\n  #run(x: string) {\n${body}  }\n}\n`,
    "web/app/src/c.tsx": `export const View = (p: Props) => {\n${body}};\n`,
    "web/app/src/d.test.ts": `describe("a", () => {\n it("b", () => {\n${body} });\n});\n`,
    "web/app/src/e.ts": `const t = \`{\${x ? "{" : \`}\`}\`;\nfunction run() {\n${body}}\n`,
    "tools/a.py": `class A:\n  def run(self,\n          x):\n${lines(70, "    x()")}`,
    "tools/a.sh": `run() {\n${body}}\n`,
  };
  for (const [path, text] of Object.entries(cases)) {
    assert.equal(problemsOf("functions", { [path]: text }).length, 1, path);
  }
  assertClean("functions", { "web/app/src/a.test.ts": `describe("a", () => {\n${body}});\n` });
  const kernel = (count) => `@compute @workgroup_size(64)\nfn main() {\n${lines(count)}}\n`;
  assertClean("functions", { "web/packages/engine/src/a.wgsl": kernel(110) });
  const long = { "web/packages/engine/src/a.wgsl": kernel(121) };
  assert.equal(problemsOf("functions", long).length, 1);
});

test("each banned C++ call is caught", () => {
  const samples = [
    "int x = std::stoi(text);", "int x = atoi(text);", "double x = strtod(text, &end);",
    "sprintf(buffer, text);", "strcpy(a, b);", "int x = rand();", "std::mt19937 engine;",
    "worker.detach();", 'system("ls");', "assert(x > 0);", "using namespace std;",
    "throw Bad();", "auto* x = new Thing(1);", "int* x = new int[4];", "delete x;", "delete[] x;",
    "void* x = malloc(3);", "std::cout << x;", "printf(x);",
    "auto t = std::chrono::steady_clock::now();", "auto t = time(nullptr);",
    "auto* t = localtime(&x);", "std::regex r;", "goto done;",
  ];
  for (const sample of samples) {
    const problems = problemsOf("banned", { "src/text/a.cc": `\n${sample}\n` });
    assert.equal(problems.length, 1, sample);
    assert.equal(problems[0].line, 2, sample);
  }
  assertCaught("banned", { "src/swarm/a.cc": "auto t = MonotonicNow();" }, "src/swarm/a.cc:1",
    /clock/);
});

test("what only looks like a banned call passes", () => {
  assertClean("banned", {
    "src/text/a.cc": [
      "// throw, assert(x) and new Thing(1) in prose", 'Log("delete x; rand()");',
      "A(const A&) = delete;", "::operator delete(p);",
      "std::unique_ptr<A>(new A(1));", "state.reset(new A());",
      "static_assert(sizeof(int) == 4);", "session.assert(x);", "new (place) A(1);",
      "snprintf(b, sizeof b, f);", "page.free(x);", "x.time(nullptr);",
    ].join("\n"),
    "src/apps/run.cc": "std::cout << answer;",
    "src/worker/a.cc": "auto t = MonotonicNow();",
    "src/text/a_test.cc": "std::mt19937 oracle; throw 1;",
    "tools/a.mjs": "console.log(1);",
  });
});

test("each banned TypeScript call is caught", () => {
  const samples = [
    "console.log(x);", "node.innerHTML = x;", "document.write(x);", "eval(x);",
    "new Function(x);", "Math.random();", "const y = x as any;", "function f(x: any) {}",
    "debugger;", "// @ts-ignore", "// eslint-disable-next-line no-eval",
  ];
  for (const sample of samples) {
    const problems = problemsOf("banned", { "web/packages/ui/src/a.ts": `\n${sample}\n` });
    assert.equal(problems.length, 1, sample);
  }
  assertClean("banned", {
    "web/packages/ui/src/a.ts": [
      "// console.log and innerHTML in prose", 'const s = "eval(x)";', "node.textContent = x;",
      "// eslint-disable-next-line no-eval -- the reason", "const r = /console\\.log/;",
    ].join("\n"),
  });
});

test("unfinished work, machine paths and registry hosts are caught", () => {
  const samples = [
    "// TO" + "DO: later", "// FIX" + "ME", "x(); // X" + "XX", "const p = \"/wo" + "rk/main/a\";",
    "cd /ho" + "me/me/weft", "fetch('https://regis" + "try.example.com/x');",
  ];
  for (const sample of samples) {
    assert.equal(problemsOf("words", { "src/base/a.cc": sample }).length, 1, sample);
  }
  assertCaught("words", { "web/package-lock.json": '\n"resolved": "https://a.example/x.tgz",\n' },
    "web/package-lock.json:2", /package registry/);
  assertClean("words", {
    "src/base/a.cc": "// homework/main, ./work/x, mktemp XXXXXX, https://example.com/home/x\n",
    "web/package-lock.json": '"resolved": "packages/ui",',
    "models/weft-tiny/tokenizer.json": "TO" + "DO",
  });
});

test("files begin with a comment, headers with #pragma once too", () => {
  assertCaught("file-head", { "src/base/a.h": "// What.\nint a;\n" }, "src/base/a.h:1",
    /pragma once/);
  assertCaught("file-head", { "src/base/a.cc": "int a;\n" }, "src/base/a.cc:1", /no comment/);
  assertCaught("file-head", { "web/app/src/a.ts": "let a;\n" }, "web/app/src/a.ts:1", /no comment/);
  assertCaught("file-head", { "tools/a.py": "import os\n" }, "tools/a.py:1", /no comment/);
  assertClean("file-head", {
    "src/base/a.h": "// What.\n#pragma once\n",
    "src/base/a.cc": '#include "base/a.h"\n',
    "src/base/a_test.cc": '#include <x>\n#include "base/a.h"\n',
    "tools/a.py": '#!/usr/bin/env python3\n"""What."""\n',
    "tools/a.sh": "#!/usr/bin/env bash\n# What.\n",
  });
});
