/* main.c - the program: a Lua interpreter with reprise inside.
 *
 *   reprise [-e chunk] [-l module] [-i] [-v] [script [args]]     as `lua` does
 *   reprise --test | --devices | --doctor | --build-kernels DIR   each is a few lines of Lua below
 *
 * Exit codes: 0, 1 after an error (with a traceback on stderr), 2 for a wrong command line, 130 after Ctrl-C.
 */
#include <lauxlib.h>
#include <lualib.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bind_interrupt.h"
#include "home.h"
#include "interrupt.h"
#include "repl.h"
#include "reprise.h"

enum { FAILED = 1, USAGE = 2, INTERRUPTED = 130 };

/* clang-format off */
static const char help[] =
    "usage: reprise [options] [script [args]]\n"
    "  -e chunk               run the text `chunk`\n"
    "  -l module              require `module` into a global of that name; -l name=module names it otherwise\n"
    "  -i                     go on with a prompt after the script\n"
    "  -v                     show the version\n"
    "  -                      run standard input; --  end the options\n"
    "  --test [arguments]     run the specs with busted; arguments are busted's\n"
    "  --devices              list the devices present\n"
    "  --doctor               say what was found of driver, compilers, cache, memory, and what to do about the rest\n"
    "  --build-kernels DIR [--arch a,b]\n"
    "                         compile the library kernels into DIR, for this machine or the architectures given\n"
    "  -h, --help             show this text\n";
/* clang-format on */

/* What the long options do. Each chunk gets the arguments that follow its option, and returns an exit code or none. */
typedef struct front {
  const char *option, *name, *chunk;
} front;

static const front fronts[] = {
    {"--test", "@reprise --test",
     "local suite = require 'reprise.suite'\n"
     "require 'busted.runner'(suite.prepare())\n"
     "return suite.code()"},
    {"--devices", "@reprise --devices", "dofile(require('reprise.core').home() .. '/scripts/devices.lua')"},
    {"--doctor", "@reprise --doctor", "return require('reprise.doctor').main(...)"},
    {"--build-kernels", "@reprise --build-kernels", "return require('reprise.prebuild').main(...)"},
};

typedef struct command {
  int argc;
  char **argv;
  const front *front;           /* the long option, or NULL */
  int script;                   /* its index in argv; argc when there is none. For a front: of the option */
  bool prompt, version, chunks; /* -i, -v, any -e */
} command;

/* Options ------------------------------------------------------------------------------------------------------- */

static const front *find_front(const char *option) {
  for (size_t i = 0; i < sizeof fronts / sizeof *fronts; i++) {
    if (strcmp(fronts[i].option, option) == 0) return &fronts[i];
  }
  return NULL;
}

static int wrong_usage(const char *option, const char *why) {
  fprintf(stderr, "reprise: %s: %s\n%s", option, why, help);
  return USAGE;
}

/* -e and -l: the text stands behind the letter or is the next argument; NULL when there is none. */
static const char *option_text(const command *c, int *at) {
  const char *behind = c->argv[*at] + 2;
  if (*behind) return behind;
  return *at + 1 < c->argc ? c->argv[++*at] : NULL;
}

/* One option that takes no script; 0, or the exit code of a wrong usage. */
static int parse_option(command *c, int *at) {
  const char *option = c->argv[*at];
  bool alone = option[1] && !option[2];
  if (option[1] == 'e' || option[1] == 'l') {
    c->chunks = c->chunks || option[1] == 'e';
    return option_text(c, at) ? 0 : wrong_usage(option, "needs an argument");
  }
  if (alone && option[1] == 'i') c->prompt = true;
  else if (alone && option[1] == 'v') c->version = true;
  else return wrong_usage(option, "is no option");
  return 0;
}

static int parse(command *c) {
  for (int at = 1; at < c->argc; at++) {
    const char *word = c->argv[at];
    c->script = at;
    if (word[0] != '-' || strcmp(word, "-") == 0) return 0;
    if (strcmp(word, "--") == 0) {
      c->script = at + 1;
      return 0;
    }
    if ((c->front = find_front(word))) return 0;
    int code = parse_option(c, &at);
    if (code) return code;
  }
  c->script = c->argc;
  return 0;
}

/* Lua ----------------------------------------------------------------------------------------------------------- */

/* Global `arg`: argv, counted from `zero`. */
static void set_arg(lua_State *L, const command *c, int zero) {
  lua_createtable(L, c->argc - zero, zero + 1);
  for (int i = 0; i < c->argc; i++) {
    lua_pushstring(L, c->argv[i]);
    lua_rawseti(L, -2, i - zero);
  }
  lua_setglobal(L, "arg");
}

static void open_state(lua_State *L) {
  luaL_openlibs(L);
  rp_state_open(L);
  rp_interrupt_open(L);
}

/* Reports what went wrong, if anything did; an exit code. */
static int finish(lua_State *L, int status) {
  if (status != LUA_OK) rp_repl_report(L);
  return status == LUA_OK ? 0 : FAILED;
}

/* Calls the function that a load with `status` left, or reports the message that it left. */
static int call(lua_State *L, int status, int arguments) {
  return finish(L, status == LUA_OK ? rp_interrupt_call(L, arguments, 0) : status);
}

static int run_chunk(lua_State *L, const char *chunk) {
  return call(L, luaL_loadbuffer(L, chunk, strlen(chunk), "=(command line)"), 0);
}

/* -l module, or -l name=module. */
static int run_require(lua_State *L, const char *text) {
  const char *equals = strchr(text, '=');
  const char *module = equals ? equals + 1 : text;
  lua_pushlstring(L, text, equals ? (size_t)(equals - text) : strlen(text));
  const char *name = lua_tostring(L, -1);
  lua_getglobal(L, "require");
  lua_pushstring(L, module);
  int status = rp_interrupt_call(L, 1, 1);
  if (status == LUA_OK) lua_setglobal(L, name);
  return finish(L, status);
}

/* -e and -l, in the order of the command line, until one fails. */
static int run_options(lua_State *L, const command *c) {
  int code = 0;
  for (int at = 1; at < c->script && code == 0; at++) {
    char letter = c->argv[at][1];
    if (letter != 'e' && letter != 'l') continue;
    const char *text = option_text(c, &at);
    code = letter == 'e' ? run_chunk(L, text) : run_require(L, text);
  }
  return code;
}

static int push_arguments(lua_State *L, const command *c, int first) {
  int count = c->argc > first ? c->argc - first : 0;
  luaL_checkstack(L, count, "too many arguments");
  for (int i = first; i < c->argc; i++) lua_pushstring(L, c->argv[i]);
  return count;
}

static int run_script(lua_State *L, const command *c) {
  bool piped = c->script == c->argc || strcmp(c->argv[c->script], "-") == 0;
  int status = luaL_loadfile(L, piped ? NULL : c->argv[c->script]);
  return call(L, status, status == LUA_OK ? push_arguments(L, c, c->script + 1) : 0);
}

static int run_front(lua_State *L, const command *c) {
  set_arg(L, c, c->script);
  const char *chunk = c->front->chunk;
  int status = luaL_loadbuffer(L, chunk, strlen(chunk), c->front->name);
  if (status == LUA_OK) status = rp_interrupt_call(L, push_arguments(L, c, c->script + 1), 1);
  if (status != LUA_OK) return finish(L, status);
  int code = (int)lua_tointeger(L, -1);
  lua_pop(L, 1);
  return code;
}

static int show_version(void) {
  return printf("reprise %s (%s)\n", RP_VERSION, LUA_RELEASE) < 0 ? FAILED : 0;
}

/* Everything between the options and the exit code. */
static int run(lua_State *L, const command *c) {
  if (c->front) return run_front(L, c);
  bool idle = c->script == c->argc && !c->chunks && !c->version; /* nothing to do but listen */
  bool typed = isatty(STDIN_FILENO), prompt = c->prompt || (idle && typed);
  set_arg(L, c, c->script < c->argc ? c->script : 0);
  if (c->version || (prompt && typed)) show_version();
  int code = run_options(L, c);
  if (code == 0 && (c->script < c->argc || (idle && !prompt))) code = run_script(L, c);
  if (!prompt) return code;
  rp_interrupt_answer(L);
  int end = rp_repl_run(L);
  return typed || end ? end : code;
}

/* Protected, so that running out of memory here is a message too. Argument: the command. Result: the exit code. */
static int protected_main(lua_State *L) {
  const command *c = lua_touserdata(L, 1);
  lua_settop(L, 0);
  open_state(L);
  lua_pushinteger(L, run(L, c));
  return 1;
}

static int start(command *c) {
  lua_State *L = rp_home_find() == RP_OK ? luaL_newstate() : NULL;
  if (!L) {
    fprintf(stderr, "reprise: %s\n", *rp_message() ? rp_message() : "not enough memory for a Lua state");
    return FAILED;
  }
  lua_pushcfunction(L, protected_main);
  lua_pushlightuserdata(L, c);
  int code = finish(L, lua_pcall(L, 1, 1, 0));
  if (code == 0) code = (int)lua_tointeger(L, -1);
  lua_close(L);
  return rp_interrupts ? INTERRUPTED : code;
}

int main(int argc, char **argv) {
  command c = {.argc = argc, .argv = argv, .script = argc};
  if (argc > 1 && (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)) {
    return fputs(help, stdout) < 0 ? FAILED : 0;
  }
  int code = parse(&c);
  return code ? code : start(&c);
}
