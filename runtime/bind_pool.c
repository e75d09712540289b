/* bind_pool.c - pools and their figures. */
#include <string.h>

#include "bind.h"

static rp_pool *box_pool(lua_State *L, int arg) {
  rp_pool *pool = *(rp_pool **)luaL_checkudata(L, arg, RP_POOL_NAME);
  if (!pool) rp_argument_error(L, arg, "the pool is closed");
  return pool;
}

rp_pool *rp_field_pool(lua_State *L, int table) {
  static const char *const fields[] = {"pool", "device"};
  table = lua_absindex(L, table);
  for (int i = 0; i < 2; i++) {
    if (lua_getfield(L, table, fields[i]) != LUA_TNIL) {
      if (lua_type(L, -1) != LUA_TSTRING && !luaL_testudata(L, -1, RP_POOL_NAME) &&
          !luaL_testudata(L, -1, RP_DEVICE_NAME))
        rp_error(L, "option %s: %s expected, got %s", fields[i], i ? RP_DEVICE_NAME : RP_POOL_NAME,
                 luaL_typename(L, -1));
      rp_pool *pool = rp_check_pool(L, lua_gettop(L));
      lua_pop(L, 1); /* the table, or the state's handle, keeps it */
      return pool;
    }
    lua_pop(L, 1);
  }
  return NULL;
}

static size_t read_limit(lua_State *L) {
  int exact;
  if (lua_getfield(L, 1, "limit") == LUA_TNIL) return 0;
  lua_Integer limit = lua_tointegerx(L, -1, &exact);
  if (!exact || lua_type(L, -1) != LUA_TNUMBER || limit < 1)
    rp_error(L, "making a pool: limit: bytes from 1 expected, got %s", luaL_tolstring(L, -1, NULL));
  return (size_t)limit;
}

static void check_names(lua_State *L) {
  for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
    const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : luaL_typename(L, -2);
    if (strcmp(name, "device") != 0 && strcmp(name, "limit") != 0)
      rp_error(L, "making a pool: unknown option '%s': expected device or limit", name);
  }
}

/* rp.pool { device = d, limit = bytes } */
static int new_pool(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  check_names(L);
  size_t limit = read_limit(L);
  lua_getfield(L, 1, "device");
  rp_device *dev = rp_check_device(L, lua_gettop(L));
  rp_pool **box = rp_new(L, sizeof *box, RP_POOL_NAME);
  RP_CALL(L, rp_pool_open(dev, limit, box));
  return 1;
}

static void set_bytes(lua_State *L, const char *key, size_t bytes) {
  lua_pushinteger(L, (lua_Integer)bytes);
  lua_setfield(L, -2, key);
}

static void set_figures(lua_State *L, const rp_zone_figures *f) {
  set_bytes(L, "allocated", f->allocated);
  set_bytes(L, "reserved", f->reserved);
  set_bytes(L, "peak_allocated", f->peak_allocated);
  set_bytes(L, "peak_reserved", f->peak_reserved);
}

static int figures(lua_State *L) {
  rp_figures f;
  rp_pool *pool = box_pool(L, 1);
  rp_pool_figures(pool, &f);
  lua_newtable(L);
  set_figures(L, &f.all);
  set_bytes(L, "device_used", f.device_used);
  set_bytes(L, "blocks", f.blocks);
  set_bytes(L, "graphs", f.graphs);
  if (f.limit) set_bytes(L, "limit", f.limit);
  if (pool->device->ops->exec_bytes) set_bytes(L, "executables", f.executables);
  set_bytes(L, "copied", f.copied);
  set_bytes(L, "skipped", f.skipped);
  for (int z = 0; z < RP_ZONES; z++) {
    lua_newtable(L);
    set_figures(L, &f.zones[z]);
    lua_setfield(L, -2, rp_zone_name((rp_zone)z));
  }
  return 1;
}

/* trim(): bytes given back to the device */
static int trim(lua_State *L) {
  size_t freed;
  rp_check(L, rp_pool_trim(box_pool(L, 1), &freed));
  lua_pushinteger(L, (lua_Integer)freed);
  return 1;
}

/* ---- what lies where */

/* Appends { address =, bytes =, taken = } of the part of [from, to) inside the run to the list on top. */
static void add_block(lua_State *L, const rp_arena *arena, rp_chunk run, size_t from, size_t to, bool taken) {
  from = from > run.from ? from : run.from;
  to = to < run.to ? to : run.to;
  if (from >= to) return;
  lua_createtable(L, 0, 3);
  lua_pushinteger(L, (lua_Integer)(arena->base + from)), lua_setfield(L, -2, "address");
  set_bytes(L, "bytes", to - from);
  lua_pushboolean(L, taken), lua_setfield(L, -2, "taken");
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

static void add_blocks(lua_State *L, const rp_pool *pool, int zone, rp_chunk run) {
  const rp_arena *arena = &pool->arenas[zone];
  if (zone == RP_SCRATCH) {
    add_block(L, arena, run, 0, pool->allocated[zone], true); /* the largest plan: all others lie over it */
    return add_block(L, arena, run, pool->allocated[zone], SIZE_MAX, false);
  }
  const rp_extent *first = pool->heaps[zone].last;
  while (first && first->before) first = first->before;
  for (const rp_extent *e = first; e; e = e->after)
    add_block(L, arena, run, e->offset, e->offset + e->bytes, e->taken);
  add_block(L, arena, run, pool->heaps[zone].end, SIZE_MAX, false);
}

/* Appends the run of memory that begins with chunk `at`; the first chunk behind it. */
static size_t add_run(lua_State *L, const rp_pool *pool, int zone, size_t at) {
  const rp_arena *arena = &pool->arenas[zone];
  rp_chunk run = arena->chunks[at++];
  while (at < arena->chunk_count && arena->chunks[at].from == run.to) run.to = arena->chunks[at++].to;
  lua_createtable(L, 0, 4);
  lua_pushstring(L, rp_zone_name((rp_zone)zone)), lua_setfield(L, -2, "zone");
  lua_pushinteger(L, (lua_Integer)(arena->base + run.from)), lua_setfield(L, -2, "address");
  set_bytes(L, "bytes", run.to - run.from);
  lua_newtable(L);
  add_blocks(L, pool, zone, run);
  lua_setfield(L, -2, "blocks");
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  return at;
}

/* segments(): a list of the runs of mapped memory, each with its blocks, which fill it */
static int segments(lua_State *L) {
  const rp_pool *pool = box_pool(L, 1);
  lua_newtable(L);
  for (int z = 0; z < RP_ZONES; z++)
    for (size_t at = 0; at < pool->arenas[z].chunk_count;) at = add_run(L, pool, z, at);
  return 1;
}

/* snapshot(file): the file's form is the business of lua/reprise/snapshot.lua */
static int snapshot(lua_State *L) {
  box_pool(L, 1);
  if (lua_type(L, 2) != LUA_TSTRING) return rp_type_error(L, 2, "string");
  lua_settop(L, 2);
  return rp_call_module(L, "reprise.snapshot", 2, 0);
}

static int get(lua_State *L) {
  const char *key = luaL_checkstring(L, 2);
  if (strcmp(key, "device") == 0) return rp_push_device(L, box_pool(L, 1)->device), 1;
  return rp_method(L);
}

static int to_string(lua_State *L) {
  rp_figures f;
  rp_pool *pool = *(rp_pool **)luaL_checkudata(L, 1, RP_POOL_NAME);
  if (!pool) return lua_pushliteral(L, "pool, closed"), 1;
  rp_pool_figures(pool, &f);
  const char *allocated = rp_push_bytes(L, f.all.allocated), *peak = rp_push_bytes(L, f.all.peak_allocated);
  const char *reserved = rp_push_bytes(L, f.all.reserved);
  const char *blocks = rp_push_count(L, f.blocks, "block"), *graphs = rp_push_count(L, f.graphs, "graph");
  lua_pushfstring(L, "pool of %s: %s allocated (peak %s), %s reserved, %s, %s", pool->device->name, allocated,
                  peak, reserved, blocks, graphs);
  return 1;
}

static int close_pool(lua_State *L) {
  rp_pool **box = luaL_checkudata(L, 1, RP_POOL_NAME);
  rp_pool_release(*box);
  *box = NULL;
  return 0;
}

/* ---- the planner by itself */

static size_t life_field(lua_State *L, int index, const char *key) {
  int exact;
  lua_getfield(L, -1, key);
  lua_Integer value = lua_tointegerx(L, -1, &exact);
  if (!exact || value < 0 || value > INT32_MAX)
    rp_error(L, "planning: life %d: %s: an integer from 0 to 2^31 - 1 expected, got %s", index, key,
             luaL_tolstring(L, -1, NULL));
  lua_pop(L, 1);
  return (size_t)value;
}

static rp_life read_life(lua_State *L, int index) {
  if (lua_rawgeti(L, 1, index) != LUA_TTABLE)
    rp_error(L, "planning: life %d: table expected, got %s", index, luaL_typename(L, -1));
  rp_life life = {.bytes = life_field(L, index, "bytes"),
                  .first = (uint32_t)life_field(L, index, "first"),
                  .last = (uint32_t)life_field(L, index, "last")};
  if (life.first > life.last) rp_error(L, "planning: life %d: it ends before it begins", index);
  lua_getfield(L, -1, "output"), life.output = lua_toboolean(L, -1);
  lua_pop(L, 2);
  return life;
}

/* plan(lives [, tries]): lives are { bytes =, first =, last =, output = }; offsets, peak, lower bound */
static int plan(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_Integer tries = luaL_optinteger(L, 2, RP_PLAN_TRIES);
  size_t count = lua_rawlen(L, 1);
  rp_life *lives = lua_newuserdatauv(L, (count + 1) * sizeof *lives, 0);
  for (size_t i = 0; i < count; i++) lives[i] = read_life(L, (int)i + 1);
  rp_plan out;
  RP_CALL(L, rp_plan_pack(lives, count, (uint32_t)tries, &out));
  lua_createtable(L, (int)count, 0);
  for (size_t i = 0; i < count; i++)
    lua_pushinteger(L, (lua_Integer)lives[i].offset), lua_rawseti(L, -2, (lua_Integer)i + 1);
  lua_pushinteger(L, (lua_Integer)out.peak);
  lua_pushinteger(L, (lua_Integer)out.lower_bound);
  return 3;
}

void rp_bind_pool(lua_State *L) {
  static const luaL_Reg functions[] = {{"pool", new_pool}, {"plan", plan}, {NULL, NULL}};
  static const luaL_Reg methods[] = {
      {"figures", figures}, {"trim", trim}, {"segments", segments}, {"snapshot", snapshot}, {NULL, NULL}};
  static const luaL_Reg metamethods[] = {{"__gc", close_pool}, {"__tostring", to_string}, {NULL, NULL}};
  rp_class(L, RP_POOL_NAME, methods, get, metamethods);
  luaL_setfuncs(L, functions, 0);
}
