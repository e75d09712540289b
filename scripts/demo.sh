#!/usr/bin/env bash
# demo.sh - from a bare machine to a decoded word: sets up, builds, and prints the phones of English words.
# usage: bash scripts/demo.sh [words]
# shellcheck source=scripts/setup.sh
. "$(dirname "$0")/setup.sh"
set_up
[ $# -gt 0 ] || set -- knowledge
echo "$build/reprise scripts/g2p.lua $*"
exec "$build/reprise" scripts/g2p.lua "$@"
