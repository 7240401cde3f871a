# Installs what is missing: Debian packages with apt-get, npm packages from the lock files.
# A second run finds everything present and costs a few tens of milliseconds.
# shellcheck shell=bash

# What compiles weft; Boost is added by boost_packages.
native_packages=(
  build-essential cmake ninja-build pkg-config ccache lld git
  libprotobuf-dev protobuf-compiler libssl-dev libpcre2-dev libutf8proc-dev libhwy-dev
  libcli11-dev libspdlog-dev libqrencode-dev libsqlite3-dev libtomlplusplus-dev
  prometheus-cpp-dev zlib1g-dev libedit-dev libcurl4-openssl-dev libpq-dev
)
test_packages=(libgtest-dev libgmock-dev libbenchmark-dev postgresql)
# What chat templates are compared with.
oracle_packages=(python3 python3-jinja2)
clang_packages=(clang-14 libclang-rt-14-dev clang-tidy clang-format)
# Browsers, a display for one of them, certificates, and what makes lines that lose packets.
end_to_end_packages=(chromium firefox-esr webkit2gtk-driver xvfb openssl nftables iproute2)

# boost_version < LIST: the newest X.Y from 1.81 on whose three packages are in the list.
boost_version() {
  sed -n 's/^libboost\(-json\|-url\)\?\([0-9]\+\.[0-9]\+\)-dev$/\2/p' | sort -V | uniq -c |
    awk '$1 == 3 { split($2, part, "."); if (part[1] > 1 || part[2] >= 81) version = $2 }
         END { print version }'
}

# Debian 12 has Boost 1.81, Ubuntu 24.04 has 1.83, Debian 13 has 1.88 beside 1.83. What is installed
# counts before what could be: a newer one would be compiled against without need.
boost_packages() {
  local version
  version=$(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' 'libboost*-dev' 2> /dev/null |
    sed -n 's/^ii *//p' | boost_version)
  [ -n "$version" ] || version=$(apt-cache pkgnames libboost | boost_version)
  if [ -z "$version" ]; then
    as_root apt-get update -qq
    version=$(apt-cache pkgnames libboost | boost_version)
  fi
  [ -n "$version" ] || fail "this distribution has no Boost from 1.81 on (libboostX.Y-dev)"
  echo "libboost$version-dev" "libboost-json$version-dev" "libboost-url$version-dev"
}

# as_root COMMAND...: with sudo where this user is another one.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
    return
  fi
  command -v sudo > /dev/null || fail "sudo is missing. Run this as root: $*"
  sudo "$@"
}

# apt_ready PACKAGE...: installs those that dpkg does not list as installed.
apt_ready() {
  command -v dpkg-query > /dev/null ||
    fail "this script knows the packages of Debian and Ubuntu only; install the equivalents of: $*"
  local installed missing=() name
  installed=$(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' "$@" 2> /dev/null || true)
  for name in "$@"; do
    grep -qx "ii *$name" <<< "$installed" || missing+=("$name")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ] && ! command -v sudo > /dev/null; then
    fail "packages are missing and sudo is too. As root: apt-get install ${missing[*]}"
  fi
  say "Installing with apt-get: ${missing[*]}"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
}

node_ready() {
  local version
  version=$(node --version 2> /dev/null || echo v0)
  if printf '%s\n' "v20.19" "$version" | sort -V -C && command -v npm > /dev/null; then return 0; fi
  fail "weft's pages need Node.js 20.19 or newer with npm; found ${version/v0/none}.
Debian 12's own nodejs is older. Install Node 20 or 22 from https://nodejs.org (or NodeSource's
Debian packages), so that \`node --version\` and \`npm --version\` work, and start this again."
}

# npm_ready FOLDER: installs exactly its package-lock.json, again only when that file changed.
npm_ready() {
  local folder=$1 stamp="$1/node_modules/.weft-lock" lock
  lock=$(sha256sum "$folder/package-lock.json" | cut -d' ' -f1)
  [ "$(cat "$stamp" 2> /dev/null || true)" = "$lock" ] && return 0
  node_ready
  say "Installing npm packages of $folder/"
  # onnxruntime-node's own download is a CUDA library that nothing here uses.
  (cd "$folder" && ONNXRUNTIME_NODE_INSTALL=skip npm ci --no-audit --no-fund --loglevel=error)
  printf '%s\n' "$lock" > "$stamp"
}

ready_native() {
  local boost
  boost=$(boost_packages)
  # shellcheck disable=SC2086
  apt_ready "${native_packages[@]}" $boost "$@"
}
ready_native_tests() { ready_native "${test_packages[@]}"; }
ready_clang() { ready_native_tests; apt_ready "${clang_packages[@]}"; }
ready_tools() {
  apt_ready "${oracle_packages[@]}"
  npm_ready tools
}

ready_web() {
  apt_ready protobuf-compiler
  npm_ready web
  # Tests in tests/ use the web workspace's packages (playwright-core, openai).
  [ -e tests/node_modules ] || ln -sfn ../web/node_modules tests/node_modules
}

ready_browser() {
  apt_ready "${end_to_end_packages[@]}"
  ready_web
}

# Git runs the hooks of the repository, in a clone that has git's folder.
ready_hooks() {
  [ "$(git config core.hooksPath 2> /dev/null || true)" = .githooks ] && return 0
  git config core.hooksPath .githooks 2> /dev/null || true
}

command_setup() {
  ready_hooks
  ready_clang
  ready_browser
  local lock
  for lock in tools/package-lock.json tools/*/package-lock.json; do
    [ -e "$lock" ] && npm_ready "$(dirname "$lock")"
  done
  return 0
}
