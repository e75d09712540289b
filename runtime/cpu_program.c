/* cpu_program.c - a kernel source made into a shared object, and such objects loaded from memory.
 *
 *   unit.cc = cuda.cuh, if it has __global__ kernels | defines as #define lines | #line 1 "name" | source |
 *             one call a kernel, made from its signature
 *
 * A call of a KERNEL runs the blocks [first, last) of a grid of `blocks`; rp_here is the prelude's. A call of a
 * __global__ kernel hands what runs one of its threads to the crew (cpu_crew.h). Everything lies in a
 * folder of mode 0700 under $TMPDIR that is always removed. An image is the object's bytes. It is loaded
 * through /proc/self/fd from a file in memory, or from such a folder where that is not to be had.
 */
#define _GNU_SOURCE
#include "cpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache.h"
#include "lexer.h"
#include "mem.h"

#define CALL "rp_call_" /* kernel NAME is called through the symbol rp_call_NAME */
#define UNIT "unit.cc"
#define OBJECT "unit.so"

struct rp_module {
  void *library;
  int memory; /* the file it came from, open as long as it is loaded, since its path is its name; or -1 */
};

/* ---- the folder */

static rp_status folder_make(char *out, size_t room) {
  const char *parent = getenv("TMPDIR");
  if (!parent || *parent != '/') parent = "/tmp";
  int size = snprintf(out, room, "%s/reprise-XXXXXX", parent);
  if (size < 0 || (size_t)size >= room) return rp_fail(RP_IO, "making a folder: %s: path too long", parent);
  return mkdtemp(out) ? RP_OK : rp_fail(RP_IO, "making a folder: %s: %s", out, strerror(errno));
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *walk) {
  (void)s, (void)kind, (void)walk;
  remove(path);
  return 0;
}

static void folder_remove(const char *folder) { nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS); }

static rp_status file_refused(const char *path, const char *doing) {
  return rp_fail(RP_IO, "%s: %s: %s", doing, path, strerror(errno));
}

static rp_status write_all(int fd, const void *bytes, size_t size, const char *path) {
  for (size_t done = 0; done < size;) {
    ssize_t wrote = write(fd, (const char *)bytes + done, size - done);
    if (wrote < 0 && errno != EINTR) return file_refused(path, "writing");
    if (wrote > 0) done += (size_t)wrote;
  }
  return RP_OK;
}

static rp_status read_all(int fd, void *bytes, size_t size, const char *path) {
  for (size_t done = 0; done < size;) {
    ssize_t got = read(fd, (char *)bytes + done, size - done);
    if (got == 0) return rp_fail(RP_IO, "reading: %s: shorter than it was", path);
    if (got < 0 && errno != EINTR) return file_refused(path, "reading");
    if (got > 0) done += (size_t)got;
  }
  return RP_OK;
}

/* ---- the unit */

/* Writes #line 1 "name" with the name as a string literal. */
static void print_line(FILE *out, const char *name) {
  fputs("#line 1 \"", out);
  for (const char *c = name; *c; c++) {
    if (*c == '"' || *c == '\\') fputc('\\', out);
    fputc(*c == '\n' ? ' ' : *c, out);
  }
  fputs("\"\n", out);
}

/* The compiler itself says what type parameter N has, and the signature's size is compared with it. All names
 * begin with rp_: a source may define any other. */
static const char parameters[] =
    "template <unsigned rp_n, class rp_f> struct rp_nth;\n"
    "template <class rp_r, class rp_a, class... rp_b>\n"
    "struct rp_nth<0, rp_r(rp_a, rp_b...)> { typedef rp_a rp_is; };\n"
    "template <unsigned rp_n, class rp_r, class rp_a, class... rp_b>\n"
    "struct rp_nth<rp_n, rp_r(rp_a, rp_b...)> : rp_nth<rp_n - 1, rp_r(rp_b...)> {};\n";

static void print_checks(FILE *out, const rp_signature *kernel) {
  for (size_t i = 0; i < kernel->count; i++)
    fprintf(out,
            "static_assert(sizeof(rp_nth<%zu, decltype(%s)>::rp_is) == %zu, \"kernel %s: parameter %zu (%s) "
            "is not of the size that its signature says\");\n",
            i, kernel->name, rp_formal_bytes(kernel->formals + i), kernel->name, i + 1,
            kernel->formals[i].name);
}

static void print_arguments(FILE *out, const rp_signature *kernel) {
  for (size_t i = 0; i < kernel->count; i++)
    fprintf(out, "%s*(rp_nth<%zu, decltype(%s)>::rp_is *)rp_args[%zu]", i ? ", " : "", i, kernel->name, i);
}

#define HEAD                                                                                     \
  "extern \"C\" __attribute__((visibility(\"default\"))) void " CALL "%s(void *const *rp_args, " \
  "unsigned rp_first, unsigned rp_last, unsigned rp_blocks, void *rp_dynamic) {\n"

static void print_call(FILE *out, const rp_signature *kernel) {
  fprintf(out,
          HEAD "  (void)rp_args; rp_here.dynamic = rp_dynamic; rp_here.blocks = rp_blocks;\n"
               "  for (unsigned rp_block = rp_first; rp_block < rp_last; rp_block++) {\n"
               "    rp_here.block = rp_block;\n    %s(",
          kernel->name, kernel->name);
  print_arguments(out, kernel);
  fputs(");\n  }\n}\n", out);
}

static void print_global_call(FILE *out, const rp_signature *kernel) {
  fprintf(out, "static void rp_thread_%s(void *const *rp_args) {\n  (void)rp_args; %s(", kernel->name,
          kernel->name);
  print_arguments(out, kernel);
  fprintf(out,
          ");\n}\n" HEAD
          "  (void)rp_last; rp_enter(rp_dynamic, rp_thread_%s, rp_args, rp_first, rp_blocks);\n}\n",
          kernel->name, kernel->name);
}

/* ---- dynamic shared memory */

/* In `extern __shared__ float a[]` the name before the bracket; true if the tokens from `lexer` on are such. */
static bool read_dynamic(rp_lexer *lexer, rp_token *name) {
  bool shared = false;
  rp_token token = rp_lexer_next(lexer);
  for (; token.kind != RP_TOKEN_END && !rp_token_mark(token, ';') && !rp_token_mark(token, '{');
       token = rp_lexer_next(lexer)) {
    shared |= rp_token_is(token, "__shared__");
    if (shared && rp_token_mark(token, '[')) return true;
    if (token.kind == RP_TOKEN_WORD) *name = token;
  }
  return false;
}

/* One label for each such name, wherever it is declared: they all lie over each other. Twice is no harm: .set. */
static void print_labels(FILE *out, const char *text) {
  rp_lexer lexer = rp_lexer_of(text);
  for (rp_token token, name = {0}; (token = rp_lexer_next(&lexer)).kind != RP_TOKEN_END;) {
    rp_lexer ahead = lexer;
    if (rp_token_is(token, "extern") && read_dynamic(&ahead, &name))
      fprintf(out, "RP_DYNAMIC(\"%.*s\", \"_ZTH%zu%.*s\")\n", (int)name.length, name.at, (size_t)name.length,
              (int)name.length, name.at);
  }
}

static bool any_global(const rp_source *source) {
  for (size_t i = 0; i < source->kernel_count; i++)
    if (source->kernels[i].global) return true;
  return false;
}

/* KERNELs that run by CUDA's rules: the device plays a GPU. */
static bool any_played(const rp_source *source) {
  for (size_t i = 0; i < source->kernel_count; i++)
    if (source->kernels[i].kernel && source->kernels[i].global) return true;
  return false;
}

static void print_unit(FILE *out, const rp_source *source) {
  bool global = any_global(source);
  if (any_played(source)) fputs("#define RP_SIMT 1\n", out);
  if (global) fputs("#include \"cuda.cuh\"\n", out);
  for (size_t i = 0; i < source->define_count; i++)
    fprintf(out, "#define %s %s\n", source->defines[i].name, source->defines[i].value);
  print_line(out, source->name);
  fputs(source->text, out);
  fputc('\n', out);
  print_line(out, "(calls made from the signatures)");
  fputs(parameters, out);
  for (size_t i = 0; i < source->kernel_count; i++) {
    print_checks(out, source->kernels + i);
    (source->kernels[i].global ? print_global_call : print_call)(out, source->kernels + i);
  }
  if (global) print_labels(out, source->text);
  for (size_t i = 0; global && i < source->header_count; i++) print_labels(out, source->headers[i].text);
}

/* Opens folder/name for writing; it must not be there. NULL with a stored sentence. */
static FILE *open_new(const char *folder, const char *name) {
  char path[RP_PATH];
  int size = snprintf(path, sizeof path, "%s/%s", folder, name);
  if (size > 0 && (size_t)size < sizeof path) {
    FILE *file = fopen(path, "wxe");
    if (file) return file;
  } else {
    errno = ENAMETOOLONG;
  }
  file_refused(path, "writing");
  return NULL;
}

static rp_status close_written(FILE *file, const char *name) {
  bool failed = ferror(file) != 0;
  if (fclose(file) != 0 || failed) return file_refused(name, "writing");
  return RP_OK;
}

/* A name from an #include must stay inside the folder, and not be one of ours. */
static bool is_inside(const char *name) {
  if (*name == '/' || !*name || strcmp(name, UNIT) == 0 || strcmp(name, OBJECT) == 0) return false;
  for (const char *at = name; at; at = strchr(at, '/'), at = at ? at + 1 : NULL)
    if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || !at[2])) return false;
  return true;
}

/* Makes the sub-folders that stand in a header's name. */
static rp_status make_parents(const char *folder, const char *name) {
  char path[RP_PATH];
  for (const char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
    int size = snprintf(path, sizeof path, "%s/%.*s", folder, (int)(slash - name), name);
    if (size < 0 || (size_t)size >= sizeof path) errno = ENAMETOOLONG;
    else if (mkdir(path, 0700) == 0 || errno == EEXIST) continue;
    return file_refused(path, "making a folder");
  }
  return RP_OK;
}

static rp_status write_text(const char *folder, const char *name, const char *text) {
  RP_TRY(make_parents(folder, name));
  FILE *file = open_new(folder, name);
  if (!file) return RP_IO;
  fputs(text, file);
  return close_written(file, name);
}

static rp_status write_header(const char *folder, const rp_header *header) {
  if (is_inside(header->name)) return write_text(folder, header->name, header->text);
  return rp_fail(RP_UNSUPPORTED, "including \"%s\": expected a relative path without ..", header->name);
}

/* The source under its own name too, where that can be: the compiler reads the lines from there that it
 * shows. */
static void show_source(const char *folder, const rp_source *source) {
  if (is_inside(source->name)) write_text(folder, source->name, source->text);
}

static rp_status write_unit(const char *folder, const rp_source *source) {
  FILE *file = open_new(folder, UNIT);
  if (!file) return RP_IO;
  print_unit(file, source);
  return close_written(file, UNIT);
}

/* ---- compiling */

static rp_status read_object(const char *folder, rp_image *out) {
  char path[RP_PATH + 16];
  snprintf(path, sizeof path, "%s/" OBJECT, folder);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return file_refused(path, "reading");
  struct stat s;
  rp_status status = fstat(fd, &s) ? file_refused(path, "reading") : RP_OK;
  if (status == RP_OK) {
    out->size = (size_t)s.st_size;
    out->bytes = rp_alloc(out->size);
    status = out->bytes ? read_all(fd, out->bytes, out->size, path) : RP_NOMEM;
  }
  close(fd);
  return status;
}

static rp_status name_symbols(const rp_source *source, rp_image *out) {
  out->symbols = rp_alloc_zero(source->kernel_count, sizeof *out->symbols);
  if (!out->symbols) return RP_NOMEM;
  out->symbol_count = source->kernel_count;
  for (size_t i = 0; i < source->kernel_count; i++) {
    size_t room = sizeof CALL + strlen(source->kernels[i].name);
    if (!(out->symbols[i] = rp_alloc(room))) return RP_NOMEM;
    snprintf(out->symbols[i], room, CALL "%s", source->kernels[i].name);
  }
  return RP_OK;
}

/* What a user of CUDA should know about errors that come of inline PTX. */
static rp_status explain(const rp_source *source, rp_status status) {
  rp_lexer lexer = rp_lexer_of(source->text);
  rp_token token = rp_lexer_next(&lexer);
  while (token.kind != RP_TOKEN_END && !rp_token_is(token, "asm") && !rp_token_is(token, "__asm__"))
    token = rp_lexer_next(&lexer);
  if (status != RP_COMPILE || token.kind == RP_TOKEN_END || !any_global(source)) return status;
  return rp_fail(
      status,
      "%s\nline %d has inline assembly: PTX is a GPU's; put it under #ifdef __CUDA_ARCH__, and C for the "
      "CPU under #else",
      rp_message(), token.line);
}

static rp_status compile_in(const char *folder, const char *compiler, const char *arch,
                            const rp_source *source, rp_image *out) {
  for (size_t i = 0; i < source->header_count; i++) RP_TRY(write_header(folder, source->headers + i));
  RP_TRY(write_unit(folder, source));
  show_source(folder, source);
  RP_TRY(explain(source, rp_compiler_run(compiler, arch, folder, UNIT, OBJECT, source->name)));
  RP_TRY(read_object(folder, out));
  return name_symbols(source, out);
}

rp_status rp_cpu_compile(const char *arch, const rp_source *source, rp_image *out) {
  char compiler[RP_PATH], folder[RP_PATH];
  *out = (rp_image){0};
  rp_status status = rp_compiler_find(compiler, sizeof compiler);
  if (status == RP_OK) status = folder_make(folder, sizeof folder);
  if (status != RP_OK) return rp_fail_in(status, "compiling %s", source->name);
  status = compile_in(folder, compiler, arch, source, out);
  folder_remove(folder);
  if (status != RP_OK) {
    rp_image_free(out);
    *out = (rp_image){0};
  }
  return status;
}

/* ---- loading */

#ifndef MFD_EXEC
#define MFD_EXEC 0x10u /* Linux 6.3; older ones refuse it */
#endif

/* A file in memory that holds the image, or -1 where there is no such thing. */
static int memory_file(const rp_image *image) {
  int fd = memfd_create("reprise", MFD_CLOEXEC | MFD_EXEC);
  if (fd < 0 && errno == EINVAL) fd = memfd_create("reprise", MFD_CLOEXEC);
  if (fd < 0) return -1;
  if (write_all(fd, image->bytes, image->size, "a file in memory") == RP_OK) return fd;
  close(fd);
  return -1;
}

/* Loads /proc/self/fd/N; NULL: no. A library that could not be unloaded (one with unique symbols) may still
 * bear the name of a number that is free again, and would be found in place of ours: then the file gets
 * another number. */
static void *open_memory(int *fd) {
  char path[64];
  for (;;) {
    snprintf(path, sizeof path, "/proc/self/fd/%d", *fd);
    void *old = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (!old) return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    dlclose(old);
    int next = fcntl(*fd, F_DUPFD_CLOEXEC, *fd + 1);
    if (next < 0) return NULL;
    close(*fd);
    *fd = next;
  }
}

/* The way without files in memory, or without /proc: a file that is gone once it is loaded. */
static rp_status open_file(const rp_image *image, void **out) {
  char folder[RP_PATH], path[RP_PATH + 16];
  RP_TRY(folder_make(folder, sizeof folder));
  snprintf(path, sizeof path, "%s/" OBJECT, folder);
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
  rp_status status = fd < 0 ? file_refused(path, "writing") : write_all(fd, image->bytes, image->size, path);
  if (fd >= 0) close(fd);
  if (status == RP_OK && !(*out = dlopen(path, RTLD_NOW | RTLD_LOCAL)))
    status = rp_fail(RP_DEVICE, "loading a program on cpu: %s", dlerror());
  folder_remove(folder);
  return status;
}

rp_status rp_cpu_load(rp_device *dev, const rp_image *image, rp_module **out) {
  (void)dev;
  rp_module *module = rp_alloc(sizeof *module);
  if (!module) return RP_NOMEM;
  module->memory = memory_file(image);
  module->library = module->memory >= 0 ? open_memory(&module->memory) : NULL;
  if (!module->library) {
    if (module->memory >= 0) close(module->memory);
    module->memory = -1;
    rp_status status = open_file(image, &module->library);
    if (status != RP_OK) return rp_free(module), status;
  }
  *out = module;
  return RP_OK;
}

void rp_cpu_unload(rp_device *dev, rp_module *module) {
  (void)dev;
  dlclose(module->library);
  if (module->memory >= 0) close(module->memory);
  rp_free(module);
}

rp_status rp_cpu_function(rp_device *dev, rp_module *module, const char *symbol,
                          const rp_signature *signature, void **out) {
  (void)dev;
  *out = dlsym(module->library, symbol);
  if (*out) return RP_OK;
  return rp_fail(RP_MISSING, "looking for kernel %s on cpu: the program has no symbol %s", signature->name,
                 symbol);
}
