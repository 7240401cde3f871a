#!/usr/bin/env bash
# Makes the root of a container: Debian's packages and weft's. Needs root and mmdebstrap, and no
# network but apt's. Usage: container_root.sh build/package/weft.deb ROOT.tar [SUITE]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
deb=$(realpath "$1") out=$(realpath "$2")
suite=${3:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
folder=$(mktemp -d)
trap 'rm -rf --one-file-system "$folder"' EXIT

"$here/fresh_root.sh" "$suite" "$folder"
install -m 0644 "$deb" "$folder/tmp/weft.deb"
# --no-install-recommends leaves out the certificates with which registries are believed.
for words in "update -qq" "install -y -qq --no-install-recommends /tmp/weft.deb ca-certificates" \
  clean; do
  # shellcheck disable=SC2086
  unshare --mount --pid --fork --kill-child --mount-proc="$folder/proc" \
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
    chroot "$folder" apt-get $words > /dev/null
done
# Secrets are each container's own: WEFT_API_KEY and WEFT_JOIN_TOKEN.
rm -rf "$folder"/var/lib/apt/lists/* "$folder"/tmp/* "$folder/etc/weft" "$folder/etc/resolv.conf"
tar -C "$folder" --one-file-system -cf "$out" .
echo "made $2: import it as an image, or unpack it"
