// Names of ops.json in the spellings of the languages: snake_case there.

export function pascal(name) {
  return name.replace(/(?:^|_)(\w)/g, (_, letter) => letter.toUpperCase());
}

export function camel(name) {
  return name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
}

// Text as a comment, one line or several as they stand.
export function comment(about, indent = "") {
  const lines = typeof about === "string" ? [about] : (about ?? []);
  return lines.map((line) => `${indent}//${line === "" ? "" : " "}${line}\n`).join("");
}

// A declaration with its comment behind it, or above it where that is wide.
export function declared(line, about) {
  if (about === undefined) return `${line}\n`;
  const behind = `${line}  // ${about}`;
  if (typeof about === "string" && behind.length <= 100) return `${behind}\n`;
  return comment(about, line.match(/^ */)[0]) + `${line}\n`;
}
