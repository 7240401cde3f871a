// Rules of ops.json as calls of a checker's methods, for both languages: which method, and what it
// is given. Each checker (src/program/validate.cc, web/packages/engine/src/program/checker.ts) has
// a method for each verb.

// What a verb's words are: V a view, W a weight, F a field, N the number of a field or an
// expression, D a dimension; the last one may come again with "+".
const kWords = {
  own: "",
  read: "V",
  write: "V",
  elementwise: "V+",
  apart: "V+",
  columns: "VN",
  heads: "VCC",
  shape: "WD+",
  vector: "WD",
  rows: "WNN",
  kind: "E",
  positive: "F",
  positive_or_zero: "F",
  finite: "F",
  epsilon: "F",
  experts: "NN",
  shared: "CCN",
  rope: "RN",
  grid: "F",
};

// "shape weight *vocabulary out.columns" as its verb, words and the fields that these name.
export function parseRule(text) {
  const [verb, ...words] = text.split(" ");
  const names = words.filter((word) => !word.startsWith("*"))
    .map((word) => word.replace(/^\d+\*/, "").replace(/\.columns$/, ""));
  const kinds = kWords[verb];
  if (kinds === undefined) {
    throw new Error(`The rule '${text}' is none; expected ${Object.keys(kWords).join(", ")}.`);
  }
  const least = kinds.replace("+", "").length;
  if (words.length < least || (words.length > least && !kinds.endsWith("+"))) {
    const count = `${words.length} words behind its verb`;
    throw new Error(`The rule '${text}' has ${count}; expected ${least}.`);
  }
  return { verb, words, names };
}

// The kind of the word at a place.
export function kindOf(verb, place) {
  const kinds = kWords[verb].replace("+", "");
  return kinds[Math.min(place, kinds.length - 1)];
}

// Whether the rule holds where the field that it is about is absent.
export function mayBeAbsent({ verb, words }, fields) {
  if (!["shape", "vector", "rope"].includes(verb)) return false;
  return fields.find(({ name }) => name === words[0]).type.endsWith("?");
}
