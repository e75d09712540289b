/* include.c - see include.h. The list is also the queue: each header that is found is read, appended, and
 * later scanned in its turn, so headers that include each other end.
 */
#define _GNU_SOURCE
#include "include.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache.h"
#include "lexer.h"
#include "mem.h"

enum { TEXT_MIB = 64 };

/* ---- Files */

static rp_status refuse_file(const char *path) {
  return rp_fail(RP_IO, "reading %s: %s", path, strerror(errno));
}

/* Reads to the end: a size asked for beforehand is only a guess (pipes, files that grow). */
static rp_status read_all(int fd, const char *path, char **text, size_t *size) {
  size_t room = 0;
  for (;;) {
    if (*size > (size_t)TEXT_MIB << 20) return rp_fail(RP_IO, "reading %s: more than %d MiB", path, TEXT_MIB);
    if (!rp_grow(text, &room, *size + 16384, 1)) return RP_NOMEM;
    ssize_t got = read(fd, *text + *size, room - *size - 1);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refuse_file(path);
    if (got == 0) break;
    *size += (size_t)got;
  }
  (*text)[*size] = 0;
  return RP_OK;
}

static rp_status check_text(const char *path, const char *text, size_t size) {
  const char *nul = memchr(text, 0, size);
  return nul ? rp_fail(RP_FORMAT, "reading %s: byte %zu is NUL: this is no text", path, (size_t)(nul - text))
             : RP_OK;
}

rp_status rp_text_read(const char *path, char **out) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return refuse_file(path);
  char *text = NULL;
  size_t size = 0;
  rp_status status = read_all(fd, path, &text, &size);
  close(fd);
  if (status == RP_OK) status = check_text(path, text, size);
  if (status != RP_OK) rp_free(text);
  else *out = text;
  return status;
}

/* ---- Places */

/* folder + between + name; an absolute name stays itself. NULL: out of memory. */
static char *join(const char *folder, size_t folder_length, const char *between, const char *name) {
  if (*name == '/') folder_length = 0, between = "";
  size_t bytes = folder_length + strlen(between) + strlen(name) + 1;
  char *path = rp_alloc(bytes);
  if (path) snprintf(path, bytes, "%.*s%s%s", (int)folder_length, folder, between, name);
  return path;
}

/* Length of the folder part of a path, with its last slash; 0: the working directory. */
static size_t folder_of(const char *path) {
  const char *slash = path ? strrchr(path, '/') : NULL;
  return slash ? (size_t)(slash - path) + 1 : 0;
}

static bool is_file(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && !S_ISDIR(st.st_mode);
}

/* ---- Finding */

typedef struct finder {
  const char *path, *name; /* of the including file: NULL if it has no path; for messages */
  rp_includes *out;
} finder;

/* The file that a name means. *path: rp_alloc'ed; NULL if it is nowhere. */
static rp_status locate(const finder *f, const char *name, char **path) {
  for (int i = 0; i < 2; i++) {
    *path = i ? join(rp_home(), strlen(rp_home()), "/kernels/", name)
              : join(f->path, folder_of(f->path), "", name);
    if (!*path) return RP_NOMEM;
    if (is_file(*path)) return RP_OK;
    rp_free(*path);
  }
  *path = NULL;
  return RP_OK;
}

static rp_status refuse_missing(const finder *f, int line, const char *name) {
  size_t length = folder_of(f->path);
  if (*name == '/') return rp_fail(RP_MISSING, "%s:%d: cannot find \"%s\"", f->name, line, name);
  return rp_fail(RP_MISSING,
                 "%s:%d: cannot find \"%s\" (looked in %.*s, %s/kernels; a header of the compiler's own is "
                 "written <%s>)",
                 f->name, line, name, length > 1 ? (int)length - 1 : 1, length ? f->path : ".", rp_home(),
                 name);
}

static rp_status append(rp_includes *out, const char *name, char *text, char *path) {
  if (!rp_grow(&out->headers, &out->room, out->count + 1, sizeof *out->headers) ||
      !rp_grow(&out->paths, &out->path_room, out->count + 1, sizeof *out->paths))
    return RP_NOMEM;
  char *copy = rp_copy_text(name);
  if (!copy) return RP_NOMEM;
  out->headers[out->count] = (rp_header){.name = copy, .text = text};
  out->paths[out->count++] = path;
  return RP_OK;
}

/* A name that is in the list already must mean the same bytes. */
static rp_status check_same(const finder *f, int line, size_t index, const char *path, const char *text) {
  if (strcmp(f->out->headers[index].text, text) == 0) return RP_OK;
  return rp_fail(RP_FORMAT, "%s:%d: \"%s\" means %s here and %s elsewhere: give one of them another name",
                 f->name, line, f->out->headers[index].name, path, f->out->paths[index]);
}

/* Takes the file `path` into the list as `name`. The list owns path afterwards, or it is freed. */
static rp_status take_file(const finder *f, int line, const char *name, char *path) {
  char *text = NULL;
  rp_status status = rp_text_read(path, &text);
  if (status != RP_OK && status != RP_NOMEM) status = rp_fail_in(status, "%s:%d", f->name, line);
  size_t i = 0;
  while (i < f->out->count && strcmp(f->out->headers[i].name, name) != 0) i++;
  if (status == RP_OK && i == f->out->count) {
    status = append(f->out, name, text, path);
    if (status == RP_OK) return RP_OK;
  } else if (status == RP_OK) {
    status = check_same(f, line, i, path, text);
  }
  rp_free(text);
  rp_free(path);
  return status;
}

/* One directive's name; `under_if`: it may be meant for another device. */
static rp_status take_include(const finder *f, rp_token quoted, bool under_if) {
  size_t length = quoted.length >= 2 ? quoted.length - 2 : 0;
  char *name = rp_alloc(length + 1), *path = NULL;
  if (!name) return RP_NOMEM;
  snprintf(name, length + 1, "%.*s", (int)length, quoted.at + 1);
  rp_status status = locate(f, name, &path);
  if (status == RP_OK && path) status = take_file(f, quoted.line, name, path);
  else if (status == RP_OK && !under_if) status = refuse_missing(f, quoted.line, name);
  rp_free(name);
  return status;
}

/* `#ifndef X` at the top, `#define X` next: an include guard. */
static bool guarded(const char *text) {
  rp_lexer lexer = rp_lexer_of(text), rest;
  rp_token first = rp_lexer_next(&lexer), second = rp_lexer_next(&lexer);
  if (first.kind != RP_TOKEN_DIRECTIVE || second.kind != RP_TOKEN_DIRECTIVE) return false;
  if (rp_token_directive(first, &rest) != RP_DIRECTIVE_IF) return false;
  rp_token name = rp_lexer_next(&rest);
  if (rp_token_directive(second, &rest) != RP_DIRECTIVE_DEFINE) return false;
  rp_token defined = rp_lexer_next(&rest);
  return name.length == defined.length && memcmp(name.at, defined.at, name.length) == 0;
}

static rp_status scan(const finder *f, const char *text) {
  rp_lexer lexer = rp_lexer_of(text), rest;
  int ifs = guarded(text) ? -1 : 0;
  for (rp_token token; (token = rp_lexer_next(&lexer)).kind != RP_TOKEN_END;) {
    if (token.kind != RP_TOKEN_DIRECTIVE) continue;
    rp_directive what = rp_token_directive(token, &rest);
    ifs += (what == RP_DIRECTIVE_IF) - (what == RP_DIRECTIVE_ENDIF);
    rp_token named = rp_lexer_next(&rest);
    bool quoted = what == RP_DIRECTIVE_INCLUDE && named.kind == RP_TOKEN_STRING && *named.at == '"';
    if (quoted) RP_TRY(take_include(f, named, ifs > 0));
  }
  return RP_OK;
}

rp_status rp_includes_find(const char *file, const char *name, const char *text, rp_includes *out) {
  rp_includes list = {0};
  finder f = {.path = file, .name = name, .out = &list};
  rp_status status = scan(&f, text);
  for (size_t i = 0; status == RP_OK && i < list.count; i++) {
    f.path = f.name = list.paths[i];
    status = scan(&f, list.headers[i].text);
  }
  if (status != RP_OK) rp_includes_free(&list);
  else *out = list;
  return status;
}

/* ---- CUDA's headers */

/* The name between < and > of an #include, rp_alloc'ed; NULL: the directive is something else, or no memory. */
static char *angled(rp_token directive) {
  rp_lexer rest;
  if (rp_token_directive(directive, &rest) != RP_DIRECTIVE_INCLUDE) return NULL;
  rp_token mark = rp_lexer_next(&rest);
  const char *from = mark.at + 1,
             *end = rp_token_mark(mark, '<') ? memchr(from, '>', (size_t)(rest.end - from)) : NULL;
  if (!end || *from == '/' || memmem(from, (size_t)(end - from), "..", 2)) return NULL;
  char *name = rp_alloc((size_t)(end - from) + 1);
  if (name) snprintf(name, (size_t)(end - from) + 1, "%.*s", (int)(end - from), from);
  return name;
}

/* Takes <home>/kernels/FOLDER/NAME, if it is there and not in the list. */
static rp_status take_cuda(const char *folder, const char *name, rp_includes *list) {
  for (size_t i = 0; i < list->count; i++)
    if (strcmp(list->headers[i].name, name) == 0) return RP_OK;
  size_t room = strlen(rp_home()) + strlen(folder) + sizeof "/kernels//";
  char *between = rp_alloc(room);
  if (!between) return RP_NOMEM;
  snprintf(between, room, "/kernels/%s/", folder);
  char *path = join(rp_home(), strlen(rp_home()), between, name);
  rp_free(between);
  if (!path) return RP_NOMEM;
  if (!is_file(path)) return rp_free(path), RP_OK;
  finder f = {.name = path, .out = list};
  return take_file(&f, 0, name, path);
}

static rp_status scan_cuda(const char *folder, const char *text, rp_includes *list) {
  rp_lexer lexer = rp_lexer_of(text);
  for (rp_token token; (token = rp_lexer_next(&lexer)).kind != RP_TOKEN_END;) {
    char *name = token.kind == RP_TOKEN_DIRECTIVE ? angled(token) : NULL;
    rp_status status = name ? take_cuda(folder, name, list) : RP_OK;
    rp_free(name);
    RP_TRY(status);
  }
  return RP_OK;
}

rp_status rp_includes_cuda(const char *folder, const char *text, rp_includes *list) {
  size_t known = list->count; /* their quoted includes are in the list */
  finder f = {.out = list};
  RP_TRY(take_cuda(folder, "cuda.cuh", list));
  RP_TRY(scan_cuda(folder, text, list));
  for (size_t i = 0; i < list->count; i++) {
    f.path = f.name = list->paths[i];
    if (i >= known) RP_TRY(scan(&f, list->headers[i].text));
    RP_TRY(scan_cuda(folder, list->headers[i].text, list));
  }
  return RP_OK;
}

void rp_includes_free(rp_includes *includes) {
  for (size_t i = 0; i < includes->count; i++) {
    rp_free(includes->headers[i].name);
    rp_free(includes->headers[i].text);
    rp_free(includes->paths[i]);
  }
  rp_free(includes->headers);
  rp_free(includes->paths);
  *includes = (rp_includes){0};
}
