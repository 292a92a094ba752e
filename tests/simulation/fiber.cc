#include "tests/simulation/fiber.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "common/base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#define MONSOON_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MONSOON_ASAN 1
#endif
#endif

#ifdef MONSOON_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace monsoon::simulation {

FiberStacks::~FiberStacks() {
  CHECK_EQ(free_.size(), all_.size());
  for (std::byte* const stack : all_) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    munmap(stack - page, kStackBytes + page);
  }
}

std::byte* FiberStacks::Take() {
  if (free_.empty()) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    void* const memory = mmap(nullptr, kStackBytes + page, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED);
    CHECK_EQ(mprotect(memory, page, PROT_NONE), 0);
    all_.push_back(static_cast<std::byte*>(memory) + page);
    free_.push_back(all_.back());
  }
  std::byte* const stack = free_.back();
  free_.pop_back();
#ifdef MONSOON_ASAN
  ASAN_UNPOISON_MEMORY_REGION(stack, kStackBytes);  // of frames that never returned
#endif
  return stack;
}

struct Fiber::Context {
  ucontext_t inside;
  ucontext_t outside;
#ifdef MONSOON_ASAN
  void* inside_stack = nullptr;  // AddressSanitizer's
  void* outside_stack = nullptr;
  const void* outside_bottom = nullptr;
  size_t outside_size = 0;
#endif
};

Fiber::Fiber(FiberStacks* stacks, std::function<void()> body)
    : stacks_(stacks),
      body_(std::move(body)),
      stack_(stacks->Take()),
      context_(std::make_unique<Context>()) {
  CHECK_EQ(getcontext(&context_->inside), 0);
  context_->inside.uc_stack.ss_sp = stack_;
  context_->inside.uc_stack.ss_size = FiberStacks::kStackBytes;
  context_->inside.uc_link = nullptr;
  const auto address = reinterpret_cast<uint64_t>(this);
  makecontext(&context_->inside, reinterpret_cast<void (*)()>(&Fiber::Enter), 2,
              static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
}

Fiber::~Fiber() {
  CHECK(done_ || !began_);
  stacks_->Return(stack_);
}

void Fiber::Resume() {
  CHECK(!done_);
  began_ = true;
  SwitchIn();
}

void Fiber::Yield() { SwitchOut(/*for_good=*/false); }

void Fiber::Enter(unsigned high, unsigned low) {
  reinterpret_cast<Fiber*>((static_cast<uint64_t>(high) << 32) | low)->Run();
}

void Fiber::Run() {
#ifdef MONSOON_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &context_->outside_bottom, &context_->outside_size);
#endif
  body_();
  body_ = nullptr;
  done_ = true;
  SwitchOut(/*for_good=*/true);
}

void Fiber::SwitchIn() {
#ifdef MONSOON_ASAN
  __sanitizer_start_switch_fiber(&context_->outside_stack, stack_, FiberStacks::kStackBytes);
#endif
  CHECK_EQ(swapcontext(&context_->outside, &context_->inside), 0);
#ifdef MONSOON_ASAN
  __sanitizer_finish_switch_fiber(context_->outside_stack, nullptr, nullptr);
#endif
}

void Fiber::SwitchOut([[maybe_unused]] bool for_good) {
#ifdef MONSOON_ASAN
  __sanitizer_start_switch_fiber(for_good ? nullptr : &context_->inside_stack,
                                 context_->outside_bottom, context_->outside_size);
#endif
  CHECK_EQ(swapcontext(&context_->inside, &context_->outside), 0);
#ifdef MONSOON_ASAN
  __sanitizer_finish_switch_fiber(context_->inside_stack, &context_->outside_bottom,
                                  &context_->outside_size);
#endif
}

}  // namespace monsoon::simulation
