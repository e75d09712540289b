/* reprise.h - what a host program includes: reprise in a Lua state of its own, buffers in, buffers out.
 *
 *   lua_State *L = luaL_newstate();
 *   luaL_openlibs(L);
 *   rp_state_open(L);                  now `require "reprise"` works
 *
 * All functions raise as Lua's own do, so they are called where lua_pcall catches: inside a lua_CFunction. A state and
 * what was made in it belong to one thread at a time. Linked with -lreprise and a Lua 5.4 of the host's choice:
 * `pkg-config --cflags --libs reprise`, or CMake's `find_package(reprise)` and the target `reprise::reprise`.
 */
#ifndef REPRISE_H
#define REPRISE_H

#include <lua.h>
#include <stddef.h>
#include <stdint.h>

#define RP_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* The opener of the raw binding, for package.preload or luaL_requiref. It may run again in the same state; from a
 * second copy of the library it raises, naming both files. */
RP_API int luaopen_reprise_core(lua_State *L);

/* Makes `require "reprise"` work in a state that has its standard libraries: the raw binding is preloaded, the folders
 * beside the library go to the front of package.path and package.cpath. Twice is safe. */
RP_API void rp_state_open(lua_State *L);

/* Pushes a new tensor on the default device, a packed copy of the elements at `from`, which may be reused at once.
 * dtype: "f32", "f16", "bf16", "i32", "i64", "u8"; rank: up to 8. */
RP_API void rp_buffer_push(lua_State *L, const char *dtype, int rank, const int64_t *shape, const void *from);

/* Copies the elements of the tensor at `index` to `to`, packed, once all work is done; the bytes copied. Raises when
 * `room`, in bytes, is too small; with `to` NULL it only tells the bytes. */
RP_API size_t rp_buffer_read(lua_State *L, int index, void *to, size_t room);

/* Where the first element of the tensor at `index` lies, on its device; all work on it is done. On the CPU the host may
 * read and write there as long as the tensor lives; whoever has written says so with rp_buffer_touched, since graphs
 * copy their inputs only when they changed. */
RP_API void *rp_buffer_address(lua_State *L, int index);
RP_API void rp_buffer_touched(lua_State *L, int index);

#ifdef __cplusplus
}
#endif

#endif
