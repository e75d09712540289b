#!/usr/bin/env bash
# screenshot.sh - the picture in README.md: the page that scripts/look.lua writes, as a browser shows it.
# usage: bash scripts/screenshot.sh [image.png [light|dark]]      default: scripts/images/memory.png light; build first
#
# Needs chromium (Debian: apt-get install chromium).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
image=${1:-scripts/images/memory.png}
look=${2:-light}
build=${REPRISE_BUILD:-build}

fail() {
  echo "screenshot.sh: $*" >&2
  exit 1
}

case $look in
  light) scheme=1 ;;
  dark) scheme=0 ;;
  *) fail "$look: light or dark is expected" ;;
esac
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
  fail "no chromium here: on Debian, apt-get install chromium"
[ -x "$build/reprise" ] || fail "$build/reprise is not there: build first"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$build/reprise" scripts/look.lua --out "$work/memory.html"
mkdir -p "$(dirname "$image")"
HOME=$work timeout 120 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" \
  --window-size=1200,1440 --blink-settings=preferredColorScheme=$scheme --screenshot="$work/memory.png" \
  "file://$work/memory.html" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$browser failed"; }
if command -v optipng >/dev/null; then optipng -quiet -o5 "$work/memory.png"; fi
mv "$work/memory.png" "$image"
echo "$image: $(wc -c <"$image") bytes"
