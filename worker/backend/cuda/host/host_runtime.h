// The stand-in's stream: what is enqueued runs only when somebody waits for it,
// as late as the rules allow. Work that lacks an event wait therefore reads what
// is not there yet (fresh memory is NaN), and a test sees it.
#pragma once

#include <functional>

#include "worker/backend/cuda/runtime/runtime.h"

namespace monsoon::cuda {

// Adds work to the stand-in's stream, or to the graph being captured.
void EnqueueOnHost(Stream& stream, std::function<void()> work);

// Makes the `calls`-th piece of work from now on fail as a kernel that ran off
// its memory would; 0: none. For tests of what follows an error.
void FailOnHostAfter(int calls);

// Makes the next capture fail, as one does that another call of CUDA broke.
void FailNextCaptureOnHost();

}  // namespace monsoon::cuda
