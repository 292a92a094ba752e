#include "ps_server/client/parameter_client.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/finite.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "ps_server/client/answers.h"
#include "ps_server/client/exchange.h"
#include "ps_server/client/fault_transport.h"
#include "ps_server/client/frame_transport.h"
#include "ps_server/client/requests.h"
#include "ps_server/client/transport_choice.h"

namespace monsoon {
namespace {

std::unique_ptr<FrameTransport> AddFaults(const ParameterClientOptions& options,
                                          std::unique_ptr<FrameTransport> transport) {
  return options.fault.enabled()
             ? MakeFaultTransport(std::move(transport), options.fault, Clock::Real())
             : std::move(transport);
}

absl::Status CheckFinite(std::span<const float> values, absl::string_view what) {
  if (const std::optional<uint64_t> index = FirstNonFinite(values)) {
    return absl::InvalidArgumentError(absl::StrCat("the ", what, " at flat index ", *index, " is ",
                                                   values[*index], ", not finite"));
  }
  return absl::OkStatus();
}

class ShardedParameterClient final : public ParameterClient {
 public:
  explicit ShardedParameterClient(ParameterClientOptions options)
      : options_(std::move(options)),
        report_(absl::StrCat("job ", options_.job), options_.map.shards()) {
    std::unique_ptr<ChoosingTransport> transport = MakeTransport();
    // Faults are of frames, so there every fetch is one.
    reader_ = options_.fault.enabled() ? nullptr : transport.get();
    fetch_transport_ = AddFaults(options_, std::move(transport));
    push_transport_ = AddFaults(options_, MakeTransport());
  }

  absl::Status Fetch(std::span<float> parameters, FetchMarks* marks, FetchStats* stats) override {
    return FetchAll(/*vector=*/"", parameters, marks, stats);
  }

  absl::Status FetchVector(const std::string& name, std::span<float> vector,
                           FetchStats* stats) override {
    if (name.empty()) {
      return absl::InvalidArgumentError("a fetch of a vector without a name");
    }
    return FetchAll(name, vector, /*marks=*/nullptr, stats);
  }

  absl::StatusOr<PushResult> Push(std::span<const float> gradient,
                                  const FetchMarks& base) override {
    CHECK_EQ(gradient.size(), options_.map.size());
    CHECK(!options_.read_only);
    RETURN_IF_ERROR(CheckFinite(gradient, "gradient"));
    MutexLock lock(&push_mutex_);
    PushResult result;
    result.sequence = next_sequence_;
    const AnswerHandler handler = [&result](uint32_t, const DataHeader& header,
                                            ChunkCursor*) -> absl::StatusOr<Answer> {
      if (header.has_error()) {
        return ToStatus(header.error(), /*has_session=*/true);
      }
      if (!header.has_push_reply()) {
        return absl::InternalError("the answer to a push is of another kind");
      }
      return TakePushReply(header.push_reply(), result.sequence, &result);
    };
    ExchangeCounts counts;
    const ShardRequests requests =
        MakePushRequests(options_, gradient, base, next_sequence_, &next_push_id_);
    RETURN_IF_ERROR(RunExchange(Context(), requests, push_transport_.get(), handler, &counts));
    ++next_sequence_;
    result.rpcs = counts.frames;
    result.retries = counts.retries;
    result.bytes = counts.bytes;
    return result;
  }

  absl::StatusOr<ContributeResult> Contribute(uint64_t evaluation, uint32_t contribution,
                                              std::span<const float> gradient) override {
    CHECK_EQ(gradient.size(), options_.map.size());
    CHECK(!options_.read_only);
    RETURN_IF_ERROR(CheckFinite(gradient, "gradient"));
    MutexLock lock(&push_mutex_);
    ContributeResult result;
    const AnswerHandler handler = [&result](uint32_t, const DataHeader& header,
                                            ChunkCursor*) -> absl::StatusOr<Answer> {
      if (header.has_error()) {
        return ToStatus(header.error(), /*has_session=*/true);
      }
      if (!header.has_contribute_reply()) {
        return absl::InternalError("the answer to a contribution is of another kind");
      }
      return TakeContributeReply(header.contribute_reply(), &result);
    };
    ExchangeCounts counts;
    const ShardRequests requests =
        MakeContributeRequests(options_, evaluation, contribution, gradient, &next_push_id_);
    RETURN_IF_ERROR(RunExchange(Context(), requests, push_transport_.get(), handler, &counts));
    result.rpcs = counts.frames;
    result.retries = counts.retries;
    result.bytes = counts.bytes;
    return result;
  }

  absl::Status Write(std::span<const float> parameters) override {
    CHECK_EQ(parameters.size(), options_.map.size());
    RETURN_IF_ERROR(CheckFinite(parameters, "parameter"));
    MutexLock lock(&push_mutex_);
    const AnswerHandler handler = [](uint32_t, const DataHeader& header,
                                     ChunkCursor*) -> absl::StatusOr<Answer> {
      if (header.has_error()) {
        return ToStatus(header.error(), /*has_session=*/false);
      }
      if (!header.has_write_reply()) {
        return absl::InternalError("the answer to a write is of another kind");
      }
      return Answer::kDone;
    };
    ExchangeCounts counts;
    return RunExchange(Context(), MakeWriteRequests(options_, parameters, &next_push_id_),
                       push_transport_.get(), handler, &counts);
  }

  std::vector<std::string> transports() const override { return report_.Get(); }

  void Cancel() override { cancelled_ = true; }

 private:
  // Of the parameters if `vector` is empty.
  absl::Status FetchAll(const std::string& vector, std::span<float> parameters, FetchMarks* marks,
                        FetchStats* stats) {
    CHECK_EQ(parameters.size(), options_.map.size());
    FetchMarks fetched;
    for (uint32_t shard = 0; shard < options_.map.shards(); ++shard) {
      fetched.shard.emplace_back(options_.map.stripes(shard));
    }
    ExchangeCounts counts;
    {
      MutexLock lock(&fetch_mutex_);
      const AnswerHandler handler = [&](uint32_t shard, const DataHeader& header,
                                        ChunkCursor* payload) -> absl::StatusOr<Answer> {
        if (header.has_error()) {
          return ToStatus(header.error(), !options_.read_only);
        }
        if (!header.has_fetch_reply()) {
          return absl::InternalError("the answer to a fetch is of another kind");
        }
        return TakeFetchReply(options_.map, shard, header.fetch_reply(), payload, parameters,
                              &fetched.shard[shard]);
      };
      ShardRequests requests;
      for (uint32_t shard = 0; shard < options_.map.shards(); ++shard) {
        const FetchRequest whole = WholeFetch(options_, shard, vector);
        requests.push_back(MakeFetchRequests(
            whole, ReadShared(whole, shard, parameters, &fetched.shard[shard]), &next_fetch_id_));
      }
      RETURN_IF_ERROR(RunExchange(Context(), requests, fetch_transport_.get(), handler, &counts));
    }
    if (stats != nullptr) {
      *stats = {parameters.size_bytes(), counts.frames, counts.retries, FetchWidth(fetched)};
    }
    if (marks != nullptr) {
      *marks = std::move(fetched);
    }
    return absl::OkStatus();
  }

  // The stripes that are left to be asked for.
  std::vector<uint32_t> ReadShared(const FetchRequest& whole, uint32_t shard,
                                   std::span<float> parameters, std::vector<StripeMark>* marks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(fetch_mutex_) {
    if (reader_ != nullptr && whole.vector().empty() && !cancelled_) {
      return reader_->Read(shard, whole, options_.map, parameters, marks);
    }
    std::vector<uint32_t> all(options_.map.stripes(shard));
    std::iota(all.begin(), all.end(), 0u);
    return all;
  }

  std::unique_ptr<ChoosingTransport> MakeTransport() {
    return ChoosingTransport::Create(options_.transport, options_.addresses, options_.deadline,
                                     &report_);
  }

  ExchangeContext Context() const {
    return {&options_.addresses, options_.deadline, &cancelled_, Clock::Real()};
  }

  static uint64_t FetchWidth(const FetchMarks& marks) {
    uint64_t least = UINT64_MAX, most = 0;
    for (const auto& shard : marks.shard) {
      for (const StripeMark& mark : shard) {
        least = std::min(least, mark.version);
        most = std::max(most, mark.version);
      }
    }
    return most - least;
  }

  const ParameterClientOptions options_;
  std::atomic<bool> cancelled_{false};
  TransportReport report_;

  Mutex fetch_mutex_;
  std::unique_ptr<FrameTransport> fetch_transport_ ABSL_PT_GUARDED_BY(fetch_mutex_);
  // fetch_transport_ where it can read shared memory, else null.
  ChoosingTransport* reader_ ABSL_PT_GUARDED_BY(fetch_mutex_) = nullptr;
  uint64_t next_fetch_id_ ABSL_GUARDED_BY(fetch_mutex_) = 1;

  Mutex push_mutex_;
  std::unique_ptr<FrameTransport> push_transport_ ABSL_PT_GUARDED_BY(push_mutex_);
  uint64_t next_push_id_ ABSL_GUARDED_BY(push_mutex_) = 1;
  uint64_t next_sequence_ ABSL_GUARDED_BY(push_mutex_) = 1;
};

}  // namespace

std::vector<std::string> ParameterClient::transports() const { return {}; }

absl::Status ParameterClient::FetchVector(const std::string&, std::span<float>, FetchStats*) {
  return absl::UnimplementedError("this parameter client has no vectors");
}

absl::StatusOr<ParameterClient::ContributeResult> ParameterClient::Contribute(
    uint64_t, uint32_t, std::span<const float>) {
  return absl::UnimplementedError("this parameter client takes no contributions");
}

absl::StatusOr<std::unique_ptr<ParameterClient>> ParameterClient::Create(
    ParameterClientOptions options) {
  if (options.map.size() == 0) {
    return absl::InvalidArgumentError("the parameter client needs a shard map");
  }
  if (options.addresses.size() != options.map.shards()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.addresses.size(), " addresses for ", options.map.shards(), " shards"));
  }
  if (!options.read_only && options.epochs.size() != options.map.shards()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.epochs.size(), " epochs for ", options.map.shards(), " shards"));
  }
  if (options.transport == Transport::AUTO) {
    ASSIGN_OR_RETURN(options.transport, TransportFromEnvironment());
  }
  return std::make_unique<ShardedParameterClient>(std::move(options));
}

}  // namespace monsoon
