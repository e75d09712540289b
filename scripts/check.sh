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
  configure_into $checks/asan/build -DREPRISE_SANITIZE=address
  export REPRISE_POOL=off ASAN_OPTIONS=log_path=$PWD/$checks/asan/reports/report
  run_specs asan timeout 1800 $checks/asan/build/reprise --test
  unset REPRISE_POOL ASAN_OPTIONS
}

# A loop of Lua that calls nothing is never interrupted here: the sanitizer keeps signals back until the program comes
# by, so the specs of Ctrl-C are left out.
check_tsan() {
  configure_into $checks/tsan/build -DREPRISE_SANITIZE=thread
  export TSAN_OPTIONS=log_path=$PWD/$checks/tsan/reports/report
  run_specs tsan timeout 1800 $checks/tsan/build/reprise --test --filter-out=Ctrl%-C
  unset TSAN_OPTIONS
}

check_valgrind() {
  if ! has valgrind; then skip valgrind "it is not installed (Debian and Ubuntu: apt-get install valgrind)" && return; fi
  configure_into $checks/valgrind/build -DCMAKE_BUILD_TYPE=RelWithDebInfo
  export REPRISE_POOL=off
  run_specs valgrind timeout 3600 valgrind --quiet --leak-check=full --errors-for-leak-kinds=definite --error-exitcode=97 \
    "--log-file=$checks/valgrind/reports/report.%p" $checks/valgrind/build/reprise --test
  unset REPRISE_POOL
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
