#include "worker/backend/cpu/context.h"

#include <algorithm>

#include "common/base/check.h"

namespace monsoon::cpu {

using dnnl::memory;

namespace {

constexpr int kScratchpad = -1;  // beside Context::Kind

memory::dims ImageDims(size_t examples, const Extent& extent) {
  return {static_cast<memory::dim>(examples), static_cast<memory::dim>(extent.channels),
          static_cast<memory::dim>(extent.height), static_cast<memory::dim>(extent.width)};
}

}  // namespace

Context::Context(size_t examples, bool training)
    : engine_(dnnl::engine::kind::cpu, 0),
      stream_(engine_),
      examples_(examples),
      training_(training) {}

memory Context::Allocate(const memory::desc& desc) {
  buffers_.push_back(
      AlignedFloats::NanFilled((desc.get_size() + sizeof(float) - 1) / sizeof(float)));
  // A format with padding of its own promises zero there; the constructor
  // below writes it.
  return memory(desc, engine_, buffers_.back().data());
}

memory Context::Allocate(const memory::desc& desc, Kind kind, int number) {
  if (number == kNoBuffer) {
    return Allocate(desc);
  }
  std::vector<memory>& shared = shared_[{static_cast<int>(kind), number}];
  shared.push_back(memory(desc, engine_, DNNL_MEMORY_NONE));
  return shared.back();
}

memory Context::ShareScratchpad(const memory::desc& desc) {
  std::vector<memory>& shared = shared_[{kScratchpad, 0}];
  shared.push_back(memory(desc, engine_, DNNL_MEMORY_NONE));
  return shared.back();
}

void Context::FinishSharing() {
  for (auto& [place, memories] : shared_) {
    size_t bytes = 0;
    for (const memory& memory : memories) {
      bytes = std::max(bytes, memory.get_desc().get_size());
    }
    buffers_.push_back(AlignedFloats::NanFilled((bytes + sizeof(float) - 1) / sizeof(float)));
    for (memory& memory : memories) {
      memory.set_data_handle(buffers_.back().data());
    }
  }
  shared_.clear();
}

dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

Call::Call(Context& context, const dnnl::primitive& primitive, const memory::desc& scratchpad,
           Arguments arguments)
    : stream_(context.stream()), primitive_(primitive), arguments_(std::move(arguments)) {
  if (scratchpad.get_size() > 0) {
    arguments_.emplace_back(DNNL_ARG_SCRATCHPAD, context.ShareScratchpad(scratchpad));
  }
  for (const auto& [argument, value] : arguments_) {
    raw_.push_back(dnnl_exec_arg_t{argument, value.get()});
  }
}

void Call::Run() const {
  if (stream_ == nullptr) {
    return;
  }
  // The C function: the C++ one builds a map and a vector at each call.
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive_.get(), stream_, static_cast<int>(raw_.size()), raw_.data());
  CHECK_EQ(status, dnnl_success);
}

memory::desc ImageDesc(size_t examples, const Extent& extent) {
  // One plane an image: both orders are the same bytes.
  return extent.channels == 1 ? ChannelsLastDesc(examples, extent)
                              : memory::desc(ImageDims(examples, extent), memory::data_type::f32,
                                             memory::format_tag::nchw);
}

memory::desc ChannelsLastDesc(size_t examples, const Extent& extent) {
  return memory::desc(ImageDims(examples, extent), memory::data_type::f32,
                      memory::format_tag::nhwc);
}

memory::desc MatrixDesc(size_t examples, const Extent& extent) {
  return memory::desc({static_cast<memory::dim>(examples * extent.steps),
                       static_cast<memory::dim>(extent.features())},
                      memory::data_type::f32, memory::format_tag::ab);
}

Call MakeReorder(Context& context, const memory& from, const memory& to) {
  const dnnl::reorder::primitive_desc desc(context.engine(), from.get_desc(), context.engine(),
                                           to.get_desc(), UserScratchpad());
  return Call::Make<dnnl::reorder>(context, desc, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

}  // namespace monsoon::cpu
