// Words and places that do not belong into the repository: unfinished work, paths of one machine,
// package registries' hosts.
import { languageOf } from "../source.mjs";

// Put together so that this file does not contain them itself.
const kUnfinishedWords = ["TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"].join("|");
const kUnfinished = new RegExp(`\\b(${kUnfinishedWords})\\b`);
const kMachineFolders = ["wo" + "rk", "ho" + "me", "ro" + "ot", "Use" + "rs"].join("|");
const kMachinePath = new RegExp(`(^|[^\\w.~$}/-])/(${kMachineFolders})/[\\w.-]`);
const kRegistryHosts = new RegExp([
  "registry\\.[\\w-]+\\.\\w+", "[\\w-]*artifac" + "tory[\\w.-]*\\.\\w+", "verdac" + "cio",
  "py" + "pi\\.(org|python)", "files\\.python" + "hosted", "deb\\.deb" + "ian\\.org",
].join("|"), "i");

const kDataFolder = /^models\/|^tests\/(golden|fuzz\/corpus|data)\//;

export function words(file) {
  if (kDataFolder.test(file.path)) return [];
  const isLock = file.path.endsWith("package-lock.json");
  const isCode = languageOf(file.path, file.text) !== "other" || file.path.endsWith(".md");
  const problems = [];
  file.text.split("\n").forEach((text, index) => {
    const add = (what, instead) => problems.push({ line: index + 1, what, instead });
    if (isLock && /"resolved": "https?:/.test(text)) {
      add("an address of a package registry",
        "install with the .npmrc beside it, which leaves addresses out");
    } else if (!isLock && kRegistryHosts.test(text)) {
      add(`a package registry's host: ${kRegistryHosts.exec(text)[0]}`,
        "leave it to the user's own configuration");
    }
    if (isLock) return;
    if (isCode && kUnfinished.test(text)) {
      add(`unfinished work: ${kUnfinished.exec(text)[0]}`,
        "do it, or open an issue and say what holds today");
    }
    if (kMachinePath.test(text)) {
      add("an absolute path of one machine", "make it relative to the repository or an option");
    }
  });
  return problems;
}
