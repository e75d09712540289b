/* launch.c - see launch.h. */
#include "launch.h"

#include <stdio.h>
#include <string.h>

#include "history.h"
#include "mem.h"
#include "record.h"

enum { ARGS = RP_MOST_PARAMETERS };

void rp_formal_text(const rp_signature *signature, size_t index, char *out, size_t room) {
  const rp_formal *f = signature->formals + index;
  snprintf(out, room, "argument %zu (%s%s %s%s)", index + 1, f->pointer && f->constant ? "const " : "",
           rp_type_name(f->type), f->pointer ? "*" : "", f->name);
}

static rp_status bad(const rp_kernel *kernel, size_t index, const char *why) {
  char formal[160];
  rp_formal_text(kernel->signature, index, formal, sizeof formal);
  return rp_fail(RP_ARGUMENT, "launching %s: %s: %s", kernel->signature->name, formal, why);
}

static rp_status check_tensor(const rp_kernel *kernel, size_t index, const rp_tensor *x) {
  const rp_formal *formal = kernel->signature->formals + index;
  if (!formal->pointer) return bad(kernel, index, "expected a number, got a tensor");
  char doing[96];
  snprintf(doing, sizeof doing, "launching %s: argument %zu", kernel->signature->name, index + 1);
  RP_TRY(rp_tensor_usable(x, doing));
  if (rp_tensor_device(x) != kernel->program->device) {
    char why[96];
    snprintf(why, sizeof why, "the tensor is on %s, the kernel on %s", rp_tensor_device(x)->name,
             kernel->program->device->name);
    return bad(kernel, index, why);
  }
  if (!rp_type_takes(formal->type, x->dtype)) {
    char why[96];
    snprintf(why, sizeof why, "a tensor of %s does not fit", rp_dtype_name(x->dtype));
    return bad(kernel, index, why);
  }
  if (formal->type != RP_T_VOID && !rp_tensor_packed(x))
    return bad(kernel, index, "the tensor is a view with gaps or of another order: clone it first");
  return RP_OK;
}

static rp_status check_param(const rp_kernel *kernel, size_t index, const rp_param *param) {
  const rp_formal *formal = kernel->signature->formals + index;
  if (!formal->pointer && rp_type_kind(param->type) == rp_type_kind(formal->type) &&
      rp_type_bytes(param->type) == rp_type_bytes(formal->type))
    return RP_OK;
  char why[96];
  snprintf(why, sizeof why, "a parameter of type %s does not fit", rp_type_name(param->type));
  return bad(kernel, index, why);
}

static rp_status check(const rp_kernel *kernel, const rp_actual *args) {
  size_t count = kernel->signature->count;
  if (count > ARGS)
    return rp_fail(RP_UNSUPPORTED, "launching %s: it has %zu parameters, at most %d are possible",
                   kernel->signature->name, count, ARGS);
  for (size_t i = 0; i < count; i++) {
    if (args[i].tensor) RP_TRY(check_tensor(kernel, i, args[i].tensor));
    if (args[i].param) RP_TRY(check_param(kernel, i, args[i].param));
  }
  return RP_OK;
}

/* Runs it now. */
static rp_status start(const rp_kernel *kernel, const rp_geometry *how, const rp_actual *args) {
  const rp_signature *signature = kernel->signature;
  rp_device *dev = kernel->program->device;
  uintptr_t address[ARGS];
  void *values[ARGS];
  size_t bytes = 0;
  for (size_t i = 0; i < signature->count; i++) {
    const rp_tensor *x = args[i].tensor;
    address[i] = x ? rp_tensor_address(x) : 0;
    bytes += x ? rp_tensor_bytes(x) : 0;
    const void *value = args[i].param ? (const void *)args[i].param->value : (const void *)args[i].scalar;
    values[i] = signature->formals[i].pointer ? (void *)&address[i] : (void *)(uintptr_t)value;
  }
  rp_launch launch = {.function = kernel->function,
                      .signature = signature,
                      .grid = how->grid,
                      .block = how->block,
                      .cluster = how->cluster,
                      .shared = how->shared,
                      .cooperative = how->cooperative,
                      .args = values,
                      .bytes = bytes};
  rp_status status = dev->history ? rp_history_launch(dev->history, &launch) : dev->ops->launch(dev, &launch);
  for (size_t i = 0; i < signature->count; i++) /* also when it was broken off: then some bytes are new */
    if (args[i].tensor && !signature->formals[i].constant) rp_tensor_touched(args[i].tensor);
  return status;
}

rp_status rp_launch_kernel(const rp_kernel *kernel, const rp_geometry *how, const rp_actual *args) {
  rp_device *dev = kernel->program->device;
  RP_TRY(rp_device_usable(dev));
  RP_TRY(check(kernel, args));
  return dev->record ? rp_record_launch(dev->record, kernel, how, args) : start(kernel, how, args);
}

rp_status rp_param_new(rp_type type, const void *value, rp_param **out) {
  rp_param *param = rp_alloc_zero(1, sizeof *param);
  if (!param) return RP_NOMEM;
  param->type = type;
  param->count = 1;
  rp_param_set(param, value);
  *out = param;
  return RP_OK;
}

void rp_param_set(rp_param *param, const void *value) {
  memcpy(param->value, value, rp_type_bytes(param->type));
  param->version++;
}

rp_param *rp_param_retain(rp_param *param) {
  param->count++;
  return param;
}

void rp_param_release(rp_param *param) {
  if (param && --param->count == 0) rp_free(param);
}
