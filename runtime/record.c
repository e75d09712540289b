/* record.c - see record.h. */
#include "record.h"

#include <string.h>

#include "mem.h"

rp_status rp_record_open(rp_pool *pool, rp_record **out) {
  rp_device *dev = pool->device;
  RP_TRY(rp_device_usable(dev));
  if (dev->record) return rp_fail(RP_CAPTURING, "capturing on %s: another capture is open", dev->name);
  rp_record *rec = rp_alloc_zero(1, sizeof *rec);
  if (!rec) return RP_NOMEM;
  rec->pool = rp_pool_retain(pool);
  dev->record = rec;
  *out = rec;
  return RP_OK;
}

void rp_record_close(rp_record *rec) {
  rp_device *dev = rec->pool->device;
  if (dev->record != rec) return;
  dev->record = NULL;
  for (size_t i = 0; i < rec->value_count; i++)
    if (rec->values[i].place != RP_IN_BLOCK) rec->values[i].block->state = RP_GONE;
}

void rp_record_free(rp_record *rec) {
  if (!rec) return;
  rp_record_close(rec);
  for (size_t i = 0; i < rec->value_count; i++) rp_block_release(rec->values[i].block);
  for (size_t i = 0; i < rec->arg_count; i++) rp_param_release(rec->args[i].param);
  for (size_t i = 0; i < rec->node_count; i++) {
    rp_program_release(rec->nodes[i].kernel->program);
    rp_free(rec->nodes[i].where);
  }
  for (size_t i = 0; i < rec->output_count; i++) rp_tensor_close(&rec->outputs[i].tensor);
  rp_free(rec->inputs);
  rp_free(rec->outputs);
  rp_free(rec->values);
  rp_free(rec->args);
  rp_free(rec->nodes);
  rp_pool_release(rec->pool);
  rp_free(rec);
}

/* ---- values */

/* A new value; takes the caller's count on `value.block`. */
static rp_status add_value(rp_record *rec, rp_value value, uint32_t *out) {
  if (!rp_grow(&rec->values, &rec->value_room, rec->value_count + 1, sizeof *rec->values)) return RP_NOMEM;
  value.first = value.last = RP_NONE;
  *out = (uint32_t)rec->value_count;
  rec->values[rec->value_count++] = value;
  return RP_OK;
}

static rp_status promise(rp_record *rec, rp_pool *pool, rp_value value, rp_block **out) {
  rp_block *block;
  uint32_t index;
  RP_TRY(rp_pool_promise(pool, value.bytes, (uint32_t)rec->value_count, &block));
  value.block = block;
  rp_status status = add_value(rec, value, &index);
  if (status != RP_OK) return rp_block_release(block), status;
  *out = rp_block_retain(block);
  return RP_OK;
}

rp_status rp_record_input(rp_record *rec, const rp_tensor *like, rp_tensor *out) {
  rp_tensor x = {.dtype = like->dtype, .rank = like->rank};
  memcpy(x.shape, like->shape, sizeof x.shape);
  int64_t step = 1;
  for (int d = x.rank; d-- > 0;) x.stride[d] = step, step *= x.shape[d];
  rp_value value = {.place = RP_IN_SLOT,
                    .input = (uint32_t)rec->input_count,
                    .bytes = rp_tensor_bytes(&x),
                    .written = true};
  if (!rp_grow(&rec->inputs, &rec->input_room, rec->input_count + 1, sizeof *rec->inputs)) return RP_NOMEM;
  RP_TRY(promise(rec, rec->pool, value, &x.block));
  rec->inputs[rec->input_count] = x;
  rec->inputs[rec->input_count++].block = NULL;
  *out = x;
  return RP_OK;
}

rp_status rp_record_temporary(rp_record *rec, rp_pool *pool, size_t bytes, rp_block **out) {
  (void)pool; /* a temporary lies in the scratch zone of the pool that captures, whichever was asked */
  return promise(rec, rec->pool, (rp_value){.place = RP_IN_SCRATCH, .bytes = bytes}, out);
}

/* The value that stands for an outside block; made when it is met first. */
static rp_status outside(rp_record *rec, rp_block *block, uint32_t *out) {
  if (block->base)
    block = block->base; /* private memory of another graph: the place, not one replay's handle */
  if (block->zone == RP_SCRATCH)
    return rp_fail(RP_CAPTURING,
                   "capturing: an output of another graph is used as an outside tensor: pass it as an input, "
                   "clone it before, or capture that graph with outputs = \"own\"");
  for (size_t i = rec->value_count; i-- > 0;)
    if (rec->values[i].block == block) return *out = (uint32_t)i, RP_OK;
  rp_status status = add_value(
      rec, (rp_value){.place = RP_IN_BLOCK, .bytes = block->bytes, .written = true, .block = block}, out);
  if (status == RP_OK) rp_block_retain(block);
  return status;
}

static rp_status value_of(rp_record *rec, const rp_tensor *x, uint32_t *out) {
  if (x->block->state == RP_LIVE) return outside(rec, x->block, out);
  return *out = x->block->value, RP_OK;
}

/* ---- launches */

static rp_status allowed(const rp_record *rec, const rp_kernel *kernel, size_t index, const rp_arg *arg) {
  const rp_value *value = rec->values + arg->value;
  char formal[160];
  rp_formal_text(kernel->signature, index, formal, sizeof formal);
  if (value->place == RP_IN_SLOT && arg->access & RP_WRITE)
    return rp_fail(RP_CAPTURING,
                   "capturing %s: %s would write input %u: not allowed during capture; state that changes is "
                   "a tensor from outside",
                   kernel->signature->name, formal, value->input + 1);
  if (value->place == RP_IN_SCRATCH && !value->written && arg->access == RP_READ)
    return rp_fail(RP_CAPTURING, "capturing %s: %s is a temporary that nothing has written yet",
                   kernel->signature->name, formal);
  return RP_OK;
}

static rp_status make_arg(rp_record *rec, const rp_kernel *kernel, size_t index, const rp_actual *actual,
                          rp_arg *out) {
  const rp_formal *formal = kernel->signature->formals + index;
  *out = (rp_arg){.kind = formal->pointer ? RP_POINTER
                          : actual->param ? RP_PARAM
                                          : RP_SCALAR,
                  .value = RP_NONE,
                  .param = actual->param};
  memcpy(out->scalar, actual->scalar, sizeof out->scalar);
  if (!actual->tensor) return RP_OK;
  out->access = formal->constant ? RP_READ : RP_UPDATE;
  rp_tensor_span(actual->tensor, &out->from, &out->to);
  RP_TRY(value_of(rec, actual->tensor, &out->value));
  return allowed(rec, kernel, index, out);
}

/* Nothing can fail from here on: the node and its arguments have room. */
static void commit_node(rp_record *rec, const rp_node *node) {
  uint32_t at = (uint32_t)rec->node_count;
  rp_arg *args = rec->args + node->first_arg;
  size_t count = node->kernel->signature->count;
  for (size_t i = 0; i < count; i++) {
    if (args[i].param) rp_param_retain(args[i].param);
    if (args[i].value == RP_NONE) continue;
    rp_value *value = rec->values + args[i].value;
    if (value->first == RP_NONE) value->first = at;
    value->last = at;
    value->changed |= (args[i].access & RP_WRITE) != 0;
    value->written |= value->changed;
  }
  rp_program_retain(node->kernel->program);
  rec->arg_count += count;
  rec->nodes[rec->node_count++] = *node;
}

rp_status rp_record_launch(rp_record *rec, const rp_kernel *kernel, const rp_geometry *how,
                           const rp_actual *args) {
  size_t count = kernel->signature->count;
  rp_launch shape = {.function = kernel->function,
                     .signature = kernel->signature,
                     .grid = how->grid,
                     .block = how->block,
                     .cluster = how->cluster,
                     .shared = how->shared,
                     .cooperative = how->cooperative};
  RP_TRY(rec->pool->device->ops->check(rec->pool->device, &shape));
  if (!rp_grow(&rec->nodes, &rec->node_room, rec->node_count + 1, sizeof *rec->nodes)) return RP_NOMEM;
  if (!rp_grow(&rec->args, &rec->arg_room, rec->arg_count + count, sizeof *rec->args)) return RP_NOMEM;
  for (size_t i = 0; i < count; i++)
    RP_TRY(make_arg(rec, kernel, i, args + i, rec->args + rec->arg_count + i));
  rp_node node = {.kernel = kernel,
                  .grid = how->grid,
                  .block = how->block,
                  .cluster = how->cluster,
                  .shared = how->shared,
                  .cooperative = how->cooperative,
                  .first_arg = (uint32_t)rec->arg_count};
  if (how->where && !(node.where = rp_copy_text(how->where))) return RP_NOMEM;
  commit_node(rec, &node);
  return RP_OK;
}

/* ---- outputs */

static rp_status check_output(const rp_record *rec, const rp_tensor *x) {
  RP_TRY(rp_tensor_usable(x, "returning a tensor from a captured function"));
  const rp_device *mine = rec->pool->device, *its = rp_tensor_device(x);
  return mine == its ? RP_OK
                     : rp_fail(RP_ARGUMENT, "capturing on %s: an output is on %s", mine->name, its->name);
}

static void append_output(rp_record *rec, const rp_tensor *x) {
  rp_output *output = rec->outputs + rec->output_count++;
  *output = (rp_output){.value = RP_NONE, .tensor = *x};
  if (x->block->state == RP_LIVE) {
    rp_block_retain(x->block);
    return;
  }
  output->value = x->block->value;
  output->tensor.block = NULL;
  rec->values[output->value].output = true;
}

rp_status rp_record_output(rp_record *rec, const rp_tensor *x) {
  RP_TRY(check_output(rec, x));
  if (!rp_grow(&rec->outputs, &rec->output_room, rec->output_count + 1, sizeof *rec->outputs))
    return RP_NOMEM;
  if (x->block->state == RP_LIVE) return append_output(rec, x), RP_OK;
  const rp_value *value = rec->values + x->block->value;
  if (!value->written)
    return rp_fail(RP_CAPTURING, "capturing: output %zu was never written", rec->output_count + 1);
  if (value->place != RP_IN_SLOT) return append_output(rec, x), RP_OK;
  rp_tensor copy;
  RP_TRY(rp_tensor_clone(x, &copy));
  append_output(rec, &copy);
  rp_tensor_close(&copy);
  return RP_OK;
}
