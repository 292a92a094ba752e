// What the layers of one sequence share: engine, stream, buffers, scratchpad; and
// Call, a primitive with its arguments. All oneDNN types of the CPU backend
// stay in this folder.
//
// dnnl::error is thrown while a sequence is built; CpuNetwork turns it into a
// Status. Thread safety: none.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "common/memory/aligned_floats.h"
#include "oneapi/dnnl/dnnl.hpp"
#include "worker/nn/buffer_plan.h"
#include "worker/nn/network_plan.h"

namespace monsoon::cpu {

class Context {
 public:
  // `training` sequences keep what the backward pass needs.
  Context(size_t examples, bool training);

  const dnnl::engine& engine() const { return engine_; }
  dnnl_stream_t stream() const { return stream_.get(); }
  size_t examples() const { return examples_; }
  bool training() const { return training_; }

  // Memory that lives as long as the context.
  dnnl::memory Allocate(const dnnl::memory::desc& desc);

  // Memory of one buffer for all that ask with this kind and number (BufferPlan), or, for
  // kNoBuffer, of its own. Usable after FinishSharing; the format has no padding.
  enum class Kind { kValue, kDiff };
  dnnl::memory Allocate(const dnnl::memory::desc& desc, Kind kind, int number);

  // The scratchpad is one buffer for all primitives, as they run in turn; usable as above.
  dnnl::memory ShareScratchpad(const dnnl::memory::desc& desc);
  // Sizes are known.
  void FinishSharing();

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  size_t examples_;
  bool training_;
  std::vector<AlignedFloats> buffers_;
  // All that get one buffer, by kind and number.
  std::map<std::pair<int, int>, std::vector<dnnl::memory>> shared_;
};

// Attributes every primitive has: the scratchpad is ours.
dnnl::primitive_attr UserScratchpad();

// A primitive with its arguments, made once, run many times.
class Call {
 public:
  using Arguments = std::vector<std::pair<int, dnnl::memory>>;

  Call() = default;
  Call(Context& context, const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad,
       Arguments arguments);

  // For any oneDNN primitive class P: its descriptor tells the scratchpad.
  template <typename P>
  static Call Make(Context& context, const typename P::primitive_desc& desc, Arguments arguments) {
    return Call(context, P(desc), desc.scratchpad_desc(), std::move(arguments));
  }

  // Nothing for a default-constructed call.
  void Run() const;

 private:
  dnnl_stream_t stream_ = nullptr;
  dnnl::primitive primitive_;
  Arguments arguments_;  // keeps the memories alive
  std::vector<dnnl_exec_arg_t> raw_;
};

// [n, c, h, w], row-major, or in memory as [n, h, w, c]. Equal where there is
// one channel.
dnnl::memory::desc ImageDesc(size_t examples, const Extent& extent);
dnnl::memory::desc ChannelsLastDesc(size_t examples, const Extent& extent);
// [n * steps, features], row-major.
dnnl::memory::desc MatrixDesc(size_t examples, const Extent& extent);

// A copy from one memory into another of the same shape, in any formats.
Call MakeReorder(Context& context, const dnnl::memory& from, const dnnl::memory& to);

}  // namespace monsoon::cpu
