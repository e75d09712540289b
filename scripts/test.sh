#!/usr/bin/env bash
# test.sh - sets up, builds, and runs all specs; the last line is `N passed, N failed`.
# usage: bash scripts/test.sh [spec files or busted options]
# shellcheck source=scripts/setup.sh
. "$(dirname "$0")/setup.sh"
set_up
exec "$build/reprise" --test "$@"
