#!/usr/bin/env bash
# lint.sh - what checks the text of the project: luacheck, clang-format, clang-tidy, shellcheck. A tool that is
# not here is named and passed over; the settings are Debian 12's versions' (1.1, 14, 14, 0.9).
# usage: bash scripts/lint.sh [lua] [shell] [format] [tidy]      default: all; tidy needs a build folder
set -euo pipefail
export LC_ALL=C
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${REPRISE_BUILD:-build}
bad=0

# try NAME TOOL COMMAND: runs the command quietly; what it prints is shown when it fails.
try() {
  local name=$1 tool=$2 log
  shift 2
  if ! command -v "$tool" >/dev/null; then
    echo "lint: $name: not checked: there is no $tool"
  elif log=$("$@" 2>&1); then
    echo "lint: $name: nothing to say"
  else
    printf '%s\nlint: %s: see above\n' "$log" "$name"
    bad=1
  fi
}

format() { find runtime spec/support -name '*.[ch]' -exec clang-format --dry-run -Werror {} +; }

# Of the files that were built; on standard error it counts what it has passed over.
tidy() {
  local log
  [ -f "$build/compile_commands.json" ] || { echo "there is no $build/compile_commands.json: build first"; return 1; }
  log=$(find runtime -maxdepth 1 -name '*.c' -exec grep -qF {} "$build/compile_commands.json" \; -print0 |
    xargs -0 -r -P "$(nproc)" -n 4 clang-tidy -p "$build" --quiet 2>/dev/null) && return
  echo "$log"
  return 1
}

[ $# -gt 0 ] || set -- lua shell format tidy
for check in "$@"; do
  case $check in
    lua) try lua luacheck luacheck -q --no-color . ;;
    shell) try shell shellcheck shellcheck -x -S warning -e SC2154 scripts/*.sh runtime/package/*.sh .ci/run ;;
    format) try format clang-format format ;;
    tidy) try tidy clang-tidy tidy ;;
    *) echo "lint.sh: $check: the checks are lua, shell, format and tidy" >&2; exit 2 ;;
  esac
done
exit $bad
