# setup.sh - the set-up that demo.sh and test.sh share; sourced by them, not run.
#
# Installs what is missing (Debian and Ubuntu, as root; elsewhere it says what to install), then builds into
# ${REPRISE_BUILD:-build}. Done before, it takes seconds.
# shellcheck shell=bash
set -euo pipefail
export LC_ALL=C
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${REPRISE_BUILD:-build}

has() { command -v "$1" >/dev/null 2>&1; }

# has_header NAME: can the compiler find it?
has_header() { echo "#include <$1>" | c++ -E -x c++ -I/usr/include/lua5.4 - >/dev/null 2>&1; }

# has_module NAME: can Lua 5.4 require it?
has_module() { lua5.4 -e "require '$1'" >/dev/null 2>&1; }

# The Debian packages that bring what is missing, on one line.
missing() {
  has cmake || printf 'cmake '
  has make || has ninja || printf 'make '
  { has c++ && has cc; } || printf 'g++ '
  has_header lua.h || printf 'liblua5.4-dev '
  has_header jansson.h || printf 'libjansson-dev '
  has_header xxhash.h || printf 'libxxhash-dev '
  has lua5.4 || printf 'lua5.4 '
  has_module busted.core || printf 'lua-busted '
}

# Those that it works without: the line editor of the prompt, a terminal for the specs to type at.
welcome() {
  has_header histedit.h || printf 'libedit-dev '
  has tmux || printf 'tmux '
}

can_install() { [ "$(id -u)" = 0 ] && has apt-get; }

install_packages() {
  local packages=$1
  if ! can_install; then
    echo "reprise needs these packages first (names of Debian and Ubuntu, there: apt-get install as root): $packages" >&2
    exit 1
  fi
  echo "To be installed from the distribution's packages: $packages"
  echo "(their names go to $build/installed-packages; README.md says how to undo this)"
  export DEBIAN_FRONTEND=noninteractive
  # shellcheck disable=SC2086 # the names are words
  if ! { apt-get -qq update && apt-get -qq install -y --no-install-recommends $packages; } </dev/null >/dev/null; then
    echo "reprise: apt-get could not install: $packages" >&2
    exit 1
  fi
  mkdir -p "$build"
  # shellcheck disable=SC2086
  printf '%s\n' $packages >>"$build/installed-packages"
}

# A build folder that was copied along from another place is configured afresh.
configure() {
  local changed=$1 fresh='' generator='Unix Makefiles'
  if has ninja; then generator=Ninja; fi
  if [ -f "$build/CMakeCache.txt" ]; then
    if grep -q "^CMAKE_HOME_DIRECTORY:INTERNAL=$PWD\$" "$build/CMakeCache.txt" &&
      { [ -f "$build/build.ninja" ] || [ -f "$build/Makefile" ]; }; then
      if [ -z "$changed" ]; then return; fi
      cmake "$build"
      return
    fi
    fresh=--fresh
  fi
  cmake -S . -B "$build" $fresh -G "$generator"
}

set_up() {
  local packages
  packages=$(missing)
  if can_install; then
    packages=$packages$(welcome)
  elif [ -n "$(welcome)" ]; then
    echo "reprise goes on without: $(welcome)(the prompt's line editor is libedit, its specs type into tmux)" >&2
  fi
  packages=${packages% }
  if [ -n "$packages" ]; then install_packages "$packages"; fi
  configure "$packages"
  cmake --build "$build" --parallel "$(nproc)"
}
