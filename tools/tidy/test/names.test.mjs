// Rules about names: what is declared is used, and what comments name is there.
import assert from "node:assert/strict";
import { test } from "node:test";
import { declarationsOf } from "../declarations.mjs";
import { assertCaught, assertClean, problemsOf } from "./helpers.mjs";

const header = `
#pragma once
namespace weft {
struct Point { int x_mm = 0; };
class Grid {
 public:
  explicit Grid(Point origin) : origin_(origin) {}
  std::map<int, std::pair<int, int>> Cells(int count = 3) const;
  template <typename T> T Sum(std::span<const T> values) { return Cells().size(); }
  void Draw() override;
  bool operator==(const Grid&) const = default;
 private:
  Point origin_;
};
enum class Colour : int { kRed, kBlue };
inline constexpr int kMost = 7, kLeast = 1;
using Points = std::vector<Point>;
class Later;
}  // namespace weft
`;

test("declarations are read from types, methods, constants and fields", () => {
  const found = declarationsOf(header).map(({ name, kind }) => `${kind} ${name}`);
  assert.deepEqual(found, ["type Point", "field x_mm", "type Grid", "constructor Grid",
    "function Cells", "function Sum", "function Draw", "field origin_", "type Colour",
    "constant kMost", "type Points", "type Later"]);
  assert.ok(declarationsOf(header).find(({ name }) => name === "Draw").isOverride);
  const source = "namespace weft {\nint x = 1;\nvoid Grid::Draw() { Sum(); }\n}";
  const [, definition] = declarationsOf(source);
  assert.deepEqual([definition.name, definition.line, definition.extra], ["Draw", 3, ["Grid"]]);
});

test("a constructor's list of members does not end at their braces", () => {
  const found = declarationsOf("class A {\n A(int b) : b_{b}, c_(1) { Do(); }\n int After();\n};");
  assert.deepEqual(found.map(({ name }) => name), ["A", "A", "After"]);
});

test("a function, method, type or constant that only tests use", () => {
  const declares = (line) => ({
    "src/base/a.h": `// A.\nnamespace weft {\n${line}\n}\n`,
    "src/base/a_test.cc": "int x = Half() + kHalf + A().Half() + Halves::kOne;",
    "bench/a_bench.cc": "int y = Half() + kHalf;",
    "src/base/a_testing.h": "int z = Half() + kHalf;",
  });
  for (const [line, pattern] of [
    ["int Half(int value);", /the function Half is used nowhere/],
    ["class A { public: A(); ~A(); };", /the type A is/],
    ["enum class Halves { kOne };", /the type Halves is/],
    ["inline constexpr int kHalf = 2;", /the constant kHalf is/],
    ["using Half = int;", /the type Half is/],
  ]) assertCaught("unused-names", declares(line), "src/base/a.h:3", pattern);
  assertCaught("unused-names", {
    ...declares("int Half(int value);"),
    "src/base/a.cc": "namespace weft {\nint Half(int value) { return value; }\n}",
  }, "src/base/a.h:3", /Half/);
  assertCaught("unused-names", {
    "src/base/a.h": "namespace weft {\nclass A {\n void Run();\n};\nint Of(A a);\n}",
    "src/base/a.cc": "namespace weft {\nvoid A::Run() {}\nint x = Of({});\n}",
  }, "src/base/a.h:3", /function Run/);
});

test("what the product uses, or a library calls, is left alone", () => {
  assertClean("unused-names", {
    "src/base/a.h": "namespace weft {\nint Half(int v);\nstruct S { int begin() const; };\n" +
      "class D : public google::Base { void LibraryHook() override; };\n}",
    "src/net/b.cc": "namespace weft {\nint x = Half(S().begin());\nD d;\n}",
  });
});

test("a TypeScript export that only tests and re-exports name", () => {
  const tree = (use) => ({
    "web/packages/wire/src/a.ts": "export interface Half { readonly x: number }\n",
    "web/packages/wire/src/index.ts": 'export { type Half } from "./a.ts";\n',
    "web/packages/wire/src/a.test.ts": 'import { Half } from "./a.ts"; let x: Half;\n',
    "web/app/src/b.ts": use,
  });
  const place = "web/packages/wire/src/a.ts:1";
  assertCaught("unused-names", tree(""), place, /the interface Half/);
  assertClean("unused-names", tree('import { Half } from "@weft/wire";\nlet x: Half;\n'));
  assertClean("unused-names", tree("const text = `${Half}`;\n"));
});

test("code that is made of ops.json uses what its rules name", () => {
  const tree = (rules) => ({
    "src/program/checker.h": "#pragma once\nnamespace weft {\nint Finite(int v);\n}\n",
    "src/program/ops.json": JSON.stringify({ ops: [{
      name: "Twist", message: "twist", number: 1, rules,
      fields: [["out", "view out", 1], ["angle", "f32", 2]],
    }] }),
  });
  assertCaught("unused-names", tree([]), "src/program/checker.h:3", /the function Finite/);
  assertClean("unused-names", tree(["finite angle"]));
});

test("symbols and files in comments that are not there", () => {
  const code = "namespace weft {\nclass Grid { void Draw(); static int kMost; };\n}\n";
  const tree = (comment) => ({ "src/base/grid.h": `${code}// ${comment}\nint x;\n` });
  for (const [comment, pattern] of [
    ["See Grid::Paint.", /Grid::Paint is nowhere/],
    ["See Net::Draw.", /Net::Draw is nowhere/],
    ["Made by DrawAll().", /DrawAll is nowhere/],
    ["At most kLeast.", /kLeast is nowhere/],
    ["The layout is in net_grid.h.", /net_grid\.h is nowhere/],
    ["As web/src/grid.ts does.", /web\/src\/grid\.ts is nowhere/],
  ]) assertCaught("named-symbols", tree(comment), "src/base/grid.h:4", pattern);
  assertClean("named-symbols", tree("Grid::Draw, weft::Grid, kMost, std::x; base/grid.h."));
  assertClean("named-symbols", tree("Tests stand beside it (x_test.cc); build/out/made.mjs."));
  assertClean("named-symbols", { "bench/a.mjs": '// Writes made.mjs.\nwrite("made.mjs");\n' });
});

test("documents name what is there, too; strings and code are not read", () => {
  const paper = { "docs/a.md": "# A\n`Grid::Paint` of src/base/grid.h\n" };
  assert.equal(problemsOf("named-symbols", paper).length, 2);
  assertClean("named-symbols", { ...paper, "src/base/grid.h": "struct Grid { void Paint(); };" });
  assertClean("named-symbols", { "src/a.cc": 'const char* x = "Not::There in no_file.h";' });
  assertClean("named-symbols", { "CHANGELOG.md": "`Old::Name` went.\n" });
});
