# Makes what people install: a .deb, a tarball and npm packages, all from the same files
# (cmake/WeftInstall.cmake). Nothing is published.
# shellcheck shell=bash

packages="$root/build/package"

program_version() { "$weft" --version | cut -d' ' -f2; }

# stage FOLDER: the installed tree with the libraries that no Linux system has for certain, for
# systems that are not the one that built it. What stays the system's: glibc and the C++ runtime.
stage() {
  local folder=$1 library owner licence
  rm -rf "$folder"
  cmake --install build/release --strip --prefix "$folder" > /dev/null
  mkdir -p "$folder/lib/weft" "$folder/share/doc/weft/libraries"
  ldd "$weft" | awk '$2 == "=>" { print $3 }' | while read -r library; do
    [[ $library =~ /lib(c|m|pthread|gcc_s|stdc\+\+)\.so ]] && continue
    cp -L "$library" "$folder/lib/weft/"
    # By name: dpkg knows some files below /lib and others below /usr/lib, which are one folder.
    owner=$(dpkg -S "*/$(basename "$(realpath "$library")")" | sed -n '1s/:.*//p')
    licence="/usr/share/doc/$owner/copyright"
    [ ! -e "$licence" ] || cp -L "$licence" "$folder/share/doc/weft/libraries/$owner"
  done
}

make_deb() {
  # The recipe has the version, which the file's name leaves out: `apt install ./weft.deb`.
  (cd build/release && cpack -G DEB -D CPACK_PACKAGE_VERSION="$(program_version)" \
    > "$packages/cpack.log" 2>&1) || { cat "$packages/cpack.log" >&2; fail "cpack failed"; }
  rm -rf "$packages/_CPack_Packages"
}

make_tarball() {
  local name
  name="weft-$(program_version)-linux-x64"
  stage "$packages/stage/$name"
  tar -C "$packages/stage" --owner=0 --group=0 -czf "$packages/$name.tar.gz" "$name"
}

make_npm() {
  local name
  name="weft-$(program_version)-linux-x64"
  node packaging/npm/make.mjs "$(program_version)" "$packages/stage/$name" "$packages"
}

make_packages() {
  [ "$(uname -m)" = x86_64 ] || fail "packages are for x86-64 alone; build on such a machine"
  weft_up_to_date
  web_up_to_date
  model_up_to_date
  mkdir -p "$packages"
  node packaging/make_texts.mjs "$weft" "$packages/texts"
  make_deb
  make_tarball
  make_npm
  rm -rf "$packages/stage"
}

# Each prints how long it took; the first makes its root once, which needs Debian's mirror.
check_packages() {
  [ "$(id -u)" -eq 0 ] || not_there "installing into a fresh root needs root"
  apt_ready mmdebstrap curl
  packaging/check_deb.sh "$packages/weft.deb" &&
    node --test packaging/check_npm.mjs
}

step_package() {
  [ -z "${WEFT_DEEP_ONLY:-}" ] ||
    not_there "./dev test --deep installs the packages, as ./dev package --check does"
  make_packages
  check_packages
}

command_package() {
  make_packages
  (cd "$packages" && ls -l --block-size=KiB -- *.deb *.tar.gz *.tgz) >&2
  if [ "${1:-}" = --check ]; then check_packages; fi
}
