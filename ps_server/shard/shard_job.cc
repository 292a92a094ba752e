#include "ps_server/shard/shard_job.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/codec/tensor_codec.h"
#include "common/model/bias_ranges.h"
#include "common/model/initializer.h"
#include "common/optimizer/range_kernel.h"
#include "ps_server/vector/contribution_sum.h"

namespace monsoon {
namespace {

SessionId IdOf(const SessionKey& key) { return {key.worker(), key.incarnation()}; }

// What lies between tensors, within `slice`.
std::vector<Slice> PaddingOf(const ParameterLayout& layout, const Slice& slice) {
  std::vector<Slice> padding;
  uint64_t end = 0;  // of the tensor before
  const auto add = [&](uint64_t next) {
    const Slice gap{std::max(end, slice.begin), std::min(next, slice.end)};
    if (gap.begin < gap.end) {
      padding.push_back(gap);
    }
  };
  for (const TensorInfo& tensor : layout.tensors()) {
    add(tensor.offset);
    end = tensor.offset + tensor.size;
  }
  add(layout.size());
  return padding;
}

SliceShape ShapeOf(const ShardJobPlan& plan, const CreateShardJobRequest& request) {
  const Slice slice = plan.map.shard(request.shard());
  return {request.job(),
          slice.begin,
          slice.size(),
          plan.map.stripe_floats(),
          PaddingOf(plan.layout, slice),
          BiasRanges(plan.layout, slice),
          StatisticRanges(plan.layout, slice)};
}

// Of gradients that kernels read where they are.
constexpr size_t kContentAlignment = 64;

constexpr char kDraining[] = "the shard is draining";

// A verdict that changed no version.
PushVerdict MakeVerdict(Verdict kind, std::string message) {
  PushVerdict verdict;
  verdict.set_verdict(kind);
  verdict.set_staleness(-1);
  verdict.set_message(std::move(message));
  return verdict;
}

// The half of `scratch` that is for bytes to be decoded; made when first needed,
// which moves the other half.
std::span<std::byte> EncodedScratch(AlignedFloats* scratch) {
  constexpr size_t kHalf = kMaxFramePayloadBytes / sizeof(float);
  if (scratch->size() < 2 * kHalf) {
    *scratch = AlignedFloats(2 * kHalf);
  }
  return std::as_writable_bytes(scratch->span().subspan(kHalf));
}

}  // namespace

ShardJob::ShardJob(const CreateShardJobRequest& request, ShardJobPlan plan, uint64_t shard_epoch,
                   SharedSlice slice, MemoryBudget::Reservation memory, MemoryBudget* budget,
                   std::unique_ptr<SessionMarks> marks, const Clock* clock)
    : request_(request),
      memory_(std::move(memory)),
      budget_(budget),
      reductions_(std::move(plan.reductions)),
      kernel_(std::move(plan.kernel)),
      facts_{request.job(), plan.layout.Hash(), plan.map, request.shard(), shard_epoch},
      tables_(plan.layout.tables().empty()
                  ? nullptr
                  : std::make_unique<TableSlice>(&facts_, request.seed(), plan.layout.tables())),
      clock_(clock),
      slice_(std::move(slice)),
      vectors_(ShapeOf(plan, request), this, budget),
      // Its parameters come from a program that may go away in the midst of it.
      writing_(request.written_by_client() && request.model().tensor_size() > 0),
      marks_(std::move(marks)),
      readable_(writing_.readable()) {
  // With a pointer to the stripe and the allocator's own bytes.
  static_assert(sizeof(StripeHeader) + sizeof(Stripe) + sizeof(void*) + 16 +
                    ContributionSum::kStripeBytes <=
                kStripeOverheadBytes);
  // With what the slice's file is rounded up to.
  static_assert(sizeof(ShardJob) + sizeof(SliceHeader) + 4 * 4096 <= kJobOverheadBytes);
}

void ShardJob::Fill(const ParameterLayout& layout, const std::shared_ptr<FloatArena>& state) {
  const uint32_t shard = facts_.shard;
  const StateBehind behind = StateBehind::Of(request_);
  Stripe::Options options{.damping = request_.optimizer().damping(),
                          .rounds = std::nullopt,
                          .changes = request_.fetch_changes()};
  if (behind.round) {
    options.rounds = RoundRule::From(request_.rounds(), clock_);
  }
  if (state != nullptr) {
    state->Take(StateLead(*kernel_, facts_.map, behind));
  }
  stripes_.reserve(facts_.map.stripes(shard));
  for (uint32_t i = 0; i < facts_.map.stripes(shard); ++i) {
    const Slice stripe = facts_.map.stripe(shard, i);
    stripes_.push_back(std::make_unique<Stripe>(
        &slice_, i, KernelOf(layout, stripe), facts_.shard_epoch,
        state == nullptr
            ? AlignedFloats()
            : AlignedFloats(state, Stripe::StateFloats(*kernel_, stripe.size(), behind)),
        options));
    CHECK_EQ(stripes_.back()->size(), stripe.size());
  }
}

absl::Status ShardJob::Initialize(absl::FunctionRef<bool()> go_on) {
  if (request_.written_by_client()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const ParameterLayout layout, ParameterLayout::Create(request_.model()));
  for (uint32_t i = 0; i < stripes_.size(); ++i) {
    if (!go_on()) {
      return absl::CancelledError("its slice is given up");
    }
    AlignedFloats initial(stripes_[i]->size());
    monsoon::Initialize(layout, request_.seed(), facts_.map.stripe(facts_.shard, i).begin,
                        initial.span());
    stripes_[i]->Write(initial.span());
  }
  return absl::OkStatus();
}

const OptimizerKernel* ShardJob::KernelOf(const ParameterLayout& layout, const Slice& stripe) {
  std::vector<Slice> biases;
  if (request_.optimizer().weight_decay_weights_only()) {
    biases = BiasRanges(layout, stripe);
  }
  const std::vector<Slice> statistics = StatisticRanges(layout, stripe);
  if (biases.empty() && statistics.empty()) {
    return kernel_.get();
  }
  absl::StatusOr<std::unique_ptr<OptimizerKernel>> kernel =
      CreateRangeKernel(request_.optimizer(), biases, statistics, stripe, reductions_);
  CHECK_OK(kernel.status());  // PlanJob has made the same one
  return stripe_kernels_.emplace_back(*std::move(kernel)).get();
}

absl::Status ShardJob::ReduceRate(uint32_t reductions) {
  if (reductions_ == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", facts_.job, " has no optimizer.schedule.plateau"));
  }
  uint32_t known = reductions_->load();
  while (known < reductions && !reductions_->compare_exchange_weak(known, reductions)) {
  }
  return absl::OkStatus();
}

CreateShardJobReply ShardJob::Describe() const {
  const Slice slice = facts_.map.shard(facts_.shard);
  CreateShardJobReply reply;
  reply.set_shard_epoch(facts_.shard_epoch);
  reply.set_begin(slice.begin);
  reply.set_end(slice.end);
  reply.set_stripes(static_cast<uint32_t>(stripes_.size()));
  reply.set_stripe_bytes(facts_.map.stripe_floats() * sizeof(float));
  return reply;
}

ShardJobStatus ShardJob::GetStatus() const {
  const CreateShardJobReply shape = Describe();
  ShardJobStatus status;
  status.set_job(facts_.job);
  status.set_job_term(request_.job_term());
  status.set_memory_bytes(memory_.bytes());
  status.set_begin(shape.begin());
  status.set_end(shape.end());
  status.set_stripes(shape.stripes());
  status.set_stripe_bytes(shape.stripe_bytes());
  uint64_t least = UINT64_MAX, most = 0;
  for (const auto& stripe : stripes_) {
    const uint64_t version = stripe->version();
    least = std::min(least, version);
    most = std::max(most, version);
  }
  status.set_version_min(least);
  status.set_version_max(most);
  for (const auto& [staleness, count] : staleness_.known()) {
    (*status.mutable_staleness())[staleness] = count;
  }
  status.set_staleness_unknown(staleness_.unknown());
  status.set_applied(applied_.load());
  status.set_duplicates(duplicates_.load());
  status.set_refused(refused_.load());
  {
    MutexLock lock(&readers_mutex_);
    FoldReaders();
    uint64_t fetched = fetched_stripes_.load(), bytes = bytes_fetched_.load();
    for (const auto& reader : readers_) {
      fetched += reader->stripes.load();
      bytes += reader->bytes.load();
    }
    status.set_fetched_stripes(fetched);
    status.set_bytes_fetched(bytes);
  }
  status.set_bytes_pushed(bytes_pushed_.load());
  if (tables_ != nullptr) {
    tables_->AddTo(&status);
  }
  if (reductions_ != nullptr) {
    status.set_rate_reductions(reductions_->load());
  }
  return status;
}

PushReply ShardJob::Push(const PushRequest& request, ChunkCursor* payload, AlignedFloats* scratch,
                         bool draining) {
  bytes_pushed_ += payload->remaining();
  PushReply reply;
  for (const PushRecord& record : request.record()) {
    Finish(record.stripe(), record.sequence(),
           draining ? MakeVerdict(REFUSED_BUSY, kDraining)
                    : PushRecordOf(request, record, payload, scratch),
           &reply);
  }
  return reply;
}

PushReply ShardJob::Contribute(const ContributeRequest& request, ChunkCursor* payload,
                               AlignedFloats* scratch, bool draining) {
  bytes_pushed_ += payload->remaining();
  PushReply reply;
  for (const ContributeRecord& record : request.record()) {
    Finish(record.stripe(), /*sequence=*/0,
           draining ? MakeVerdict(REFUSED_BUSY, kDraining)
                    : ContributeRecordOf(request, record, payload, scratch),
           &reply);
  }
  return reply;
}

void ShardJob::Finish(uint32_t stripe, uint64_t sequence, PushVerdict verdict, PushReply* reply) {
  verdict.set_stripe(stripe);
  verdict.set_sequence(sequence);
  if (verdict.message().size() > kMaxVerdictMessage) {
    verdict.mutable_message()->resize(kMaxVerdictMessage);
  }
  Count(verdict);
  *reply->add_verdict() = std::move(verdict);
}

ShardJob::Content ShardJob::TakeContent(uint32_t stripe, WireFormat format, uint32_t length,
                                        ChunkCursor* payload, AlignedFloats* scratch) const {
  const TensorCodec* const codec = TensorCodec::Find(format);
  if (stripe >= stripes_.size() || codec == nullptr ||
      !codec->CheckLength(length, stripes_[stripe]->size()).ok()) {
    payload->Skip(length);
    return {};
  }
  const size_t floats = stripes_[stripe]->size();
  if (format != FLOAT32) {
    const std::span<std::byte> encoded = EncodedScratch(scratch).first(length);
    const std::span<float> content = scratch->span().first(floats);
    payload->Copy(length, encoded.data());
    absl::Status malformed = codec->Decode(encoded, content);
    return {content, /*finite=*/false, std::move(malformed)};
  }
  // A frame belongs to the shard's process alone: nobody changes the bytes
  // between the check and the application.
  if (const std::byte* whole = payload->Peek(length, kContentAlignment)) {
    payload->Skip(length);
    // So aligned, its floats are those that the receiver has looked at.
    return {{reinterpret_cast<const float*>(whole), floats}, payload->finite_payload(), {}};
  }
  const std::span<float> content = scratch->span().first(floats);
  payload->Copy(length, content.data());
  return {content, /*finite=*/false, {}};
}

PushVerdict ShardJob::PushRecordOf(const PushRequest& request, const PushRecord& record,
                                   ChunkCursor* payload, AlignedFloats* scratch) {
  const Content content =
      TakeContent(record.stripe(), record.format(), record.length(), payload, scratch);
  RecordCheck check = ValidatePushRecord(facts_, request, record, content.malformed, content.values,
                                         content.finite);
  if (check.verdict != APPLIED && check.verdict != REFUSED_INVALID) {
    return MakeVerdict(check.verdict, std::move(check.message));
  }
  Stripe::Push push{IdOf(request.session()),
                    record.sequence(),
                    record.base_shard_epoch(),
                    record.base_version(),
                    content.values,
                    request.weight() == 0 ? 1.0f : request.weight(),
                    TensorCodec::CarriesStatistics(record.format()),
                    std::nullopt,
                    {}};
  if (check.verdict == REFUSED_INVALID) {
    if (check.message.size() > kMaxVerdictMessage) {
      check.message.resize(kMaxVerdictMessage);
    }
    absl::StatusOr<MemoryBudget::Reservation> memory =
        budget_->Reserve(RefusalBytes(check.message.capacity()), absl::StrCat("job ", facts_.job),
                         "a refusal to remember");
    if (!memory.ok()) {
      return MakeVerdict(REFUSED_BUSY, std::string(memory.status().message()));
    }
    push.refusal_memory = *std::move(memory);
    push.invalid = std::move(check.message);
  }
  PushVerdict verdict = stripes_[record.stripe()]->Apply(std::move(push));
  if (verdict.verdict() == APPLIED) {
    staleness_.Add(verdict.staleness());
  }
  return verdict;
}

PushVerdict ShardJob::ContributeRecordOf(const ContributeRequest& request,
                                         const ContributeRecord& record, ChunkCursor* payload,
                                         AlignedFloats* scratch) {
  const Content content = TakeContent(record.stripe(), FLOAT32, record.length(), payload, scratch);
  RecordCheck check =
      ValidateContributeRecord(facts_, request, record, content.values, content.finite);
  if (check.verdict != APPLIED) {
    return MakeVerdict(check.verdict, std::move(check.message));
  }
  const SessionId session = IdOf(request.session());
  if (!stripes_[record.stripe()]->HasSession(session)) {
    return MakeVerdict(REFUSED_SESSION, NotOpen(session));
  }
  ContributionSum::Answer answer = vectors_.Contribute(request.evaluation(), request.contribution(),
                                                       record.stripe(), content.values);
  return MakeVerdict(answer.verdict, std::move(answer.message));
}

void ShardJob::Count(const PushVerdict& verdict) {
  switch (verdict.verdict()) {
    case APPLIED:
      ++applied_;
      break;
    case DUPLICATE:
      ++duplicates_;
      break;
    default:
      ++refused_;
      break;
  }
}

void ShardJob::CopyStripe(uint32_t stripe, std::span<float> out) const {
  stripes_[stripe]->Copy(/*session=*/std::nullopt, out);
}

void ShardJob::WriteStripe(uint32_t stripe, std::span<const float> parameters) {
  stripes_[stripe]->Write(parameters);
}

std::string ShardJob::Snapshot() const {
  std::string bytes;
  for (const auto& stripe : stripes_) {
    bytes += stripe->Snapshot();
  }
  return bytes;
}

}  // namespace monsoon
