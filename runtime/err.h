/* err.h - how the core reports failure: a status, and one sentence a thread.
 *
 * The core never prints, exits or jumps. A function that can fail returns rp_status; on failure it has
 * stored a sentence "attempt: object: why" with rp_fail, and has left everything as it was.
 */
#ifndef RP_ERR_H
#define RP_ERR_H

#define RP_STATUSES(X)                          \
  X(RP_OK, "ok")                                \
  X(RP_NOMEM, "out of memory")                  \
  X(RP_ARGUMENT, "wrong argument")              \
  X(RP_CLOSED, "closed")                        \
  X(RP_CAPTURING, "not allowed during capture") \
  X(RP_IO, "input or output failed")            \
  X(RP_FORMAT, "malformed data")                \
  X(RP_COMPILE, "does not compile")             \
  X(RP_DEVICE, "the device refused")            \
  X(RP_MISSING, "not found")                    \
  X(RP_UNSUPPORTED, "not supported")            \
  X(RP_INTERRUPTED, "interrupted")

typedef enum rp_status {
#define RP_STATUS_ENUM(id, text) id,
  RP_STATUSES(RP_STATUS_ENUM)
#undef RP_STATUS_ENUM
} rp_status;

/* Stores the sentence for this thread (any length: a compile log is kept whole) and returns `status`. */
rp_status rp_fail(rp_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Puts "context: " before the stored sentence and returns `status`. */
rp_status rp_fail_in(rp_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
#ifdef __clang_analyzer__ /* it looks at one file at a time, and would take a failure for RP_OK */
#define rp_fail(status, ...) ((rp_fail)(status, __VA_ARGS__), (status))
#define rp_fail_in(status, ...) ((rp_fail_in)(status, __VA_ARGS__), (status))
#endif
const char *rp_message(void); /* the last sentence of this thread; never NULL */
const char *rp_status_text(rp_status status);

#define RP_TRY(call)                      \
  do {                                    \
    rp_status rp_try_ = (call);           \
    if (rp_try_ != RP_OK) return rp_try_; \
  } while (0)

#endif
