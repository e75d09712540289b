/* early.c - see early.h. */
#include "early.h"

#include "mem.h"

/* Bytes of scratch are reused, so its values are never safe; outside blocks and slots are told apart by value. */
static bool safe(const rp_record *rec, const bool *written, const rp_arg *arg) {
  return arg->value == RP_NONE || (rec->values[arg->value].place != RP_IN_SCRATCH && !written[arg->value]);
}

static bool may_begin(const rp_record *rec, const bool *written, const rp_node *node) {
  const rp_signature *signature = node->kernel->signature;
  bool may = signature->waits && !node->cooperative;
  for (size_t i = 0; may && i < signature->count; i++)
    if (signature->formals[i].early) may = safe(rec, written, rec->args + node->first_arg + i);
  return may;
}

static void note_writes(const rp_record *rec, bool *written, const rp_node *node) {
  for (size_t i = 0; i < node->kernel->signature->count; i++) {
    const rp_arg *arg = rec->args + node->first_arg + i;
    if (arg->value != RP_NONE && arg->access & RP_WRITE) written[arg->value] = true;
  }
}

rp_status rp_early_mark(const rp_record *rec, rp_launch *launches) {
  bool *written = rp_alloc_zero(rec->value_count, sizeof *written);
  if (!written) return RP_NOMEM;
  for (size_t n = 0; n < rec->node_count; n++) {
    bool after_cooperative = n > 0 && rec->nodes[n - 1].cooperative;
    launches[n].programmatic = n > 0 && !after_cooperative && may_begin(rec, written, rec->nodes + n);
    note_writes(rec, written, rec->nodes + n);
  }
  rp_free(written);
  return RP_OK;
}
