// Runs parts of a loop on the threads that oneDNN's primitives run on.
#pragma once

#include <cstddef>

// libgomp's, declared here because clang would bring its own omp.h and with it
// a second runtime.
extern "C" void omp_set_num_threads(int threads);
extern "C" void GOMP_parallel(void (*run)(void*), void* argument, unsigned threads, unsigned flags);
extern "C" int omp_get_thread_num();
extern "C" int omp_get_num_threads();

namespace monsoon::cpu {

// Calls run(part) for each part of [0, parts), each once, on up to as many threads, this one
// among them; returns when all have ended. `run` must not throw.
template <typename Run>
void ForEachPart(size_t parts, const Run& run) {
  if (parts == 1) {
    run(size_t{0});
    return;
  }
  struct Work {
    size_t parts;
    const Run& run;
  } work{parts, run};
  GOMP_parallel(
      [](void* argument) {
        const Work& work = *static_cast<const Work*>(argument);
        // There may be fewer threads than parts.
        const size_t threads = static_cast<size_t>(omp_get_num_threads());
        for (size_t part = static_cast<size_t>(omp_get_thread_num()); part < work.parts;
             part += threads) {
          work.run(part);
        }
      },
      &work, static_cast<unsigned>(parts), 0);
}

}  // namespace monsoon::cpu
