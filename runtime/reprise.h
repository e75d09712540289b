/* reprise.h - what a host program includes: the opener of the raw binding, for package.preload or luaL_requiref.
 *
 *   luaL_requiref(L, "reprise.core", luaopen_reprise_core, 0);
 *
 * The module `reprise`, which users require, is Lua on top of it (lua/reprise/init.lua). The opener may run again in
 * the same state; from a second copy of the library it raises, naming both files.
 */
#ifndef REPRISE_H
#define REPRISE_H

#include <lua.h>

__attribute__((visibility("default"))) int luaopen_reprise_core(lua_State *L);

#endif
