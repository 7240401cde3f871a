#!/usr/bin/env bash
# Installs a .deb into a fresh root, starts weft there as its service would and asks for an answer;
# removes it again. Prints the seconds from `apt install` to the answer. Needs root, mmdebstrap and
# curl. Usage: check_deb.sh build/package/weft.deb [SUITE]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
deb=$1
suite=${2:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
folder=$(mktemp -d)
root="$folder/root" log="$folder/serve.log"
server=""

# unshare lets no SIGTERM through. Told to end is weft itself, which runuser has started.
stop_server() {
  local runuser
  runuser=$(pgrep --parent "$server")
  kill "$(pgrep --parent "$runuser")"
  wait "$server" || fail "weft did not end well: $?"
  server=""
}

finish() {
  [ -z "$server" ] || kill -KILL "$server" 2> /dev/null || true
  wait
  rm -rf --one-file-system "$folder"
}
trap finish EXIT

fail() {
  echo "check_deb: $*" >&2
  [ ! -e "$log" ] || tail -n 20 "$log" >&2
  exit 1
}

# What a command in the root begins with: processes of its own, which end with the first of them.
enter=(unshare --mount --pid --fork --kill-child "--mount-proc=$root/proc"
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive chroot "$root")
inside() { "${enter[@]}" "$@"; }

seconds_since() {
  awk -v begin="$1" -v end="$EPOCHREALTIME" 'BEGIN { printf "%.1f", end - begin }'
}

"$here/fresh_root.sh" "$suite" "$root"
cp "$deb" "$root/tmp/weft.deb"
chmod 0644 "$root/tmp/weft.deb"
inside apt-get update -qq

begin=$EPOCHREALTIME
inside apt-get install -y -qq --no-install-recommends /tmp/weft.deb > "$log" 2>&1 ||
  fail "apt-get install failed"
installed_s=$(seconds_since "$begin")
# What weft.service does: the file's variables, the service's user and its home; any free port.
# Not by `inside`: $! would be the shell that runs it, and what it started would outlive that.
"${enter[@]}" sh -c 'set -a; . /etc/weft/weft.env; export HOME=/var/lib/weft; cd /
  exec runuser -u weft -- weft serve --port 0 $WEFT_OPTIONS "$WEFT_MODEL"' > "$log" 2>&1 &
server=$!
address=""
for _ in $(seq 600); do
  address=$(sed -n 's|^  API: *\(http.*\)/v1$|\1|p' "$log")
  [ -z "$address" ] || break
  kill -0 "$server" 2> /dev/null || fail "the server ended"
  sleep 0.1
done
[ -n "$address" ] || fail "the server says no address"
key=$(sed -n 's/^WEFT_API_KEY=//p' "$root/etc/weft/weft.env")
answer=$(curl -sS --fail-with-body --max-time 60 "$address/v1/chat/completions" \
  -H "Authorization: Bearer $key" -H 'Content-Type: application/json' -d '{"model": "weft-tiny",
  "max_tokens": 16, "messages": [{"role": "user", "content": "Tell me a story."}]}') ||
  fail "no answer: $answer"
first_answer_s=$(seconds_since "$begin")
grep -q '"content":"[^"]' <<< "$answer" || fail "the answer has no text: $answer"

# What else belongs to an installation.
curl -sS -f -o "$folder/page" "$address/" || fail "there is no page"
grep -qi '<title>weft' "$folder/page" || fail "the page is another one"
[ "$(stat -c %a:%U "$root/etc/weft/weft.env")" = 600:root ] || fail "weft.env is open to others"
inside sh -c 'test -s /usr/share/man/man1/weft.1.gz -a -s /usr/lib/systemd/system/weft.service' ||
  fail "the manual or the unit is missing"
inside weft worker --gpu ws://127.0.0.1:9 > "$folder/gpu" 2>&1 || true
grep -q 'Node.js' "$folder/gpu" || fail "weft worker --gpu says: $(cat "$folder/gpu")"
stop_server
inside apt-get purge -y -qq weft > "$log" 2>&1 || fail "apt-get purge failed"
left=$(cd "$root" && ls -d usr/bin/weft usr/share/weft etc/weft var/lib/weft 2> /dev/null || true)
[ -z "$left" ] || fail "apt-get purge leaves $left"
echo "$suite: installed after $installed_s s, first answer after $first_answer_s s"
