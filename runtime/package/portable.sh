#!/usr/bin/env bash
# portable.sh - fills the portable folder round the program that lies there already; run by the target `portable`.
# usage: portable.sh SOURCE PORTABLE LUA_MODULES C_MODULES ARCHITECTURES
set -euo pipefail
source=$1 portable=$2 modules=$3 c_modules=$4 archs=$5
oldest_glibc=2.36

cd "$portable"
rm -rf lua kernels scripts spec share lib licenses prebuilt
cp -rL "$source"/{lua,kernels,scripts,spec,.busted,README.md,LICENSE} .
rm -f scripts/*.sh

# busted and what it requires: Lua modules, then C modules.
mkdir -p share/lua/5.4 lib/lua/5.4
for name in busted busted.lua cliargs cliargs.lua dkjson.lua luassert mediator.lua pl say system term; do
  cp -rL "$modules/$name" share/lua/5.4/
done
for name in lfs.so system term; do
  cp -rL "$c_modules/$name" lib/lua/5.4/
done

# The licences of what lies in this folder beside our own.
mkdir -p licenses
for package in lua-busted lua-cliargs lua-dkjson lua-luassert lua-mediator lua-penlight lua-say lua-system lua-term \
  lua-filesystem liblua5.4-dev libjansson-dev libxxhash-dev; do
  if [ -f "/usr/share/doc/$package/copyright" ]; then cp -L "/usr/share/doc/$package/copyright" "licenses/$package"; fi
done

newest=$(objdump -T reprise lib/lua/5.4/*.so lib/lua/5.4/*/*.so | grep -o 'GLIBC_[0-9.]*' | cut -d_ -f2 | sort -uV | tail -n 1)
if [ "$(printf '%s\n' "$newest" "$oldest_glibc" | sort -V | tail -n 1)" != "$oldest_glibc" ]; then
  echo "portable: built here, it needs glibc $newest; build on Debian 12 for one that needs $oldest_glibc" >&2
fi

./reprise --build-kernels prebuilt --arch "$archs"
echo "portable folder: $portable ($(du -sh . | cut -f1), glibc $newest, kernels for $archs)"
