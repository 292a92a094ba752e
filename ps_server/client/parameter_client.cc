#include "ps_server/client/parameter_client.h"

#include <atomic>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/codec/tensor_codec.h"
#include "common/transport/choosing_transport.h"
#include "common/transport/frame/exchange.h"
#include "common/transport/frame/fault_transport.h"
#include "common/transport/frame/frame_transport.h"
#include "ps_server/client/answers.h"
#include "ps_server/client/check_values.h"
#include "ps_server/client/client_transport.h"
#include "ps_server/client/kept_rows.h"
#include "ps_server/client/mapped_parameters.h"
#include "ps_server/client/plain_push.h"
#include "ps_server/client/push_encoder.h"
#include "ps_server/client/push_keeper.h"
#include "ps_server/client/requests.h"
#include "ps_server/client/retry_report.h"
#include "ps_server/client/round_wait.h"
#include "ps_server/client/row_fetch.h"
#include "ps_server/client/shard_control.h"

namespace monsoon {
namespace {

class ShardedParameterClient final : public ParameterClient {
 public:
  // `push_codec` is that of options.push_format.
  ShardedParameterClient(ParameterClientOptions options, std::unique_ptr<TensorCodec> push_codec)
      : options_(std::move(options)),
        names_(ShardNames(options_.addresses)),
        report_(absl::StrCat("job ", options_.job), TaskNames(options_.map.shards())),
        fetch_requests_(&options_),
        left_(options_.map.shards()),
        epochs_(HeldEpochs(options_)),
        push_requests_(&options_),
        encoder_(options_.map, options_.fragments, options_.push_format, std::move(push_codec),
                 options_.values, options_.residual_decay) {
    ClientTransports transports = MakeClientTransports(options_, &report_);
    fetch_transport_ = std::move(transports.fetch);
    push_transport_ = std::move(transports.push);
    reader_ = transports.reader;
    for (uint32_t shard = 0; shard < options_.map.shards(); ++shard) {
      stripes_ += options_.map.stripes(shard);
    }
    fits_one_frame_ = push_requests_.FitsOneFrame(encoder_);
    if (changes()) {
      fetching_.view.emplace(options_.map, options_.fetch_changes);
    }
    if (options_.keep_bytes > 0 && !options_.read_only) {
      keeper_ = std::make_unique<PushKeeper>(&options_, Context(), &encoder_, &push_requests_,
                                             push_transport_.get());
    }
  }

  absl::Status Fetch(std::span<float> parameters, FetchMarks* marks, FetchStats* stats) override {
    return FetchAll({.format = options_.fetch_format, .changes = changes()}, parameters, marks,
                    stats);
  }

  absl::Status FetchFragment(uint32_t fragment, std::span<float> parameters, FetchMarks* marks,
                             FetchStats* stats) override {
    CHECK_LT(fragment, options_.fragments.count());
    return FetchAll({.format = options_.fetch_format, .fragment = fragment, .changes = changes()},
                    parameters, marks, stats);
  }

  absl::Status FetchExact(std::span<float> parameters, FetchMarks* marks,
                          FetchStats* stats) override {
    return FetchAll({}, parameters, marks, stats);
  }

  absl::Status FetchVector(const std::string& name, std::span<float> vector,
                           FetchStats* stats) override {
    if (name.empty()) {
      return absl::InvalidArgumentError("a fetch of a vector without a name");
    }
    return FetchAll({.vector = name}, vector, /*marks=*/nullptr, stats);
  }

  absl::Status FetchState(uint32_t slot, std::span<float> values, FetchMarks* marks,
                          FetchStats* stats) override {
    CHECK_EQ(values.size(), options_.map.size());
    if (options_.halves) {
      return absl::InvalidArgumentError("a fetch of the optimizer's state in half precision");
    }
    return FetchAll({.slot = slot}, values, marks, stats);
  }

  bool FetchMapped(std::span<float> parameters, FetchMarks* marks, FetchStats* stats) override {
    if (options_.fetch_format != FLOAT32 || changes() || !options_.fragments.whole() ||
        cancelled_ || away().has_value()) {
      return false;
    }
    if (!fetch_mutex_.TryLock()) {
      return false;  // a Fetch is in progress
    }
    NoteEpochs();
    const bool done = mapped() && ReadMapped(parameters, marks, stats) &&
                      (keeper_ == nullptr || AreOfEpochs(*marks, epochs_, options_.fragments, {}));
    fetch_mutex_.Unlock();
    return done;
  }

  absl::StatusOr<PushResult> Push(const GradientView& gradient, const FetchMarks& base) override {
    return PushWith(gradient, base, /*target=*/nullptr);
  }

  bool combines() override {
    if (!fits_one_frame_ || options_.rounds || changes() || !options_.fragments.whole() ||
        !options_.tables.empty()) {
      return false;
    }
    if (!fetch_mutex_.TryLock()) {
      return false;  // a Fetch is in progress
    }
    const bool saves = !mapped();
    fetch_mutex_.Unlock();
    return saves;
  }

  absl::StatusOr<PushResult> PushAndFetch(const GradientView& gradient, const FetchMarks& base,
                                          std::span<float> parameters, FetchMarks* marks,
                                          FetchStats* stats, bool* fetched) override {
    FetchTarget target = FetchTarget::Of(options_, options_.fetch_format, parameters, marks);
    *fetched = false;
    ASSIGN_OR_RETURN(PushResult result, PushWith(gradient, base, &target));
    *fetched = target.records == stripes_;
    *stats = {target.bytes, 0, 0, FetchWidth(*marks)};
    return result;
  }

  absl::Status FetchRows(std::span<const RowRequest> wanted, FetchStats* stats) override {
    ASSIGN_OR_RETURN(RowFetch fetch,
                     RowFetch::Create(options_.tables, wanted, options_.map.shards()));
    RETURN_IF_ERROR(CheckPresent());
    ExchangeCounts counts;
    MutexLock lock(&fetch_mutex_);
    NoteEpochs();
    RETURN_IF_ERROR(RunRowFetch(Context(), !options_.read_only, keeper_ != nullptr, epochs_,
                                &fetch_requests_, fetch_transport_.get(), &fetch, &counts));
    if (stats != nullptr) {
      *stats = {fetch.bytes(), counts.frames, counts.retries, 0};
    }
    return absl::OkStatus();
  }

  absl::StatusOr<ContributeResult> Contribute(uint64_t evaluation, uint32_t contribution,
                                              std::span<const float> gradient) override {
    CHECK_EQ(gradient.size(), options_.map.size());
    CHECK(!options_.read_only);
    RETURN_IF_ERROR(CheckFinite(gradient, "gradient"));
    MutexLock lock(&push_mutex_);
    return RunContribution(Context(/*any_order=*/true),
                           push_requests_.Contribute(evaluation, contribution, gradient),
                           push_transport_.get());
  }

  absl::Status Write(std::span<const float> values, const WriteOptions& options) override {
    CHECK_EQ(values.size(), options_.map.size());
    if (!options.versions.empty() && !FitsMap(options.versions, options_.map)) {
      return absl::InvalidArgumentError("a write with versions of other stripes");
    }
    RETURN_IF_ERROR(CheckFinite(values, options.slot == 0 ? "parameter" : "optimizer's state"));
    MutexLock lock(&push_mutex_);
    return RunWrite(push_requests_.Write(values, options));
  }

  absl::Status WriteState(uint32_t slot, std::span<const float> values, uint64_t version,
                          uint64_t write) override {
    CHECK_EQ(values.size(), options_.map.size());
    CHECK(!options_.read_only);
    RETURN_IF_ERROR(CheckFinite(values, slot == 0 ? "parameter" : "optimizer's state"));
    MutexLock lock(&push_mutex_);
    return RunWrite(push_requests_.WriteState(slot, values, version, write), /*has_session=*/true);
  }

  absl::Status SealState(std::span<const std::span<const float>> slots, uint64_t write) override {
    CHECK(!options_.read_only);
    MutexLock lock(&push_mutex_);
    return RunWrite(push_requests_.SealState(slots, write), /*has_session=*/true);
  }

  absl::Status WriteRows(const RowWrite& rows, const WriteOptions& options) override {
    ASSIGN_OR_RETURN(const std::vector<KeptRowWrite> writes,
                     CutRowWrite(options_.tables, rows, options_.map.shards()));
    MutexLock lock(&push_mutex_);
    return RunWrite(push_requests_.WriteRows(rows.table, writes, options.writer));
  }

  absl::Status Seal(std::span<const float> parameters, uint64_t writer) override {
    CHECK_EQ(parameters.size(), options_.map.size());
    MutexLock lock(&push_mutex_);
    return RunWrite(push_requests_.Seal(parameters, writer));
  }

  absl::Status Pass() override {
    MutexLock lock(&push_mutex_);
    if (keeper_ != nullptr) {
      return keeper_->Pass();
    }
    ExchangeCounts counts;
    return RunExchange(
        Context(), push_requests_.Pass(), push_transport_.get(),
        [](uint32_t, const DataHeader& header, ChunkCursor*) { return TakePassAnswer(header); },
        &counts);
  }

  std::vector<std::string> transports() const override { return report_.Get(); }

  void Cancel() override { cancelled_ = true; }

  void NameEpoch(uint32_t shard, uint64_t epoch) override {
    if (keeper_ != nullptr) {
      keeper_->NameEpoch(shard, epoch);
    }
  }
  void Forgo() override {
    if (keeper_ != nullptr) {
      keeper_->Forgo();
    }
  }
  std::optional<std::string> away() override {
    return keeper_ == nullptr ? std::nullopt : keeper_->away();
  }
  std::vector<uint64_t> ready_epochs() override {
    return keeper_ == nullptr ? std::vector<uint64_t>() : keeper_->ready_epochs();
  }
  uint64_t acknowledged() override {
    return keeper_ == nullptr ? UINT64_MAX : keeper_->acknowledged();
  }
  KeptPushes kept() override {
    KeptPushes kept = keeper_ == nullptr ? KeptPushes() : keeper_->kept();
    kept.silent_shard = kept.silent_shard.has_value() ? kept.silent_shard : retries_.silent_shard();
    return kept;
  }
  absl::Status BringBack(absl::Duration patience) override {
    MutexLock lock(&push_mutex_);
    return keeper_ == nullptr ? absl::OkStatus() : keeper_->BringBack(patience);
  }
  absl::StatusOr<std::vector<uint64_t>> AwaitDurable(absl::Duration patience) override {
    MutexLock lock(&push_mutex_);
    return keeper_ == nullptr ? std::vector<uint64_t>() : keeper_->AwaitDurable(patience);
  }

 private:
  // Why nothing may be fetched now. A client that only fetches looks for itself whether
  // the shard is back.
  absl::Status CheckPresent() {
    if (keeper_ == nullptr || !keeper_->away().has_value()) {
      return absl::OkStatus();
    }
    if (push_mutex_.TryLock()) {
      const absl::Status tried = keeper_->BringBack(absl::ZeroDuration());
      push_mutex_.Unlock();
      RETURN_IF_ERROR(tried);
    }
    const std::optional<std::string> away = keeper_->away();
    return away.has_value() ? absl::UnavailableError(*away) : absl::OkStatus();
  }

  // While a fetch waits. What is away and has come back gets what is kept for it, since some round
  // can lack just that. `stands`: as in RoundWait, so that no round is to wait for this session.
  void ServeWhileFetching(bool stands) {
    if ((!stands && !keeper_->away().has_value()) || !push_mutex_.TryLock()) {
      return;  // whoever pushes serves them
    }
    // What fails here fails again where it is waited for.
    if (keeper_->BringBack(absl::ZeroDuration()).ok() && stands) {
      (void)keeper_->Pass();
    }
    push_mutex_.Unlock();
  }

  // Before a fetch: what comes must be of these lives, which had all pushes by then.
  void NoteEpochs() ABSL_EXCLUSIVE_LOCKS_REQUIRED(fetch_mutex_) {
    for (uint32_t shard = 0; keeper_ != nullptr && shard < options_.map.shards(); ++shard) {
      epochs_[shard] = keeper_->ready_epoch(shard);
    }
  }

  absl::Status RunWrite(const RequestMaker::ShardRequests& requests, bool has_session = false)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(push_mutex_) {
    ExchangeCounts counts;
    const auto handler = [&](uint32_t, const DataHeader& header, ChunkCursor*) {
      return TakeWriteAnswer(header, has_session);
    };
    return RunExchange(Context(/*any_order=*/true), requests, push_transport_.get(), handler,
                       &counts);
  }

  void Encode(uint64_t sequence, const GradientView& gradient)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(push_mutex_) {
    if (gradient.encoded.empty()) {
      encoder_.Encode(sequence, gradient.floats, gradient.absent);
    } else {
      encoder_.UseEncoded(gradient.encoded, gradient.absent);
    }
    encoder_.set_weight(gradient.weight, gradient.part);
    encoder_.set_patience(gradient.patience);
  }

  // Push; with a target, the acknowledgements bring the parameters.
  absl::StatusOr<PushResult> PushWith(const GradientView& gradient, const FetchMarks& base,
                                      FetchTarget* target) {
    CHECK(!options_.read_only);
    RETURN_IF_ERROR(CheckGradient(gradient, options_.map.size(), options_.push_format));
    RETURN_IF_ERROR(CheckRows(options_.tables, gradient.rows));
    MutexLock lock(&push_mutex_);
    std::vector<std::shared_ptr<const KeptRows>> rows;
    if (!options_.tables.empty()) {
      rows = EncodeRows(options_.tables, gradient.rows, options_.map.shards());
    }
    if (keeper_ != nullptr) {
      Encode(keeper_->next_sequence(), gradient);
      keeper_->SetRows(std::move(rows));
      return keeper_->Push(base, gradient.owner, target);
    }
    Encode(next_sequence_, gradient);
    ASSIGN_OR_RETURN(
        const PushResult result,
        RunPlainPush(Context(), options_.fragments,
                     {.sequence = next_sequence_, .base = &base, .rows = rows, .target = target},
                     &push_requests_, &encoder_, push_transport_.get()));
    ++next_sequence_;
    return result;
  }

  struct What {
    std::string vector = "";  // "": the parameters
    WireFormat format = FLOAT32;
    std::optional<uint32_t> fragment = {};  // its stripes alone
    bool changes = false;                   // of the public copy
    // Of the optimizer's state; 0: the parameters, but by messages alone.
    std::optional<uint32_t> slot = {};
  };
  absl::Status FetchAll(const What& what, std::span<float> parameters, FetchMarks* marks,
                        FetchStats* stats) {
    FetchMarks unwanted;
    marks = marks == nullptr ? &unwanted : marks;
    const bool keeps = keeper_ != nullptr && what.vector.empty();
    if (keeps) {
      RETURN_IF_ERROR(CheckPresent());
    }
    FetchTarget target = FetchTarget::Of(options_, what.format, parameters, marks);
    ExchangeCounts counts;
    {
      MutexLock lock(&fetch_mutex_);
      NoteEpochs();
      RoundWait* const wait = &fetching_.wait;
      wait->Begin();
      const auto handler = [&](uint32_t shard, const DataHeader& header, ChunkCursor* payload) {
        return TakeFetchAnswer(shard, header, payload, {!options_.read_only, keeps}, wait, &target);
      };
      for (uint32_t shard = 0; shard < options_.map.shards(); ++shard) {
        const FetchRequest& whole =
            fetch_requests_.WholeFetch(shard, what.vector, what.format, what.slot.value_or(0));
        if (what.fragment.has_value()) {
          left_[shard] = options_.fragments.StripesOf(*what.fragment, shard);
        } else {
          ReadShared(whole, shard, what.changes || what.slot.has_value(), &target);
        }
      }
      PublicView* const view = what.changes ? &fetching_.view.value() : nullptr;
      if (view != nullptr) {
        view->BeginExchange();
        target.view = view;
      }
      ExchangeContext context = Context(/*any_order=*/true);
      const std::function<void()> serve = [this, wait] {
        ServeWhileFetching(wait->StandsStill(Clock::Real()->Now(), options_.round_patience));
      };
      context.meanwhile = keeps ? &serve : nullptr;
      const absl::Status run = RunExchange(context, fetch_requests_.Fetch(left_, view),
                                           fetch_transport_.get(), handler, &counts);
      if (absl::IsDeadlineExceeded(run) && !wait->open().empty()) {
        return RoundOpenError(wait->open());
      }
      if (absl::IsDeadlineExceeded(run) && keeps && push_mutex_.TryLock()) {
        keeper_->LookAround();
        push_mutex_.Unlock();
      }
      RETURN_IF_ERROR(run);
      wait->End();
      if (keeps && !AreOfEpochs(*marks, epochs_, options_.fragments, what.fragment)) {
        return absl::UnavailableError("a shard was started anew while it was fetched from");
      }
    }
    CountInPushes(options_.fragments, what.fragment, marks);
    if (stats != nullptr) {
      *stats = {target.bytes, counts.frames, counts.retries, FetchWidth(*marks)};
    }
    return absl::OkStatus();
  }

  // Reads what it can from the shard's memory; left_[shard] becomes what must be
  // asked for. In a lossy format all is: what a fetch gives does not depend on
  // where the shard is.
  void ReadShared(const FetchRequest& whole, uint32_t shard, bool by_messages, FetchTarget* target)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(fetch_mutex_) {
    std::vector<uint32_t>& left = left_[shard];
    if (by_messages || reader_ == nullptr || !whole.vector().empty() || whole.format() != FLOAT32 ||
        options_.halves || cancelled_) {
      left.resize(options_.map.stripes(shard));
      std::iota(left.begin(), left.end(), 0u);
      return;
    }
    ReadMappedParameters(reader_, shard, whole, options_.map, target->parameters,
                         &target->marks->shard[shard], &left);
    target->bytes += options_.map.shard(shard).size() * sizeof(float);
    for (const uint32_t stripe : left) {  // counted when they come
      target->bytes -= options_.map.stripe(shard, stripe).size() * sizeof(float);
    }
  }

  bool changes() const { return options_.fetch_changes != FLOAT32 && !options_.read_only; }

  bool mapped() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(fetch_mutex_) {
    return reader_ != nullptr && options_.fetch_format == FLOAT32 && !options_.halves &&
           AllAreMapped(*reader_, options_.map.shards());
  }

  bool ReadMapped(std::span<float> parameters, FetchMarks* marks, FetchStats* stats)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(fetch_mutex_) {
    FetchTarget target = FetchTarget::Of(options_, FLOAT32, parameters, marks);
    for (uint32_t shard = 0; shard < options_.map.shards(); ++shard) {
      ReadShared(fetch_requests_.WholeFetch(shard, "", FLOAT32), shard, /*by_messages=*/false,
                 &target);
      if (!left_[shard].empty()) {
        return false;
      }
    }
    *stats = {target.bytes, 0, 0, FetchWidth(*marks)};
    return true;
  }

  ExchangeContext Context(bool any_order = false) const {
    ExchangeContext context{&names_, options_.deadline, &cancelled_, Clock::Real(),
                            retries_.on_retry()};
    context.any_order = any_order;
    context.longest_pause = options_.rounds ? kRoundPause : context.longest_pause;
    context.silent = options_.silent != nullptr ? options_.silent : retries_.silent();
    return context;
  }

  const ParameterClientOptions options_;
  const std::vector<std::string> names_;  // of the shards
  const RetryReport retries_{options_.job, options_.on_waiting};
  std::atomic<bool> cancelled_{false};
  TransportReport report_;
  uint64_t stripes_ = 0;         // of all shards
  bool fits_one_frame_ = false;  // each shard's push and slice

  Mutex fetch_mutex_;
  std::unique_ptr<FrameTransport> fetch_transport_ ABSL_PT_GUARDED_BY(fetch_mutex_);
  // fetch_transport_ where it can read shared memory, else null.
  ChoosingTransport* reader_ ABSL_PT_GUARDED_BY(fetch_mutex_) = nullptr;
  RequestMaker fetch_requests_ ABSL_GUARDED_BY(fetch_mutex_);
  std::vector<std::vector<uint32_t>> left_ ABSL_GUARDED_BY(fetch_mutex_);  // [shard], to be asked
  std::vector<uint64_t> epochs_ ABSL_GUARDED_BY(fetch_mutex_);             // [shard], NoteEpochs
  struct {
    RoundWait wait;
    std::optional<PublicView> view;  // for changes()
  } fetching_ ABSL_GUARDED_BY(fetch_mutex_);

  Mutex push_mutex_;
  std::unique_ptr<FrameTransport> push_transport_ ABSL_PT_GUARDED_BY(push_mutex_);
  RequestMaker push_requests_ ABSL_GUARDED_BY(push_mutex_);
  uint64_t next_sequence_ ABSL_GUARDED_BY(push_mutex_) = 1;
  PushEncoder encoder_ ABSL_GUARDED_BY(push_mutex_);
  // Null without keep_bytes. Its calls for one thread: under push_mutex_.
  std::unique_ptr<PushKeeper> keeper_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ParameterClient>> ParameterClient::Create(
    ParameterClientOptions options) {
  RETURN_IF_ERROR(CheckOptions(options));
  if (options.transport == Transport::AUTO) {
    ASSIGN_OR_RETURN(options.transport, TransportFromEnvironment());
  }
  ASSIGN_OR_RETURN(std::unique_ptr<TensorCodec> push_codec,
                   TensorCodec::Create(options.push_format, options.top_k_share));
  if (options.fragments.empty()) {
    options.fragments = FragmentMap::Whole(options.map);
  }
  return std::make_unique<ShardedParameterClient>(std::move(options), std::move(push_codec));
}

}  // namespace monsoon
