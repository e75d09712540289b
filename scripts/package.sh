#!/usr/bin/env bash
# package.sh - the ways to install reprise, each tried in a folder of its own: installed, then used from there with the
# source and the build folder out of sight (where the system allows to hide them: root, or user namespaces).
# usage: bash scripts/package.sh [prefix] [tarball] [rock]      default: all; build first
#
#   prefix    cmake --install: the program, a stock lua5.4, a stock busted, a C program by pkg-config and by CMake
#   tarball   cpack, unpacked elsewhere: the same
#   rock      luarocks make into a tree: the program, a stock lua5.4
set -euo pipefail
export LC_ALL=C
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source=$PWD
build=$(cd "${REPRISE_BUILD:-build}" && pwd)
version=$(sed -n 's/^project(reprise VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "package.sh: $*" >&2
  exit 1
}

# quietly COMMAND: what it prints is shown only if it fails.
quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "failed: $*"; }; }

# expect TEXT COMMAND: the command prints just that, in an environment without a trace of the build.
expect() {
  local text=$1 got
  shift
  got=$(cd "$work" && env -i PATH="$PATH" HOME="$work" LANG=C "$@") || fail "failed: $*"
  [ "$got" = "$text" ] || fail "$*: printed '$got' instead of '$text'"
}

# hidden COMMAND: runs a function of this script where source and build folder are empty.
hidden() {
  local hide="mount -t tmpfs none '$source' && { [ ! -d '$build' ] || mount -t tmpfs none '$build'; }"
  local script="set -euo pipefail; $hide; cd /;"
  script+=" $(declare -f); $(declare -p work version decode); $*"
  if unshare -m true 2>/dev/null; then
    unshare -m bash -c "$script"
  elif unshare -rm true 2>/dev/null; then
    unshare -rm bash -c "$script"
  else
    echo "package.sh: the source cannot be hidden here, so it stays in sight" >&2
    "$@"
  fi
}

decode='local rp = require "reprise"
print(rp.t5.load(rp.home() .. "/scripts/models/g2p"):generate("bee")[1].text)'

# use_program PROGRAM HOME: it finds its files in that folder and nowhere else, and compiles nothing.
use_program() {
  expect "$2" "$1" -e 'print(require("reprise").home())'
  expect "B IY1" "$1" -e "$decode"
  expect "0" "$1" -e 'local rp = require "reprise" rp.zeros(4) print(rp.cache_counts().compiled)'
  expect "reprise $version" bash -c "'$1' -v | cut -d' ' -f1-2"
}

# use_stock LUA_FOLDER LIB_FOLDER: `require "reprise"` in Lua as the system has it, and in its busted.
use_stock() {
  local path="LUA_PATH=$1/?.lua;$1/?/init.lua;;" cpath="LUA_CPATH=$2/?.so;;"
  expect "B IY1" "$path" "$cpath" lua5.4 -e "$decode"
  mkdir -p "$work/spec"
  echo 'it("requires it", function() assert.equal(3, require("reprise").full(1, 3):item()) end)' \
    >"$work/spec/stock_spec.lua"
  expect "1 success" "$path" "$cpath" bash -c "lua5.4 '$(command -v busted)' spec | grep -o '1 success'"
}

# use_library PREFIX: the example, built against what is installed.
use_library() {
  local example=$1/share/doc/reprise/example.c flags tokens='69 35 76 92 52 | B IY1'
  flags=$(PKG_CONFIG_PATH=$1/lib/pkgconfig pkg-config --cflags --libs reprise)
  # shellcheck disable=SC2086 # flags are words
  quietly cc -std=c11 -Wall -Wextra -Wconversion -Wshadow -Werror "$example" $flags -o "$work/example"
  expect "$tokens" LD_LIBRARY_PATH="$1/lib" "$work/example" bee
  mkdir -p "$work/host"
  cat >"$work/host/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.25)
project(host C)
find_package(reprise $version REQUIRED)
add_executable(host $example)
target_link_libraries(host PRIVATE reprise::reprise)
EOF
  quietly cmake -S "$work/host" -B "$work/host/build" -DCMAKE_PREFIX_PATH="$1"
  quietly cmake --build "$work/host/build"
  expect "$tokens" "$work/host/build/host" bee
}

use_prefix() {
  use_program "$1/bin/reprise" "$1/share/reprise"
  use_stock "$1/share/lua/5.4" "$1/lib/lua/5.4"
  use_library "$1"
  [ -s "$1/share/man/man1/reprise.1" ] || fail "$1 has no man page"
  expect "--devices" bash -c ". '$1/share/bash-completion/completions/reprise'
    COMP_WORDS=(reprise --de) COMP_CWORD=1; _reprise; echo \"\${COMPREPLY[@]}\""
}

use_tree() {
  use_program "$1/bin/reprise" "$1/lib/luarocks/rocks-5.4/reprise/$version-1/share/reprise"
  use_stock "$1/share/lua/5.4" "$1/lib/lua/5.4"
}

prefix() {
  quietly cmake --install "$build" --prefix "$work/prefix"
  hidden use_prefix "$work/prefix"
}

tarball() {
  quietly cpack --config "$build/CPackConfig.cmake" -B "$work/cpack"
  mkdir "$work/elsewhere"
  tar xzf "$work"/cpack/reprise-*.tar.gz -C "$work/elsewhere" --strip-components=1
  hidden use_prefix "$work/elsewhere"
}

rock() {
  command -v luarocks >/dev/null || fail "rock: there is no luarocks (Debian and Ubuntu: apt-get install luarocks)"
  mkdir "$work/source"
  tar cf - --exclude='./build*' --exclude=./.git . | tar xf - -C "$work/source"
  cd "$work/source"
  quietly luarocks --lua-version=5.4 --tree="$work/tree" make "reprise-$version-1.rockspec"
  cd "$source"
  rm -rf "$work/source"
  hidden use_tree "$work/tree"
}

[ $# -gt 0 ] || set -- prefix tarball rock
for way in "$@"; do
  case $way in
    prefix | tarball | rock) "$way" ;;
    *) fail "$way: the ways are prefix, tarball and rock" ;;
  esac
  echo "$way: installed, and used from there"
done
