// What shells complete: commands, their commands, and the options of each; else file names.
import { spellings } from "./help_text.mjs";

// "keys add" -> the words that may follow it.
function table(helps) {
  return helps.map(({ words, subcommands, options }) => [
    words.join(" "),
    [...subcommands.map(({ name }) => name), ...options.flatMap(spellings)].join(" "),
  ]);
}

const cases = (helps) =>
  table(helps).map(([path, words]) => `    "${path}") words="${words}" ;;`).join("\n");

// Commands have no options with a value before the next command, but for `--log LEVEL`.
const kPath = (helps) => {
  const paths = helps.map(({ words }) => words.join(" ")).filter(Boolean);
  return paths.map((path) => `"${path}"`).join(" | ");
};

export function bashCompletion(helps) {
  return `# Completion of weft for bash, made from its --help.
_weft() {
  local current=\${COMP_WORDS[COMP_CWORD]} path="" word words=""
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "\${path:+$path }$word" in
      ${kPath(helps)}) path="\${path:+$path }$word" ;;
    esac
  done
  case "$path" in
${cases(helps)}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [[ $path == "" || $current == -* ]] || COMPREPLY+=($(compgen -f -- "$current"))
}
complete -o filenames -F _weft weft
`;
}

export function zshCompletion(helps) {
  return `#compdef weft
# Completion of weft for zsh, made from its --help.
local path_so_far="" word words_there=""
local -a before=(\${words[2,CURRENT-1]})
for word in $before; do
  case "\${path_so_far:+$path_so_far }$word" in
    ${kPath(helps)}) path_so_far="\${path_so_far:+$path_so_far }$word" ;;
  esac
done
case "$path_so_far" in
${cases(helps).replaceAll(" words=", " words_there=")}
esac
compadd -- \${=words_there}
[[ $path_so_far == "" || $PREFIX == -* ]] || _files
`;
}
