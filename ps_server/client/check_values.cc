#include "ps_server/client/check_values.h"

#include <cmath>
#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/finite.h"
#include "common/codec/tensor_codec.h"

namespace monsoon {

absl::Status CheckFinite(std::span<const float> values, absl::string_view what) {
  if (const std::optional<uint64_t> index = FirstNonFinite(values)) {
    return absl::InvalidArgumentError(absl::StrCat("the ", what, " at flat index ", *index, " is ",
                                                   values[*index], ", not finite"));
  }
  return absl::OkStatus();
}

absl::Status CheckGradient(const GradientView& gradient, size_t floats, WireFormat format) {
  CHECK(gradient.weight > 0 && std::isfinite(gradient.weight));
  CHECK(gradient.part > 0 && gradient.part <= 1);
  if (gradient.encoded.empty()) {
    CHECK_EQ(gradient.floats.size(), floats);
    return CheckFinite(gradient.floats, "gradient");
  }
  const std::optional<uint64_t> index = TensorCodec::Find(format)->FirstNonFinite(gradient.encoded);
  return !index.has_value() ? absl::OkStatus()
                            : absl::InvalidArgumentError(absl::StrCat("the gradient at flat index ",
                                                                      *index, " is not finite"));
}

std::vector<uint64_t> HeldEpochs(const ParameterClientOptions& options) {
  return options.read_only || options.keep_bytes > 0 ? options.shard_epochs
                                                     : std::vector<uint64_t>();
}

absl::Status CheckOptions(const ParameterClientOptions& options) {
  if (options.map.size() == 0) {
    return absl::InvalidArgumentError("the parameter client needs a shard map");
  }
  if (options.addresses.size() != options.map.shards()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.addresses.size(), " addresses for ", options.map.shards(), " shards"));
  }
  if (options.connections == 0) {
    return absl::InvalidArgumentError("the parameter client needs a connection to each shard");
  }
  const bool named = !options.read_only || !options.shard_epochs.empty();
  if (named && options.shard_epochs.size() != options.map.shards()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.shard_epochs.size(), " epochs for ", options.map.shards(), " shards"));
  }
  if (!options.tables.empty() &&
      (options.rounds || !(options.fragments.empty() || options.fragments.whole()))) {
    return absl::InvalidArgumentError("rows of tables are pushed without rounds and fragments");
  }
  if (options.halves && (options.fetch_changes != FLOAT32 || options.map.size() % 2 != 0 ||
                         (options.fetch_format != BFLOAT16 && !options.read_only))) {
    return absl::InvalidArgumentError(
        "parameters can be given as BFLOAT16 where they are fetched so, and whole");
  }
  if (!TensorCodec::CarriesParameters(options.fetch_format)) {
    return absl::InvalidArgumentError(
        absl::StrCat("parameters cannot be fetched in format ", options.fetch_format));
  }
  return absl::OkStatus();
}

}  // namespace monsoon
