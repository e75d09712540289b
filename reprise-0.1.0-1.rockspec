rockspec_format = "3.0"
package = "reprise"
version = "0.1.0-1"
source = { url = "." } -- `luarocks make` in the source tree
description = {
  summary = "Decoder loops as Lua scripts, captured once and replayed from recycled memory",
  detailed = [[
    Kernels written in CUDA C, compiled at run time for a GPU or for the processor, launched from Lua, recorded into
    graphs and replayed. T5 models run on top of it. Needs a C compiler, CMake, jansson and xxHash.
  ]],
  license = "MIT",
}
supported_platforms = { "linux" }
dependencies = { "lua >= 5.4, < 5.5" }
external_dependencies = {
  JANSSON = { header = "jansson.h" },
  XXHASH = { header = "xxhash.h" },
}
build = {
  type = "cmake",
  variables = {
    CMAKE_INSTALL_PREFIX = "$(PREFIX)",
    CMAKE_BUILD_TYPE = "Release",
    LUA_INCLUDE = "$(LUA_INCDIR)",
    REPRISE_LUA_DIR = "$(LUADIR)",
    REPRISE_LIB_DIR = "$(LIBDIR)",
    REPRISE_ROCK = "ON",
  },
}
