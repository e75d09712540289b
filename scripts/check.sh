#!/usr/bin/env bash
# check.sh - the specs under checkers and on other processors; the last lines are a table.
# usage: bash scripts/check.sh [asan|tsan|valgrind|baseline|aarch64 ...] [spec files]
#
#   asan      address, leak and undefined-behaviour sanitizers, in kernels too; every tensor an allocation of its own
#   tsan      thread sanitizer, in kernels too
#   valgrind  memcheck with its leak check, every tensor an allocation of its own; child processes are not followed
#   baseline  the portable folder on an emulated x86-64 of 2008 (no AVX, FMA or F16C), with no compiler on PATH
#   aarch64   cross-compiled and emulated
#
# Where everything is fifty times slower (all but asan) specs take every 40th of the 2,000 reference words.
# Without names: all of them. Each spec file runs as a process of its own; output and the checkers' reports lie in
# build/check/NAME/. What cannot run here says why and counts as skipped.
. "$(dirname "$0")/setup.sh"
checks=build/check
table=()

all_specs() { find spec -name '*_spec.lua' | sort; }

# configure_into FOLDER OPTION...: builds, quietly unless that fails.
configure_into() {
  local into=$1 generator='Unix Makefiles'
  shift
  if has ninja; then generator=Ninja; fi
  mkdir -p "$into"
  { cmake -S . -B "$into" -G "$generator" "$@" && cmake --build "$into" --parallel "$(nproc)"; } >"$into/build.log" 2>&1 ||
    { tail -n 30 "$into/build.log"; return 1; }
}

# run_specs NAME COMMAND...: the command runs one spec file, named last. A report is a file reports/* with bytes in it.
run_specs() {
  local name=$1 folder=$checks/$1 passed=0 failed=0 broken=0 file log last began=$SECONDS
  shift
  rm -rf "$folder/out" "$folder/reports"
  mkdir -p "$folder/out" "$folder/reports"
  for file in "${files[@]}"; do
    log=$folder/out/$(echo "${file%.lua}" | tr / _).txt
    "$@" "$file" </dev/null >"$log" 2>&1 || true
    last=$(tail -n 1 "$log")
    if [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
      passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
    else
      broken=$((broken + 1)) last="did not end: see $log"
    fi
    echo "$name: $file: $last"
    sed -n '/^FAILED/,/^$/p' "$log" | head -n 40
  done
  find "$folder/reports" -size 0 -delete
  local reports
  reports=$(find "$folder/reports" -type f | wc -l)
  table+=("$(printf '%-9s %7d %7d %9d %8d %8d' "$name" "$passed" "$failed" "$broken" "$reports" $((SECONDS - began)))")
  if [ $((failed + broken + reports)) != 0 ] || [ "$passed" = 0 ]; then worst=1; fi
}

skip() { table+=("$(printf '%-9s skipped: %s' "$1" "$2")"); }

check_asan() {
  configure_into $checks/asan/build -DREPRISE_SANITIZE=address -DREPRISE_PREBUILD=native
  export REPRISE_POOL=off ASAN_OPTIONS=log_path=$PWD/$checks/asan/reports/report
  run_specs asan timeout 1800 $checks/asan/build/reprise --test
  unset REPRISE_POOL ASAN_OPTIONS
}

# A loop of Lua that calls nothing is never interrupted here: the sanitizer keeps signals back until the program comes
# by, so the specs of Ctrl-C are left out.
check_tsan() {
  configure_into $checks/tsan/build -DREPRISE_SANITIZE=thread -DREPRISE_PREBUILD=native
  export TSAN_OPTIONS=log_path=$PWD/$checks/tsan/reports/report
  run_specs tsan env REPRISE_SAMPLE=40 timeout 3600 $checks/tsan/build/reprise --test --filter-out=Ctrl%-C
  unset TSAN_OPTIONS
}

check_valgrind() {
  if ! has valgrind; then skip valgrind "it is not installed (Debian and Ubuntu: apt-get install valgrind)" && return; fi
  configure_into $checks/valgrind/build -DCMAKE_BUILD_TYPE=RelWithDebInfo
  export REPRISE_POOL=off
  # It plays each FMA by a function of 200 ns: kernels for processors without them are ten times quicker here.
  run_specs valgrind env REPRISE_CPU_ARCH=x86-64 REPRISE_SAMPLE=40 timeout 3600 \
    valgrind --quiet --fair-sched=yes --leak-check=full --suppressions=scripts/valgrind.supp \
    --show-leak-kinds=definite --errors-for-leak-kinds=definite --error-exitcode=97 \
    "--log-file=$checks/valgrind/reports/report.%p" $checks/valgrind/build/reprise --test
  unset REPRISE_POOL
}

# An emulator keeps books on every page of addresses that was ever reserved, and never forgets: pools make do with fewer.
addresses=40000000 # KiB

# emulated NAME EMULATOR... PROGRAM: a script that starts the program in the emulator; specs that start it go the same way.
emulated() {
  local script=$checks/$1/reprise
  shift
  mkdir -p "$(dirname "$script")"
  printf '#!/bin/sh\nulimit -v %d\nexec%s "$@"\n' "$addresses" "$(printf ' "%s"' "$@")" >"$script"
  chmod +x "$script"
  export REPRISE_PROGRAM=$PWD/$script
}

# Only what the shell lines of specs need is on PATH.
check_baseline() {
  if ! has qemu-x86_64; then skip baseline "qemu-x86_64 is missing (Debian and Ubuntu: apt-get install qemu-user)" && return; fi
  local tool tools=$PWD/$checks/baseline/tools folder=$PWD/$checks/baseline/build/portable
  configure_into $checks/baseline/build -DREPRISE_CUDA=OFF
  cmake --build $checks/baseline/build --target portable >>$checks/baseline/build/build.log 2>&1
  mkdir -p "$tools"
  for tool in sh bash env cat cp mv rm ls mkdir mkfifo mktemp chmod touch sleep kill head tail grep sed sort wc printf echo \
    test true false timeout dd truncate ln find stat seq tr cut; do
    if has "$tool"; then ln -sf "$(type -P "$tool")" "$tools/$tool"; fi
  done
  emulated baseline "$(type -P qemu-x86_64)" -cpu Nehalem "$folder/reprise"
  run_specs baseline env -i PATH="$tools" HOME="$tools" REPRISE_THREADS=1 REPRISE_SAMPLE=40 REPRISE_PROGRAM="$REPRISE_PROGRAM" \
    "$(type -P timeout)" 3600 "$REPRISE_PROGRAM" --test "--directory=$folder"
  unset REPRISE_PROGRAM
}

# Lua, jansson and xxHash for aarch64, unpacked into a folder: nothing is installed, and no architecture is added.
fetch_aarch64() {
  local to=$1 lists=$1/apt option=()
  if [ -f "$to/usr/include/jansson.h" ]; then return; fi
  mkdir -p "$lists/state/lists/partial" "$lists/cache/archives/partial" "$to/debs"
  option=(-o Dir::State="$PWD/$lists/state" -o Dir::Cache="$PWD/$lists/cache" -o Dir::State::status=/dev/null
    -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root)
  apt-get "${option[@]}" -qq update >/dev/null
  (cd "$to/debs" && apt-get "${option[@]}" -qq download liblua5.4-dev libjansson-dev libxxhash-dev \
    lua-filesystem lua-system lua-term >/dev/null)
  local package
  for package in "$to"/debs/*.deb; do dpkg -x "$package" "$to"; done
}

check_aarch64() {
  if ! has qemu-aarch64 || ! has aarch64-linux-gnu-g++ || ! has apt-get; then
    skip aarch64 "it needs qemu-user and g++-aarch64-linux-gnu of Debian or Ubuntu" && return
  fi
  local root=$PWD/$checks/aarch64/root build=$checks/aarch64/build
  fetch_aarch64 "$checks/aarch64/root"
  export REPRISE_CXX=aarch64-linux-gnu-g++
  configure_into "$build" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DREPRISE_CUDA=OFF \
    -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_LIBRARY_ARCHITECTURE=aarch64-linux-gnu \
    -DCMAKE_FIND_ROOT_PATH="$root" -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY \
    -DCMAKE_C_FLAGS="-isystem $root/usr/include/aarch64-linux-gnu" \
    "-DCMAKE_CROSSCOMPILING_EMULATOR=qemu-aarch64;-L;/usr/aarch64-linux-gnu"
  emulated aarch64 qemu-aarch64 -L /usr/aarch64-linux-gnu -E "LD_LIBRARY_PATH=$root/usr/lib/aarch64-linux-gnu" \
    "$PWD/$build/reprise"
  run_specs aarch64 env REPRISE_THREADS=1 REPRISE_SAMPLE=40 LUA_CPATH="$root/usr/lib/aarch64-linux-gnu/lua/5.4/?.so" \
    timeout 3600 "$REPRISE_PROGRAM" --test
  unset REPRISE_CXX REPRISE_PROGRAM
}

names=() files=() worst=0
for word in "$@"; do
  case $word in
    asan | tsan | valgrind | baseline | aarch64) names+=("$word") ;;
    *_spec.lua) files+=("$word") ;;
    *) echo "check.sh: $word: expected asan, tsan, valgrind, baseline, aarch64 or a spec file" >&2 && exit 2 ;;
  esac
done
if [ ${#names[@]} = 0 ]; then names=(asan tsan valgrind baseline aarch64); fi
if [ ${#files[@]} = 0 ]; then mapfile -t files < <(all_specs); fi
for name in "${names[@]}"; do "check_$name"; done
printf '\ncheck      passed  failed  unended  reports  seconds\n'
printf '%s\n' "${table[@]}"
exit $worst
