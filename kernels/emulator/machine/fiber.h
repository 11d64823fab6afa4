// Fibers: functions with stacks of their own, which a scheduler resumes and which suspend themselves.
// Every lane of a block is one. swapcontext would do, but makes a system call at each switch.
#pragma once
#include <sys/mman.h>
#include <ucontext.h>

#include <cstddef>
#include <new>

namespace lscd::simt {

#ifdef __x86_64__

// Pushes the registers that a callee preserves, leaves the stack pointer in *from, goes on at `to`.
// noipa: callers must take it for a function that may change anything.
[[gnu::naked, gnu::noinline, gnu::noipa]] inline void switch_stack(void** /*from*/, void* /*to*/) {
    asm("pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15\n"
        "movq %rsp, (%rdi); movq %rsi, %rsp\n"
        "popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp; ret");
}

class Fiber {
    void *own = nullptr, *scheduler = nullptr;  // stack pointers of the side that does not run

  public:
    void start(char* stack, size_t bytes, void (*entry)()) {
        auto* top = reinterpret_cast<void**>(stack + bytes);
        top[-1] = nullptr;  // where entry would return to: it never does
        top[-2] = reinterpret_cast<void*>(entry);
        own = top - 2 - 6;  // six registers, of any value
    }
    void resume() { switch_stack(&scheduler, own); }
    void suspend() { switch_stack(&own, scheduler); }
};

#else

class Fiber {
    ucontext_t own, scheduler;

  public:
    void start(char* stack, size_t bytes, void (*entry)()) {
        getcontext(&own);
        own.uc_stack.ss_sp = stack, own.uc_stack.ss_size = bytes, own.uc_link = nullptr;
        makecontext(&own, entry, 0);
    }
    void resume() { swapcontext(&scheduler, &own); }
    void suspend() { swapcontext(&own, &scheduler); }
};

#endif

// Stacks of `count` fibers. A guard page below each turns an overflow into a crash at its place.
class Stacks {
    static constexpr size_t GUARD = 1 << 16, BYTES = 1 << 17;
    char* memory;
    size_t count;

  public:
    explicit Stacks(size_t count) : count(count) {
        void* mapped = mmap(nullptr, count * (GUARD + BYTES), PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapped == MAP_FAILED) throw std::bad_alloc();
        memory = static_cast<char*>(mapped);
        for (size_t i = 0; i < count; i++)
            if (mprotect(stack(i), BYTES, PROT_READ | PROT_WRITE)) throw std::bad_alloc();
    }
    Stacks(const Stacks&) = delete;
    ~Stacks() { munmap(memory, count * (GUARD + BYTES)); }
    char* stack(size_t i) const { return memory + i * (GUARD + BYTES) + GUARD; }
    static constexpr size_t bytes() { return BYTES; }
};

}  // namespace lscd::simt
