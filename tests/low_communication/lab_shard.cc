#include "tests/low_communication/lab_shard.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/xxh3.h"
#include "common/codec/tensor_codec.h"
#include "common/transport/frame/frame_codec.h"
#include "proto/optimizer.pb.h"
#include "proto/parameter_server.pb.h"
#include "proto/tensor.pb.h"

namespace monsoon {
namespace {

constexpr uint64_t kEpoch = 1;
constexpr uint64_t kIncarnation = 1;
constexpr uint64_t kMemory = uint64_t{1} << 32;
constexpr double kTopKShare = 0.01;  // as Downpour.top_k_share

}  // namespace

absl::StatusOr<std::unique_ptr<LabShard>> LabShard::Create(const LabOptions& options,
                                                           std::span<const float> initial) {
  const Downpour& downpour = options.downpour;
  ASSIGN_OR_RETURN(ParameterLayout layout, ParameterLayout::Create(options.model));
  ASSIGN_OR_RETURN(const ShardMap map, ShardMap::Create(layout.size(), 1, options.stripe_bytes));
  FragmentMap fragments = FragmentMap::Whole(map);
  if (downpour.local().has_fragments()) {
    ASSIGN_OR_RETURN(fragments, FragmentMap::Create(downpour.local().fragments(), layout, map));
  }
  if (initial.size() != layout.size()) {
    return absl::InvalidArgumentError(absl::StrCat("initial parameters of ", initial.size(),
                                                   " floats; the layout has ", layout.size()));
  }
  if (downpour.workers() == 0) {
    return absl::InvalidArgumentError("downpour.workers is unset; how many are there?");
  }
  std::unique_ptr<LabShard> lab(
      new LabShard(options, std::move(layout), map, std::move(fragments)));
  RETURN_IF_ERROR(lab->Start(initial));
  return lab;
}

LabShard::LabShard(const LabOptions& options, ParameterLayout layout, ShardMap map,
                   FragmentMap fragments)
    : options_(options),
      layout_(std::move(layout)),
      map_(map),
      fragments_(std::move(fragments)),
      pace_(std::max(1u, options.downpour.local().steps())),
      scratch_(kMaxFramePayloadBytes / sizeof(float)),
      frame_(kMaxFramePayloadBytes / sizeof(float)) {}

absl::Status LabShard::Start(std::span<const float> initial) {
  const Downpour& downpour = options_.downpour;
  ShardOptions shard;
  shard.cluster = "lab";
  shard.shard_epoch = kEpoch;
  shard.memory_limit_bytes = kMemory;
  shard.clock = &clock_;
  shard_ = std::make_unique<Shard>(std::move(shard));
  CreateShardJobRequest create;
  create.set_job("lab");
  *create.mutable_model() = options_.model;
  *create.mutable_optimizer() = downpour.optimizer();
  create.set_shards(1);
  create.set_max_stripe_bytes(options_.stripe_bytes);
  create.set_layout_hash(layout_.Hash());
  create.set_written_by_client(true);
  if (downpour.has_rounds()) {
    *create.mutable_rounds() = downpour.rounds();
  }
  RETURN_IF_ERROR(shard_->CreateJob(create).status());
  RETURN_IF_ERROR(WriteInitial(initial));
  for (uint32_t i = 0; i < downpour.workers(); ++i) {
    Worker worker;
    worker.session.set_job("lab");
    worker.session.set_worker(i);
    worker.session.set_incarnation(kIncarnation);
    RETURN_IF_ERROR(shard_->OpenSession(worker.session).status());
    worker.base.resize(map_.stripes(0));
    const double share = downpour.top_k_share() > 0 ? downpour.top_k_share() : kTopKShare;
    ASSIGN_OR_RETURN(auto codec, TensorCodec::Create(downpour.push_format(), share));
    const double decay = downpour.has_residual_decay() ? downpour.residual_decay() : 1;
    worker.encoder = std::make_unique<PushEncoder>(map_, fragments_, downpour.push_format(),
                                                   std::move(codec), std::vector<Slice>(), decay);
    workers_.push_back(std::move(worker));
  }
  return absl::OkStatus();
}

absl::Status LabShard::WriteInitial(std::span<const float> initial) {
  WriteRequest request;
  request.set_job("lab");
  request.set_layout_hash(layout_.Hash());
  request.set_writer(1);
  for (uint32_t stripe = 0; stripe < map_.stripes(0); ++stripe) {
    const Slice slice = map_.stripe(0, stripe);
    const std::vector<ByteChunk> chunks = {
        std::as_bytes(initial.subspan(slice.begin, slice.size()))};
    request.clear_record();
    FetchRecord* const record = request.add_record();
    record->set_stripe(stripe);
    record->set_length(static_cast<uint32_t>(slice.size() * sizeof(float)));
    ChunkCursor cursor(chunks);
    RETURN_IF_ERROR(shard_->Write(request, &cursor, &scratch_).status());
  }
  request.clear_record();
  request.mutable_seal()->set_checksum(Xxh3::Of(std::as_bytes(initial)));
  ChunkCursor nothing({});
  return shard_->Write(request, &nothing, &scratch_).status();
}

absl::StatusOr<LabShard::Worker*> LabShard::FindWorker(uint32_t worker) {
  if (worker >= workers_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker/", worker, "; there are ", workers_.size()));
  }
  return &workers_[worker];
}

absl::StatusOr<LabShard::Pushed> LabShard::Push(uint32_t worker, std::span<const float> difference,
                                                float weight) {
  ASSIGN_OR_RETURN(Worker* const self, FindWorker(worker));
  const uint64_t push = ++self->pushes;
  self->encoder->Encode(push, difference);
  self->encoder->set_weight(weight);
  Pushed pushed;
  pushed.fragment = fragments_.OfPush(push);
  const std::vector<uint32_t> stripes = fragments_.StripesOf(pushed.fragment, 0);
  const uint64_t stripe_bytes = map_.stripe_floats() * sizeof(float);
  const size_t fit = std::min<uint64_t>(kMaxFrameRecords, kMaxFramePayloadBytes / stripe_bytes);
  for (size_t i = 0; i < stripes.size(); i += fit) {
    const auto part = std::span(stripes).subspan(i, std::min(fit, stripes.size() - i));
    RETURN_IF_ERROR(PushStripes(self, part, fragments_.SequenceOf(push), &pushed));
  }
  return pushed;
}

absl::Status LabShard::PushStripes(Worker* worker, std::span<const uint32_t> stripes,
                                   uint64_t sequence, Pushed* pushed) {
  PushRequest request;
  *request.mutable_session() = worker->session;
  request.set_layout_hash(layout_.Hash());
  request.set_weight(worker->encoder->weight());
  std::vector<ByteChunk> chunks;
  for (const uint32_t stripe : stripes) {
    const ByteChunk bytes = worker->encoder->Bytes(0, stripe, stripe + 1);
    PushRecord* const record = request.add_record();
    record->set_stripe(stripe);
    record->set_sequence(sequence);
    record->set_shard_epoch(kEpoch);
    if (worker->base[stripe].has_value()) {
      record->set_base_shard_epoch(kEpoch);
      record->set_base_version(*worker->base[stripe]);
    }
    record->set_format(worker->encoder->format());
    record->set_length(static_cast<uint32_t>(bytes.size()));
    chunks.push_back(bytes);
    pushed->bytes += bytes.size();
  }
  ChunkCursor cursor(chunks);
  ASSIGN_OR_RETURN(const PushReply reply, shard_->Push(request, &cursor, &scratch_));
  for (const PushVerdict& verdict : reply.verdict()) {
    if (verdict.verdict() != APPLIED) {
      return absl::FailedPreconditionError(absl::StrCat(
          "worker/", worker->session.worker(), ": stripe ", verdict.stripe(), " answers ",
          Verdict_Name(verdict.verdict()), " to sequence ", sequence, ": ", verdict.message()));
    }
    ++pushed->stripes;
    pushed->staleness += std::max<int64_t>(0, verdict.staleness());
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> LabShard::Fetch(uint32_t worker, std::optional<uint32_t> fragment,
                                     std::span<float> out) {
  ASSIGN_OR_RETURN(Worker* const self, FindWorker(worker));
  if (fragment.has_value() && *fragment >= fragments_.count()) {
    return absl::InvalidArgumentError(
        absl::StrCat("fragment ", *fragment, " of ", fragments_.count()));
  }
  const std::vector<StripeRun> runs = fragment.has_value()
                                          ? fragments_.Runs(*fragment, 0)
                                          : std::vector<StripeRun>{{0, map_.stripes(0)}};
  const std::shared_ptr<ShardJob> job = shard_->FindJob("lab");
  for (const StripeRun& run : runs) {
    const absl::Status over =
        job->fetches()->CheckRounds({worker, kIncarnation}, run.first, run.end - run.first);
    if (absl::IsUnavailable(over)) {
      return false;
    }
    RETURN_IF_ERROR(over);
  }
  for (const StripeRun& run : runs) {
    RETURN_IF_ERROR(Copy(self, run.first, run.end, out, &self->base));
  }
  return true;
}

absl::Status LabShard::Pass(uint32_t worker) {
  ASSIGN_OR_RETURN(Worker* const self, FindWorker(worker));
  MarksRequest request;
  *request.mutable_session() = self->session;
  request.set_layout_hash(layout_.Hash());
  request.set_passes(true);
  constexpr uint32_t kStripesAtOnce = 256;
  for (uint32_t first = 0; first < map_.stripes(0); first += kStripesAtOnce) {
    request.set_first_stripe(first);
    request.set_stripe_count(std::min(kStripesAtOnce, map_.stripes(0) - first));
    RETURN_IF_ERROR(shard_->Marks(request).status());
  }
  return absl::OkStatus();
}

absl::Status LabShard::Read(std::span<float> out) {
  return Copy(nullptr, 0, map_.stripes(0), out, nullptr);
}

absl::Status LabShard::Copy(const Worker* worker, uint32_t first, uint32_t end,
                            std::span<float> out, std::vector<std::optional<uint64_t>>* base) {
  const std::shared_ptr<ShardJob> job = shard_->FindJob("lab");
  std::optional<SessionId> session;
  if (worker != nullptr) {
    session = SessionId{worker->session.worker(), worker->session.incarnation()};
  }
  while (first < end) {
    ASSIGN_OR_RETURN(const SliceFetches::Copied copied,
                     job->fetches()->CopyStripes(session, first, end, nullptr, FLOAT32, &frame_));
    std::span<const float> floats = frame_.span();
    for (const FetchRecord& record : copied.records) {
      const Slice slice = map_.stripe(0, record.stripe());
      std::ranges::copy(floats.first(slice.size()),
                        out.begin() + static_cast<ptrdiff_t>(slice.begin));
      floats = floats.subspan(slice.size());
      if (base != nullptr) {
        (*base)[record.stripe()] = record.version();
      }
    }
    first += static_cast<uint32_t>(copied.records.size());
  }
  return absl::OkStatus();
}

uint32_t LabShard::LocalSteps(uint32_t worker, double step_ms) {
  pace_.Note(worker, step_ms);
  return pace_.LocalSteps(worker);
}

}  // namespace monsoon
