/* example.c - a host program: a Lua state with reprise in it, ids of a word in, tokens of its pronunciation out.
 *
 *   cc example.c $(pkg-config --cflags --libs reprise) -o example && ./example knowledge
 */
#include <lauxlib.h>
#include <lualib.h>
#include <reprise.h>
#include <stdio.h>

enum { MOST = 128 };

static const char script[] = "local rp = require 'reprise'\n"
                             "local model = rp.t5.load(rp.home() .. '/scripts/models/g2p')\n"
                             "return function(source)\n"
                             "  local out = model:generate(source, { num_beams = 5 })[1]\n"
                             "  return rp.tensor(out.ids, 'i32'), out.text\n"
                             "end\n";

/* Called by lua_pcall, because Lua and reprise raise. Argument: the word. */
static int decode(lua_State *L) {
  const char *word = lua_touserdata(L, 1);
  int32_t source[MOST], ids[MOST];
  int64_t length = 0;
  for (; word[length] && length < MOST - 1; length++) source[length] = (unsigned char)word[length] + 3;
  source[length++] = 1; /* the end of a source */
  luaL_openlibs(L);
  rp_state_open(L);
  if (luaL_dostring(L, script)) return lua_error(L);
  rp_buffer_push(L, "i32", 1, &length, source);
  lua_call(L, 1, 2);
  size_t count = rp_buffer_read(L, -2, ids, sizeof ids) / sizeof *ids;
  for (size_t i = 0; i < count; i++) printf("%d ", (int)ids[i]);
  return printf("| %s\n", lua_tostring(L, -1)), 0;
}

int main(int argc, char **argv) {
  lua_State *L = luaL_newstate();
  lua_pushcfunction(L, decode);
  lua_pushlightuserdata(L, argc > 1 ? argv[1] : "knowledge");
  int failed = lua_pcall(L, 1, 0, 0) != LUA_OK;
  if (failed) fprintf(stderr, "example: %s\n", lua_tostring(L, -1));
  lua_close(L);
  return failed;
}
