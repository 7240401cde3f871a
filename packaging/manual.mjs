// The manual page weft(1) in roff, from what `--help` says.

// A hyphen that people copy must stay one, and a line must not begin as a request of roff.
function plain(text) {
  return text.replaceAll("\\", "\\e").replaceAll("-", "\\-").replace(/^(['.])/, "\\&$1");
}

const entry = ({ name, text }) => `.TP\n.B ${plain(name)}\n${plain(text) || "\\&"}\n`;

function command(help) {
  const name = plain(["weft", ...help.words].join(" "));
  const lines = [`.SS ${name}\n${plain(help.description)}\n`];
  for (const item of [...help.positionals, ...help.options]) {
    if (!item.name.startsWith("-h,")) lines.push(entry(item));
  }
  return lines.join("");
}

const kFiles = [
  ["/etc/weft/weft.env", "what weft.service serves, and its secrets"],
  ["~/.local/state/weft", "API keys, what a restart needs, and the server's own certificate"],
  ["~/.local/share/weft/packages", "models that were pulled"],
  ["~/.cache/weft", "weights that a worker keeps"],
];
const kVariables = [
  ["WEFT_API_KEY", "the API key that a server demands, or that a client shows"],
  ["WEFT_JOIN_TOKEN", "the join token of a server, or of the server that a worker helps"],
  ["WEFT_HOME", "where models are kept, instead of ~/.local/share/weft"],
  ["HF_ENDPOINT, HF_TOKEN", "the registry that models are pulled from, and who asks"],
];
const named = (pairs) => pairs.map(([name, text]) => entry({ name, text })).join("");

// `helps` is helpOf(); `version` is "0.1.0".
export function manual(helps, version) {
  const [program, ...commands] = helps;
  return [
    `.TH WEFT 1 "" "weft ${version}" "User Commands"\n`,
    ".SH NAME\nweft \\- one language model over all of your devices\n",
    ".SH SYNOPSIS\n.B weft\n[OPTIONS] COMMAND [ARGUMENTS]\n",
    `.SH DESCRIPTION\n${plain(program.description)}\n`,
    `.SH OPTIONS\n${program.options.map(entry).join("")}`,
    `.SH COMMANDS\n${commands.map(command).join("")}`,
    `.SH ENVIRONMENT\n${named(kVariables)}`,
    `.SH FILES\n${named(kFiles)}`,
  ].join("");
}
