/* program.c - from a source to kernels that can be launched: read, check, resolve, scan, compile or find,
 * load. */
#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache.h"
#include "include.h"
#include "mem.h"

/* ---- Defines */

static const char keywords[] = /* C++17's, and what the preprocessor keeps; a space round each */
    " alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class "
    "compl const "
    "const_cast constexpr continue decltype default defined delete do double dynamic_cast else enum explicit "
    "export "
    "extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr "
    "operator "
    "or or_eq private protected public register reinterpret_cast return short signed sizeof static "
    "static_assert "
    "static_cast struct switch template this thread_local throw true try typedef typeid typename union "
    "unsigned using "
    "virtual void volatile wchar_t while xor xor_eq __VA_ARGS__ __has_include __cplusplus __FILE__ __LINE__ ";

static bool is_keyword(const char *name) {
  char padded[64];
  int length = snprintf(padded, sizeof padded, " %s ", name);
  return length < (int)sizeof padded && strstr(keywords, padded);
}

static bool is_identifier(const char *name) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  return *name && !(*name >= '0' && *name <= '9') && strspn(name, letters) == strlen(name);
}

/* A value must stay inside its line of the text that compilers see. */
static const char *value_fault(const char *value) {
  if (strpbrk(value, "\n\r")) return "its value holds the end of a line";
  if (strstr(value, "/*")) return "its value opens a comment";
  size_t length = strlen(value);
  return length && value[length - 1] == '\\' ? "its value ends with a backslash" : NULL;
}

static rp_status check_define(const char *name, const rp_define *define) {
  if (!define->name || !is_identifier(define->name))
    return rp_fail(RP_ARGUMENT, "compiling %s: define \"%s\": the name is no identifier", name,
                   define->name ? define->name : "");
  if (is_keyword(define->name))
    return rp_fail(RP_ARGUMENT, "compiling %s: define %s: the name is a keyword", name, define->name);
  const char *fault = value_fault(define->value ? define->value : "");
  return fault ? rp_fail(RP_ARGUMENT, "compiling %s: define %s: %s", name, define->name, fault) : RP_OK;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const rp_define *)a)->name, ((const rp_define *)b)->name);
}

/* The defines in order of their names, which are unique: the caller's order (a Lua table has none) changes
 * no key. */
static rp_status sort_defines(const char *name, const rp_program_spec *spec, rp_define **out) {
  for (size_t i = 0; i < spec->define_count; i++) RP_TRY(check_define(name, &spec->defines[i]));
  rp_define *list = rp_alloc_zero(spec->define_count, sizeof *list);
  if (!list) return RP_NOMEM;
  for (size_t i = 0; i < spec->define_count; i++)
    list[i] = (rp_define){spec->defines[i].name, spec->defines[i].value ? spec->defines[i].value : ""};
  if (spec->define_count) qsort(list, spec->define_count, sizeof *list, by_name);
  for (size_t i = 1; i < spec->define_count; i++) {
    if (strcmp(list[i - 1].name, list[i].name) != 0) continue;
    rp_status status = rp_fail(RP_ARGUMENT, "compiling %s: define %s: given twice", name, list[i].name);
    rp_free(list);
    return status;
  }
  *out = list;
  return RP_OK;
}

/* ---- Sources */

typedef struct unit { /* a source with all it needs, before it is compiled */
  const char *name;   /* borrowed from the spec */
  char *text;         /* owned if it came from a file, else NULL */
  rp_define *defines;
  rp_includes includes;
  rp_signature *kernels; /* moves to the program */
  size_t kernel_count;
  rp_source source; /* points to the rest */
} unit;

static void unit_free(unit *u) {
  rp_signatures_free(u->kernels, u->kernel_count);
  rp_includes_free(&u->includes);
  rp_free(u->defines);
  rp_free(u->text);
}

static bool any_global(const unit *u) {
  for (size_t i = 0; i < u->kernel_count; i++)
    if (u->kernels[i].global) return true;
  return false;
}

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text), most = strlen(end);
  return length >= most && strcmp(text + length - most, end) == 0;
}

/* Whoever writes KERNEL means prelude.cuh, or defines it. */
static rp_status check_kernel_word(const unit *u, const char *text) {
  static const char word[] = "define KERNEL";
  const rp_signature *first = NULL;
  for (size_t i = 0; i < u->kernel_count && !first; i++)
    if (u->kernels[i].kernel) first = &u->kernels[i];
  bool known = !first || strstr(text, word);
  for (size_t i = 0; i < u->includes.count && !known; i++) {
    const rp_header *header = &u->includes.headers[i];
    known = ends_with(header->name, "prelude.cuh") || strstr(header->text, word);
  }
  if (known) return RP_OK;
  return rp_fail(RP_FORMAT, "%s:%d: kernel %s: KERNEL is a word of prelude.cuh: begin the source with %s",
                 u->name, first->line, first->name, "#include \"prelude.cuh\"");
}

static rp_status unit_scan(unit *u, const char *cuda_folder, bool simt, const rp_program_spec *spec,
                           const char *text) {
  RP_TRY(sort_defines(u->name, spec, &u->defines));
  RP_TRY(rp_includes_find(spec->file, u->name, text, &u->includes));
  RP_TRY(rp_signatures_scan(u->name, text, u->defines, spec->define_count, &u->kernels, &u->kernel_count));
  if (u->kernel_count == 0)
    return rp_fail(RP_FORMAT,
                   "compiling %s: it defines no kernel: expected `KERNEL void name(...) { ... }` or "
                   "`__global__ void name(...) { ... }`",
                   u->name);
  RP_TRY(check_kernel_word(u, text));
  for (size_t i = 0; i < u->kernel_count && simt; i++) u->kernels[i].global = true;
  if (cuda_folder && any_global(u)) RP_TRY(rp_includes_cuda(cuda_folder, text, &u->includes));
  u->source =
      (rp_source){u->name,           text,       u->defines,     spec->define_count, u->includes.headers,
                  u->includes.count, u->kernels, u->kernel_count};
  return RP_OK;
}

/* On failure nothing is left to free. */
static rp_status unit_open(unit *u, const char *cuda_folder, bool simt, const rp_program_spec *spec) {
  if (!spec->file == !spec->text)
    return rp_fail(RP_ARGUMENT, "compiling: expected either a file or a source text");
  *u = (unit){.name = spec->file ? spec->file : spec->name ? spec->name : "source"};
  if (spec->file) RP_TRY(rp_text_read(spec->file, &u->text));
  rp_status status = unit_scan(u, cuda_folder, simt, spec, spec->file ? u->text : spec->text);
  if (status != RP_OK) unit_free(u);
  return status;
}

/* ---- Programs */

static void program_free(rp_program *prog) {
  rp_device *dev = prog->device;
  if (prog->module) dev->ops->unload(dev, prog->module);
  rp_signatures_free(prog->signatures, prog->kernel_count);
  rp_free(prog->kernels);
  rp_free(prog->name);
  rp_free(prog);
  rp_device_release(dev);
}

/* A program without a module; takes the unit's signatures. */
static rp_status program_new(rp_device *dev, unit *u, rp_program **out) {
  rp_program *prog = rp_alloc_zero(1, sizeof *prog);
  if (!prog) return RP_NOMEM;
  *prog = (rp_program){.device = rp_device_retain(dev),
                       .count = 1,
                       .signatures = u->kernels,
                       .kernel_count = u->kernel_count,
                       .name = rp_copy_text(u->name)};
  u->kernels = NULL;
  u->kernel_count = 0;
  prog->kernels = prog->name ? rp_alloc_zero(prog->kernel_count, sizeof *prog->kernels) : NULL;
  if (prog->kernels) return *out = prog, RP_OK;
  program_free(prog);
  return RP_NOMEM;
}

static rp_status load(rp_program *prog, const rp_image *image) {
  rp_device *dev = prog->device;
  RP_TRY(dev->ops->load(dev, image, &prog->module));
  for (size_t i = 0; i < prog->kernel_count; i++) {
    rp_kernel *kernel = &prog->kernels[i];
    *kernel = (rp_kernel){.program = prog, .signature = &prog->signatures[i]};
    RP_TRY(dev->ops->function(dev, prog->module, image->symbols[i], kernel->signature, &kernel->function));
  }
  return RP_OK;
}

static rp_status build(rp_device *dev, unit *u, rp_program **out) {
  rp_image image;
  rp_program *prog = NULL;
  RP_TRY(rp_cache_get(dev->ops, dev->arch, &u->source, &image));
  rp_status status = program_new(dev, u, &prog);
  if (status == RP_OK) status = load(prog, &image);
  rp_image_free(&image);
  if (status == RP_OK) *out = prog;
  else if (prog) program_free(prog);
  return status;
}

static rp_status unit_for(unit *u, const rp_device *dev, const rp_program_spec *spec) {
  const char *cuda_folder = dev->ops->cuda_folder; /* of a CPU, which may play a GPU */
  return unit_open(u, cuda_folder, cuda_folder && dev->simt, spec);
}

rp_status rp_program_warm(rp_device *dev, const rp_program_spec *spec) {
  unit u;
  rp_image image;
  RP_TRY(unit_for(&u, dev, spec));
  rp_status status = rp_cache_get(dev->ops, dev->arch, &u.source, &image);
  if (status == RP_OK) rp_image_free(&image);
  unit_free(&u);
  return status;
}

bool rp_program_ready(rp_device *dev, const rp_program_spec *spec) {
  unit u;
  if (unit_for(&u, dev, spec) != RP_OK) return false;
  bool ready = rp_cache_has(dev->ops, dev->arch, &u.source);
  unit_free(&u);
  return ready;
}

rp_status rp_program_compile(rp_device *dev, const rp_program_spec *spec, rp_program **out) {
  unit u;
  RP_TRY(rp_device_usable(dev));
  RP_TRY(unit_for(&u, dev, spec));
  rp_status status = build(dev, &u, out);
  unit_free(&u);
  return status;
}

rp_status rp_program_build(const char *kind, const char *arch, const rp_program_spec *spec,
                           const char *folder) {
  unit u;
  const rp_device_ops *ops = rp_device_kind(kind);
  if (!ops)
    return rp_fail(RP_UNSUPPORTED, "building kernels: this program knows no device of kind \"%s\"", kind);
  RP_TRY(unit_open(&u, ops->cuda_folder, false, spec));
  rp_status status = rp_cache_build(folder, ops, arch, &u.source);
  unit_free(&u);
  return status;
}

rp_program *rp_program_retain(rp_program *prog) {
  prog->count++;
  return prog;
}

void rp_program_release(rp_program *prog) {
  if (prog && --prog->count == 0) program_free(prog);
}

const rp_kernel *rp_program_kernel(const rp_program *prog, const char *name) {
  for (size_t i = 0; i < prog->kernel_count; i++)
    if (strcmp(prog->signatures[i].name, name) == 0) return &prog->kernels[i];
  return NULL;
}
