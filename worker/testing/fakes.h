// Stand-ins for the tests of a replica and its parts: one shard in memory, a
// network whose gradient is known, a coordinator with a script.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/codec/tensor_codec.h"
#include "common/model/parameter_layout.h"
#include "coordinator/client/replica_client.h"
#include "ps_server/client/parameter_client.h"
#include "worker/data/block_reader.h"
#include "worker/data/data_source.h"
#include "worker/nn/network.h"

namespace monsoon::testing {

// A model of one dense layer without bias: `units` x `inputs` parameters.
inline ParameterLayout SmallLayout(uint32_t inputs = 4, uint32_t units = 4) {
  Model model;
  model.add_input_shape(inputs);
  Dense* dense = model.add_layer()->mutable_dense();
  dense->set_units(units);
  dense->set_no_bias(true);
  return *ParameterLayout::Create(model);
}

// All shards as one: w -= g, in memory. Hooks run without the lock, so they
// may block. Thread safe.
class FakeShards : public ParameterClient {
 public:
  explicit FakeShards(size_t floats) : w_(floats, 0.0f) {}

  absl::Status Fetch(std::span<float> parameters, FetchMarks* marks, FetchStats* stats) override {
    if (before_fetch) RETURN_IF_ERROR(before_fetch());
    {
      MutexLock lock(&mutex_);
      if (away_) return absl::UnavailableError("ps/0: away");
      Copy(parameters, marks, stats);
      log_.push_back("fetch");
    }
    if (after_fetch) after_fetch();
    return absl::OkStatus();
  }

  bool FetchMapped(std::span<float> parameters, FetchMarks* marks, FetchStats* stats) override {
    MutexLock lock(&mutex_);
    if (!mapped || fetches_ == 0) return false;
    Copy(parameters, marks, stats);
    log_.push_back("map");
    return true;
  }

  bool combines() override { return combined; }
  absl::StatusOr<PushResult> PushAndFetch(const GradientView& gradient, const FetchMarks& base,
                                          std::span<float> parameters, FetchMarks* marks,
                                          FetchStats* stats, bool* fetched) override {
    ASSIGN_OR_RETURN(PushResult result, Push(gradient, base));
    MutexLock lock(&mutex_);
    *fetched = lose_next_ == 0;
    lose_next_ -= lose_next_ > 0 ? 1 : 0;
    if (*fetched) {
      Copy(parameters, marks, stats);
      log_.push_back("and fetch");
    }
    return result;
  }

  absl::StatusOr<PushResult> Push(const GradientView& gradient, const FetchMarks& base) override {
    if (before_push) RETURN_IF_ERROR(before_push());
    PushResult result;
    {
      MutexLock lock(&mutex_);
      std::vector<float> floats(gradient.floats.begin(), gradient.floats.end());
      if (!gradient.encoded.empty()) {
        floats.resize(w_.size());
        RETURN_IF_ERROR(TensorCodec::Find(push_format)->Decode(gradient.encoded, floats));
      }
      pushed_.push_back({floats, base.shard.at(0).at(0).version, gradient.part});
      result.sequence = ++sequence_;
      result.rpcs = 1;
      result.bytes = gradient.floats.size() * 4 + gradient.encoded.size();
      if (refuse_next_ > 0) {
        --refuse_next_;
        result.refused_invalid = 1;
        result.first_refusal = "stripe 0: refused by the test";
      } else {
        result.staleness = static_cast<int64_t>(version_ - base.shard[0][0].version);
        for (size_t i = 0; i < w_.size(); ++i) w_[i] -= floats[i];
        ++version_;
      }
      log_.push_back("push");
    }
    if (after_push) after_push();
    return result;
  }

  absl::Status FetchVector(const std::string& name, std::span<float> vector,
                           FetchStats* stats) override {
    if (before_fetch) RETURN_IF_ERROR(before_fetch());
    MutexLock lock(&mutex_);
    log_.push_back("fetch " + name);
    const auto found = vectors_.find(name);
    if (found == vectors_.end()) return absl::NotFoundError("ps/0: no vector " + name);
    ++fetches_;
    std::copy(found->second.begin(), found->second.end(), vector.begin());
    if (stats != nullptr) *stats = {vector.size() * 4, 1, 0, 0};
    return absl::OkStatus();
  }

  absl::StatusOr<ContributeResult> Contribute(uint64_t evaluation, uint32_t contribution,
                                              std::span<const float> gradient) override {
    bool closed = false;
    if (before_contribute) {
      absl::StatusOr<bool> answer = before_contribute(evaluation, contribution);
      RETURN_IF_ERROR(answer.status());
      closed = *answer;
    }
    MutexLock lock(&mutex_);
    log_.push_back(absl::StrCat("contribute ", evaluation, "/", contribution));
    if (!closed) {
      contributed_[{evaluation, contribution}] = {gradient.begin(), gradient.end()};
    }
    return ContributeResult{0, closed, 1, 0, gradient.size() * 4};
  }

  absl::Status Write(std::span<const float>, const WriteOptions&) override {
    return absl::UnimplementedError("not in this test");
  }
  void Cancel() override {
    if (on_cancel) on_cancel();
  }
  std::optional<std::string> away() override {
    MutexLock lock(&mutex_);
    return away_ ? std::make_optional<std::string>("ps/0: away") : std::nullopt;
  }
  absl::Status BringBack(absl::Duration) override {
    return before_return ? before_return() : absl::OkStatus();
  }
  uint64_t acknowledged() override {
    MutexLock lock(&mutex_);
    return acknowledged_;
  }
  // While it is away pushes are kept, and nothing is fetched.
  void SetAway(bool away) {
    MutexLock lock(&mutex_);
    away_ = away;
    acknowledged_ = away ? sequence_ : UINT64_MAX;
  }

  void RefuseNext(int pushes) {
    MutexLock lock(&mutex_);
    refuse_next_ = pushes;
  }
  // That many combined fetches do not come.
  void LoseNext(int fetches) {
    MutexLock lock(&mutex_);
    lose_next_ = fetches;
  }
  void SetVector(const std::string& name, std::vector<float> values) {
    MutexLock lock(&mutex_);
    vectors_[name] = std::move(values);
  }
  // (evaluation, contribution) -> gradient.
  std::map<std::pair<uint64_t, uint32_t>, std::vector<float>> contributed() const {
    MutexLock lock(&mutex_);
    return contributed_;
  }
  // Another replica's push.
  void ApplyForeign(float g) {
    MutexLock lock(&mutex_);
    for (float& w : w_) w -= g;
    ++version_;
  }
  std::vector<float> w() const {
    MutexLock lock(&mutex_);
    return w_;
  }
  int fetches() const {
    MutexLock lock(&mutex_);
    return fetches_;
  }
  std::vector<std::vector<float>> pushed() const {
    MutexLock lock(&mutex_);
    std::vector<std::vector<float>> floats;
    for (const Pushed& push : pushed_) floats.push_back(push.floats);
    return floats;
  }
  std::vector<uint64_t> bases() const {
    MutexLock lock(&mutex_);
    std::vector<uint64_t> bases;
    for (const Pushed& push : pushed_) bases.push_back(push.base);
    return bases;
  }
  std::vector<float> parts() const {
    MutexLock lock(&mutex_);
    std::vector<float> parts;
    for (const Pushed& push : pushed_) parts.push_back(push.part);
    return parts;
  }
  std::vector<std::string> log() const {
    MutexLock lock(&mutex_);
    return log_;
  }

  // Set before use.
  bool mapped = false;               // FetchMapped works once something was fetched
  bool combined = false;             // PushAndFetch is worth it
  WireFormat push_format = FLOAT32;  // of what comes encoded
  std::function<absl::Status()> before_fetch;
  std::function<void()> after_fetch;
  std::function<absl::Status()> before_push;
  std::function<void()> after_push;
  std::function<void()> on_cancel;
  std::function<absl::Status()> before_return;
  // True: the evaluation is closed.
  std::function<absl::StatusOr<bool>(uint64_t evaluation, uint32_t contribution)> before_contribute;

 private:
  struct Pushed {
    std::vector<float> floats;
    uint64_t base = 0;
    float part = 1;
  };
  void Copy(std::span<float> parameters, FetchMarks* marks, FetchStats* stats)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ++fetches_;
    std::copy(w_.begin(), w_.end(), parameters.begin());
    if (marks != nullptr) marks->shard = {{StripeMark{7, version_, sequence_}}};
    if (stats != nullptr) *stats = {w_.size() * 4, 1, 0, 0};
  }

  mutable Mutex mutex_;
  std::vector<float> w_ ABSL_GUARDED_BY(mutex_);
  uint64_t version_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t sequence_ ABSL_GUARDED_BY(mutex_) = 0;
  bool away_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t acknowledged_ ABSL_GUARDED_BY(mutex_) = UINT64_MAX;
  int refuse_next_ ABSL_GUARDED_BY(mutex_) = 0;
  int fetches_ ABSL_GUARDED_BY(mutex_) = 0;
  int lose_next_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Pushed> pushed_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> log_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<float>> vectors_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<uint64_t, uint32_t>, std::vector<float>> contributed_ ABSL_GUARDED_BY(mutex_);
};

// Step s (from 0) has the gradient s + 1 everywhere. Remembers the first
// parameter that each step saw. One thread.
class FakeNetwork : public Network {
 public:
  void SetParameters(std::span<const float> parameters) override {
    parameters_ = parameters;
    ++given;
  }
  void CopyParameters() override { own.assign(parameters_.begin(), parameters_.end()); }
  std::span<const float> own_parameters() const override { return own; }
  absl::StatusOr<StepResult> LossAndGradient(const Batch& batch, const StepKey& key,
                                             std::span<float> gradient) override {
    if (before_step) before_step(key.step);
    if (fail) RETURN_IF_ERROR(fail(key.step));
    seen.push_back(parameters_[0]);
    for (float& g : gradient) g = static_cast<float>(key.step + 1);
    if (spoil) spoil(key.step, gradient);
    const auto all = static_cast<double>(batch.examples);
    return StepResult{loss ? loss(key.step) : 1.0, all, batch.examples};
  }
  absl::StatusOr<EvaluationResult> Evaluate(const Batch& batch) override {
    const auto all = static_cast<double>(batch.examples);
    return EvaluationResult{0.5 * all, all, batch.examples};
  }
  std::string Fingerprint() const override { return "fake"; }

  std::vector<float> seen;
  // How often it was given parameters; and what it has copied of them, where it starts with some.
  int given = 0;
  std::vector<float> own;
  std::function<void(uint64_t)> before_step;
  std::function<absl::Status(uint64_t)> fail;
  std::function<void(uint64_t, std::span<float>)> spoil;
  std::function<double(uint64_t)> loss;

 private:
  std::span<const float> parameters_;
};

// Each block is `batches` batches of one example.
class FakeReader : public BlockReader {
 public:
  explicit FakeReader(int batches) : batches_(batches), batch_(1, 4) { batch_.examples = 1; }
  absl::Status Append(const BlockId& block) override {
    blocks_.push_back(block);
    return absl::OkStatus();
  }
  size_t blocks_left() const override { return blocks_.size(); }
  absl::StatusOr<Piece> Next() override {
    batch_.examples = 1;  // a group swaps it
    Piece piece{&batch_, std::nullopt};
    if (++given_ == batches_) {
      given_ = 0;
      piece.last_of = blocks_.front();
      blocks_.pop_front();
    }
    return piece;
  }

 private:
  const int batches_;
  int given_ = 0;
  Batch batch_;
  std::deque<BlockId> blocks_;
};

// Sample i has the value i everywhere and the label 0.
class FakeSource : public DataSource {
 public:
  explicit FakeSource(uint64_t examples) : examples_(examples) {}
  uint64_t examples() const override { return examples_; }
  SampleFormat format() const override { return {.values = 4}; }
  absl::Status Gather(std::span<const uint32_t> indices, Batch* batch) const override {
    if (on_gather) on_gather(indices);
    for (size_t n = 0; n < indices.size(); ++n) {
      std::fill_n(batch->inputs.data() + n * 4, 4, static_cast<float>(indices[n]));
      batch->labels[n] = 0;
    }
    return absl::OkStatus();
  }
  uint64_t Fingerprint() const override { return 1; }

  // Set before use; called by the gathering thread.
  std::function<void(std::span<const uint32_t>)> on_gather;

 private:
  const uint64_t examples_;
};

// Work of `evaluation` at the vector "w<evaluation>": these contributions, each
// of `examples` samples.
inline NextWorkReply::Contribute MakeContribute(uint64_t evaluation,
                                                std::vector<uint32_t> contributions,
                                                uint32_t examples) {
  NextWorkReply::Contribute work;
  work.set_evaluation(evaluation);
  work.set_vector(absl::StrCat("w", evaluation));
  for (const uint32_t contribution : contributions) {
    NextWorkReply::Contribution* added = work.add_contribution();
    added->set_contribution(contribution);
    added->set_first(static_cast<uint64_t>(contribution) * examples);
    added->set_examples(examples);
  }
  return work;
}

// Answers by functions; remembers what it was asked. Thread safe.
class FakeCoordinator : public ReplicaClient {
 public:
  absl::StatusOr<EnterReply> Enter(const EnterRequest&) override {
    return absl::UnimplementedError("Enter");
  }
  absl::StatusOr<HeartbeatReply> Heartbeat(const HeartbeatRequest& request) override {
    {
      MutexLock lock(&mutex_);
      heartbeats_.push_back(request);
    }
    return heartbeat(request);
  }
  absl::StatusOr<NextWorkReply> NextWork(const NextWorkRequest& request) override {
    {
      MutexLock lock(&mutex_);
      requests_.push_back(request);
    }
    absl::StatusOr<NextWorkReply> reply = next_work(request);
    if (reply.ok()) reply->set_request(request.request());
    return reply;
  }
  absl::StatusOr<ReportEvaluationReply> ReportEvaluation(
      const ReportEvaluationRequest& request) override {
    MutexLock lock(&mutex_);
    evaluations_.push_back(request);
    return ReportEvaluationReply();
  }
  absl::StatusOr<TakeStreamReply> TakeStream(const TakeStreamRequest& request) override {
    return take_stream(request);
  }
  absl::StatusOr<ClockReply> TellClock(const ClockRequest& request) override {
    return tell_clock(request);
  }
  absl::StatusOr<ReportFailureReply> ReportFailure(const ReportFailureRequest&) override {
    return ReportFailureReply();
  }

  std::vector<HeartbeatRequest> heartbeats() const {
    MutexLock lock(&mutex_);
    return heartbeats_;
  }
  std::vector<NextWorkRequest> requests() const {
    MutexLock lock(&mutex_);
    return requests_;
  }
  std::vector<ReportEvaluationRequest> evaluations() const {
    MutexLock lock(&mutex_);
    return evaluations_;
  }

  std::function<absl::StatusOr<HeartbeatReply>(const HeartbeatRequest&)> heartbeat;
  std::function<absl::StatusOr<NextWorkReply>(const NextWorkRequest&)> next_work;
  std::function<absl::StatusOr<TakeStreamReply>(const TakeStreamRequest&)> take_stream;
  std::function<absl::StatusOr<ClockReply>(const ClockRequest&)> tell_clock;

 private:
  mutable Mutex mutex_;
  std::vector<HeartbeatRequest> heartbeats_ ABSL_GUARDED_BY(mutex_);
  std::vector<NextWorkRequest> requests_ ABSL_GUARDED_BY(mutex_);
  std::vector<ReportEvaluationRequest> evaluations_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace monsoon::testing
