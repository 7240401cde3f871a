// What `weft --help` and the help of every command say, as data: for the manual, for completions
// and for the test that neither leaves anything out.
import { execFileSync } from "node:child_process";

const kHeading = /^(Positionals|Options|Subcommands):$/;
// "  --role TEXT:ROLE=user       user: the API and the chat". A long name stands on a line alone.
const kEntry = /^ {2}(\S.*?)(?: {2,}(\S.*))?$/;
const kMore = /^ {6,}(\S.*)$/;

// {description, usage, positionals, options, subcommands}; each of the lists has {name, text}.
export function parseHelp(help) {
  const [head, ...lines] = help.split("\n");
  const parsed = { description: head.trim(), usage: "", positionals: [], options: [],
    subcommands: [] };
  let list = null;
  for (const line of lines) {
    const heading = kHeading.exec(line)?.[1];
    if (heading) list = parsed[heading.toLowerCase()];
    else if (line.startsWith("Usage: ")) {
      parsed.usage = line.replace(/^Usage: \S+/, "weft");
    } else if (list) addLine(list, line);
  }
  return parsed;
}

function addLine(list, line) {
  const more = kMore.exec(line);
  const entry = kEntry.exec(line);
  if (more && list.length > 0) list.at(-1).text = `${list.at(-1).text} ${more[1]}`.trim();
  else if (entry) list.push({ name: entry[1], text: entry[2] ?? "" });
}

// The program's own help and that of every command and their commands, in the order of --help:
// [{words: ["keys", "add"], description, ...}].
export function helpOf(weft, words = []) {
  const help = execFileSync(weft, [...words, "--help"], { encoding: "utf8" });
  const own = { words, ...parseHelp(help) };
  return [own, ...own.subcommands.flatMap(({ name }) => helpOf(weft, [...words, name]))];
}

// "-h,--help" and "--role TEXT:ROLE=user": the spellings of an option.
export function spellings(option) {
  return option.name.split(/[ =]/)[0].split(",").filter((word) => word.startsWith("-"));
}
