/* cpu_switch.h - from one stack to another: the registers that a call must keep are pushed, the stack pointer changes
 * hands, and what lies on top of the other stack is popped.
 *
 *   switched stack, x86-64:  sp -> | r15 r14 r13 r12 rbx rbp | where to go on |
 *
 * Assembly for x86-64 and aarch64; elsewhere, or with RP_UCONTEXT, makecontext and its system calls. A signal handler
 * can leave a stack for good: rp_context_land makes it return into a stack that was switched away from. For
 * cpu_coroutine.c alone.
 */
#ifndef RP_CPU_SWITCH_H
#define RP_CPU_SWITCH_H

#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#if defined __x86_64__ && !defined RP_UCONTEXT

typedef struct rp_context {
  void **sp;
} rp_context;

/* Saves the present stack in *from and goes on where *to was saved. */
void rp_context_switch(rp_context *from, const rp_context *to);
void rp_context_pop(void); /* its second half; never called */

__asm__(".text\n"
        ".hidden rp_context_switch, rp_context_pop\n"
        ".globl rp_context_switch, rp_context_pop\n"
        ".type rp_context_switch, @function\n"
        ".type rp_context_pop, @function\n"
        "rp_context_switch:\n"
        "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
        "  mov %rsp, (%rdi)\n"
        "  mov (%rsi), %rsp\n"
        "rp_context_pop:\n"
        "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n"
        "  ret\n"
        ".size rp_context_pop, . - rp_context_pop\n"
        ".size rp_context_switch, . - rp_context_switch\n");

/* A stack whose first switch calls entry, which never returns. */
static inline void rp_context_make(rp_context *c, char *low, size_t bytes, void (*entry)(void)) {
  c->sp = (void **)((uintptr_t)(low + bytes) & ~(uintptr_t)15) - 2 - 6;
  memset(c->sp, 0, 8 * sizeof *c->sp);
  memcpy(c->sp + 6, &entry, sizeof entry);
}

static inline void rp_context_land(const rp_context *to, ucontext_t *at) {
  at->uc_mcontext.gregs[REG_RSP] = (greg_t)to->sp;
  at->uc_mcontext.gregs[REG_RIP] = (greg_t)rp_context_pop;
}

#elif defined __aarch64__ && !defined RP_UCONTEXT

typedef struct rp_context {
  void *sp;
} rp_context;

void rp_context_switch(rp_context *from, const rp_context *to);
void rp_context_pop(void);

__asm__(".text\n"
        ".hidden rp_context_switch, rp_context_pop\n"
        ".globl rp_context_switch, rp_context_pop\n"
        ".type rp_context_switch, %function\n"
        ".type rp_context_pop, %function\n"
        "rp_context_switch:\n"
        "  sub sp, sp, #160\n"
        "  stp x19, x20, [sp]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
        "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
        "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n"
        "  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
        "  mov x9, sp\n  str x9, [x0]\n"
        "  ldr x9, [x1]\n  mov sp, x9\n"
        "rp_context_pop:\n"
        "  ldp x19, x20, [sp]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n"
        "  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
        "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n"
        "  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
        "  add sp, sp, #160\n"
        "  ret\n"
        ".size rp_context_pop, . - rp_context_pop\n"
        ".size rp_context_switch, . - rp_context_switch\n");

static inline void rp_context_make(rp_context *c, char *low, size_t bytes, void (*entry)(void)) {
  char *sp = (char *)((uintptr_t)(low + bytes) & ~(uintptr_t)15) - 160;
  memset(sp, 0, 160);
  memcpy(sp + 88, &entry, sizeof entry); /* x30 */
  c->sp = sp;
}

static inline void rp_context_land(const rp_context *to, ucontext_t *at) {
  at->uc_mcontext.sp = (uintptr_t)to->sp;
  at->uc_mcontext.pc = (uintptr_t)rp_context_pop;
}

#else

typedef struct rp_context {
  ucontext_t whole;
} rp_context;

static inline void rp_context_switch(rp_context *from, const rp_context *to) {
  swapcontext(&from->whole, &to->whole);
}

static inline void rp_context_make(rp_context *c, char *low, size_t bytes, void (*entry)(void)) {
  getcontext(&c->whole);
  c->whole.uc_stack.ss_sp = low;
  c->whole.uc_stack.ss_size = bytes;
  c->whole.uc_link = NULL;
  makecontext(&c->whole, entry, 0);
}

/* Restores the signal mask of the stack, too. */
static inline void rp_context_land(const rp_context *to, ucontext_t *at) {
  (void)at;
  setcontext(&to->whole);
}

#endif
#endif
