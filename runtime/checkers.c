/* checkers.c - what the sanitizers are told in builds that have them (REPRISE_SANITIZE). */
const char *__lsan_default_options(void);
const char *__lsan_default_suppressions(void);

/* The leak check follows thread-local variables, also those of kernels that were unloaded since, and GCC 12's crashes
 * there ("Tracer caught signal 11"). Of ours only the text of a long message is held by a thread-local variable alone
 * (err.c), and a thread's table of such variables by the thread: reports of these at the end are no leaks. The line editor
 * of libedit keeps wide copies of what it read. */
__attribute__((visibility("default"))) const char *__lsan_default_options(void) {
  return "use_tls=0:print_suppressions=0";
}
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void) {
  return "leak:pthread_setspecific\nleak:_dl_resize_dtv\nleak:wcsdup\n";
}
