// Fibers: functions with stacks of their own, which a scheduler resumes and which suspend themselves.
// Every lane of a block is one. swapcontext would do, but makes a system call at each switch.
#pragma once
#include <sys/mman.h>
#include <ucontext.h>

#include <cstddef>
#include <new>

namespace lscd::simt {

// The stack of a fiber. A guard page below it turns an overflow into a crash at its place.
struct Stack {
    static constexpr size_t GUARD = 1 << 16, BYTES = 1 << 17;
    char* begin;

    Stack() {
        void* mapped = mmap(nullptr, GUARD + BYTES, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        begin = static_cast<char*>(mapped) + GUARD;
        if (mapped == MAP_FAILED || mprotect(begin, BYTES, PROT_READ | PROT_WRITE))
            throw std::bad_alloc();
    }
    Stack(const Stack&) = delete;
    ~Stack() { munmap(begin - GUARD, GUARD + BYTES); }
};

#ifdef __x86_64__

using Context = void*;  // the stack pointer of a side that does not run

// Pushes the registers that a callee preserves, leaves the stack pointer in *from, goes on at *to.
// noipa: callers must take it for a function that may change anything.
[[gnu::naked, gnu::noinline, gnu::noipa]] inline void switch_context(Context* /*from*/,
                                                                     Context* /*to*/) {
    asm("pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15\n"
        "movq %rsp, (%rdi); movq (%rsi), %rsp\n"
        "popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp; ret");
}

inline void start_context(Context& own, const Stack& stack, void (*entry)()) {
    auto* top = reinterpret_cast<void**>(stack.begin + Stack::BYTES);
    top[-1] = nullptr;  // where entry would return to: it never does
    top[-2] = reinterpret_cast<void*>(entry);
    own = top - 2 - 6;  // six registers, of any value
}

#else

using Context = ucontext_t;

inline void switch_context(Context* from, Context* to) { swapcontext(from, to); }

inline void start_context(Context& own, const Stack& stack, void (*entry)()) {
    getcontext(&own);
    own.uc_stack.ss_sp = stack.begin, own.uc_stack.ss_size = Stack::BYTES, own.uc_link = nullptr;
    makecontext(&own, entry, 0);
}

#endif

class Fiber {
    Context own, scheduler;

  public:
    void start(const Stack& stack, void (*entry)()) { start_context(own, stack, entry); }
    void resume() { switch_context(&scheduler, &own); }
    void suspend() { switch_context(&own, &scheduler); }
};

}  // namespace lscd::simt
