#include "tests/low_communication/lab.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "google/protobuf/text_format.h"
#include "tests/low_communication/lab_shard.h"

struct lab {
  std::unique_ptr<monsoon::LabShard> shard;
};

namespace {

using google::protobuf::TextFormat;

std::string& Error() {
  static thread_local std::string error;
  return error;
}

int Answer(const absl::Status& status) {
  if (status.ok()) {
    return 0;
  }
  Error() = std::string(status.message());
  return -1;
}

template <typename Message>
bool Parse(const char* text, const char* what, Message* message) {
  if (TextFormat::ParseFromString(text, message)) {
    return true;
  }
  Error() = std::string(what) + ": no text format of " + Message::descriptor()->name();
  return false;
}

std::span<const float> In(const lab* lab, const float* floats) {
  return {floats, lab->shard->map().size()};
}

std::span<float> Out(const lab* lab, float* floats) { return {floats, lab->shard->map().size()}; }

}  // namespace

const char* lab_error() { return Error().c_str(); }

uint64_t lab_layout(const char* model, uint64_t* offsets, uint64_t count) {
  monsoon::Model parsed;
  if (!Parse(model, "model", &parsed)) {
    return 0;
  }
  const auto layout = monsoon::ParameterLayout::Create(parsed);
  if (Answer(layout.status()) != 0) {
    return 0;
  }
  for (uint64_t i = 0; i < std::min<uint64_t>(count, layout->tensors().size()); ++i) {
    offsets[i] = layout->tensors()[i].offset;
  }
  return layout->size();
}

lab* lab_create(const char* model, const char* downpour, uint64_t stripe_bytes,
                const float* initial, uint64_t floats) {
  monsoon::LabOptions options;
  options.stripe_bytes = stripe_bytes;
  if (!Parse(model, "model", &options.model) || !Parse(downpour, "downpour", &options.downpour)) {
    return nullptr;
  }
  auto shard = monsoon::LabShard::Create(options, {initial, floats});
  if (Answer(shard.status()) != 0) {
    return nullptr;
  }
  return new lab{*std::move(shard)};
}

void lab_destroy(lab* lab) { delete lab; }

uint32_t lab_fragments(const lab* lab) { return lab->shard->fragments().count(); }
uint64_t lab_stripe_floats(const lab* lab) { return lab->shard->map().stripe_floats(); }
uint32_t lab_stripes(const lab* lab) { return lab->shard->map().stripes(0); }

void lab_fragment_of(const lab* lab, uint32_t* of) {
  for (uint32_t stripe = 0; stripe < lab->shard->map().stripes(0); ++stripe) {
    of[stripe] = lab->shard->fragments().Of(0, stripe);
  }
}

int lab_push(lab* lab, uint32_t worker, const float* difference, float weight, int64_t told[4]) {
  const auto pushed = lab->shard->Push(worker, In(lab, difference), weight);
  if (pushed.ok()) {
    told[0] = pushed->fragment;
    told[1] = static_cast<int64_t>(pushed->stripes);
    told[2] = static_cast<int64_t>(pushed->bytes);
    told[3] = pushed->staleness;
  }
  return Answer(pushed.status());
}

int lab_fetch(lab* lab, uint32_t worker, int fragment, float* out) {
  const auto fetched = lab->shard->Fetch(
      worker, fragment < 0 ? std::nullopt : std::optional(static_cast<uint32_t>(fragment)),
      Out(lab, out));
  return fetched.ok() ? int{*fetched} : Answer(fetched.status());
}

int lab_pass(lab* lab, uint32_t worker) { return Answer(lab->shard->Pass(worker)); }
int lab_read(lab* lab, float* out) { return Answer(lab->shard->Read(Out(lab, out))); }

uint32_t lab_local_steps(lab* lab, uint32_t worker, double step_ms) {
  return lab->shard->LocalSteps(worker, step_ms);
}

void lab_advance(lab* lab, double seconds) { lab->shard->Advance(absl::Seconds(seconds)); }
