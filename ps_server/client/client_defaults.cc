// ParameterClient: what one does that has no more than Fetch, Push and Write.
#include "ps_server/client/parameter_client.h"

namespace monsoon {

std::vector<std::string> ParameterClient::transports() const { return {}; }

bool ParameterClient::FetchMapped(std::span<float>, FetchMarks*, FetchStats*) { return false; }

bool ParameterClient::combines() { return false; }

absl::StatusOr<ParameterClient::PushResult> ParameterClient::PushAndFetch(
    const GradientView& gradient, const FetchMarks& base, std::span<float>, FetchMarks*,
    FetchStats*, bool* fetched) {
  *fetched = false;
  return Push(gradient, base);
}

absl::Status ParameterClient::FetchFragment(uint32_t, std::span<float>, FetchMarks*, FetchStats*) {
  return absl::UnimplementedError("this parameter client has no fragments");
}

absl::Status ParameterClient::FetchRows(std::span<const RowRequest>, FetchStats*) {
  return absl::UnimplementedError("this parameter client has no tables");
}

absl::Status ParameterClient::WriteRows(const RowWrite&, const WriteOptions&) {
  return absl::UnimplementedError("this parameter client has no tables");
}

absl::Status ParameterClient::FetchVector(const std::string&, std::span<float>, FetchStats*) {
  return absl::UnimplementedError("this parameter client has no vectors");
}

absl::Status ParameterClient::Seal(std::span<const float>, uint64_t) {
  return absl::UnimplementedError("this parameter client seals nothing");
}

absl::Status ParameterClient::FetchState(uint32_t, std::span<float>, FetchMarks*, FetchStats*) {
  return absl::UnimplementedError("this parameter client fetches no optimizer's state");
}

absl::Status ParameterClient::WriteState(uint32_t, std::span<const float>, uint64_t, uint64_t) {
  return absl::UnimplementedError("this parameter client writes no optimizer's state");
}

absl::Status ParameterClient::SealState(std::span<const std::span<const float>>, uint64_t) {
  return absl::UnimplementedError("this parameter client seals no optimizer's state");
}

absl::StatusOr<ParameterClient::ContributeResult> ParameterClient::Contribute(
    uint64_t, uint32_t, std::span<const float>) {
  return absl::UnimplementedError("this parameter client takes no contributions");
}

}  // namespace monsoon
