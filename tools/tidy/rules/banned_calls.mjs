// The lists of banned calls. `only` and `except` name module folders, `exceptFiles` paths; `tests`
// says that tests may not use it either; a match is forgiven where its line or the one above
// matches `unlessLine`.

export const kCxxBans = [
  {
    pattern: /\bstd::sto(i|l|ul|ll|ull|f|d|ld)\s*\(|\b(atoi|atol|atoll|atof)\s*\(/,
    what: "number parsing that throws or ignores errors",
    instead: "use std::from_chars and return a Result",
    tests: true,
  },
  {
    pattern: /\bstrto(l|ul|ll|ull|f|d|ld)\s*\(/,
    what: "number parsing that follows the locale",
    instead: "use std::from_chars and return a Result",
    tests: true,
  },
  {
    pattern: /\b(v?sprintf|strcpy|strcat|strncpy|strncat|gets|strtok)\s*\(/,
    what: "a C string call without a length",
    instead: "use std::string, fmt::format or snprintf",
    tests: true,
  },
  {
    pattern: /\b(s?rand|rand_r|drand48)\s*\(|\bstd::(random_device|mt19937(_64)?)\b/,
    what: "a random source of its own",
    instead: "use base/random.h (CounterDouble, SeededRandom, SecureRandomBytes)",
    except: ["base"],
  },
  {
    pattern: /\.detach\s*\(\s*\)/,
    what: "a thread that nobody joins",
    instead: "keep the thread and join it",
    tests: true,
  },
  {
    pattern: /(?<![\w.:>])(std::|::)?(system|popen|execl|execv|execvp|execlp)\s*\(/,
    what: "starting another program",
    instead: "call a library; weft runs no commands",
    // The first by docs/decisions/0013; what the second is for is to run a command elsewhere.
    exceptFiles: ["src/apps/gpu_worker.cc", "bench/lossy_network.cc"],
    tests: true,
  },
  {
    pattern: /(?<![\w.:>])assert\s*\(/,
    what: "assert, which NDEBUG removes",
    instead: "use CHECK (base/check.h) for our own bugs, a Result for input",
    tests: true,
  },
  {
    pattern: /\busing\s+namespace\s+std\b/,
    what: "using namespace std",
    instead: "write std::",
    tests: true,
  },
  {
    pattern: /\bthrow\b/,
    what: "an exception",
    instead: "return an Error (base/result.h)",
  },
  {
    pattern: /\bnew\s+(?!\()[A-Za-z_:][\w:<>, ]*\s*[({[;]/,
    what: "raw new",
    instead: "use std::make_unique, a container or std::unique_ptr<T>(new T(...))",
    unlessLine: /(unique_ptr|shared_ptr)\s*<[^;]*>\s*\w*\s*[({]|\breset\s*\(\s*new\b/,
    tests: true,
  },
  {
    pattern: /(?<!\boperator\s+)\bdelete\s*(\[\s*\])?\s*[A-Za-z_*(]/,
    what: "raw delete",
    instead: "let a unique_ptr or a container own it",
    tests: true,
  },
  {
    pattern: /(?<![\w.:>])(std::)?(malloc|calloc|realloc|free|alloca)\s*\(/,
    what: "manual memory",
    instead: "use std::vector, or std::unique_ptr with a deleter",
  },
  {
    pattern: /\bstd::(cout|cerr|clog)\b|(?<![\w.:>])(std::)?(printf|puts|putchar)\s*\(/,
    what: "printing from a module",
    instead: "use base/log.h; only src/apps talks to the terminal",
    except: ["apps", "sim"], // sim/run.cc is the body of `weft sim`
  },
  {
    pattern: /\b(system_clock|steady_clock|high_resolution_clock)\s*::\s*now\b/,
    what: "reading a clock",
    instead: "take `now` as an argument, or call MonotonicNow (base/clock.h)",
    except: ["base", "net", "server", "apps"],
  },
  {
    pattern: /(?<![\w.:>])(std::|::)?(clock_gettime\s*\(|gettimeofday\s*\(|time\s*\(nullptr)/,
    what: "reading a clock",
    instead: "take `now` as an argument, or call MonotonicNow (base/clock.h)",
    except: ["base", "net", "server", "apps"],
  },
  {
    pattern: /\bMonotonicNow\s*\(/,
    what: "reading a clock in a module that has none",
    instead: "take `now` as an argument",
    only: ["swarm", "planner", "sim"],
  },
  {
    pattern: /\b(localtime|gmtime|asctime|ctime)\s*\(/,
    what: "a call that is not thread-safe",
    instead: "use gmtime_r",
    tests: true,
  },
  {
    pattern: /\bstd::w?regex\b/,
    what: "std::regex, which overflows its stack on hostile input",
    instead: "parse by hand, or use src/text's PCRE2 with match limits",
    tests: true,
  },
  {
    pattern: /\bgoto\s+\w+\s*;/,
    what: "goto",
    instead: "return from a smaller function",
    tests: true,
  },
];

export const kTypeScriptBans = [
  {
    pattern: /\bconsole\s*\.\s*\w+/,
    what: "console output in the pages' code",
    instead: "show it in the page or report it in a message to the server",
  },
  {
    pattern: /\b(innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML)\b/,
    what: "HTML built from text",
    instead: "build nodes: model output is treated as hostile",
    tests: true,
  },
  {
    pattern: /\bdocument\s*\.\s*write\w*\s*\(/,
    what: "HTML built from text",
    instead: "build nodes: model output is treated as hostile",
    tests: true,
  },
  {
    pattern: /(?<![\w.])eval\s*\(|\bnew\s+Function\s*\(/,
    what: "code from text",
    instead: "write the code; the page's policy refuses it anyway",
    tests: true,
  },
  {
    pattern: /\bMath\s*\.\s*random\b/,
    what: "an unseeded random source",
    instead: "use the counter-based generator, or crypto.getRandomValues for secrets",
  },
  {
    pattern: /\bas\s+any\b|:\s*any\b|<any>/,
    what: "the type any",
    instead: "name the type, or unknown",
    tests: true,
  },
  {
    pattern: /\bdebugger\b/,
    what: "a debugger statement",
    instead: "remove it",
    tests: true,
  },
];
