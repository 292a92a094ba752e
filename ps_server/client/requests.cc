#include "ps_server/client/requests.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/base/xxh3.h"
#include "common/transport/frame/frame_codec.h"

namespace monsoon {
namespace {

void FillSession(const ParameterClientOptions& options, SessionKey* key) {
  key->set_job(options.job);
  key->set_job_term(options.job_term);
  key->set_worker(options.worker);
  key->set_incarnation(options.incarnation);
}

// Of one question for marks, as the shards take it.
constexpr uint32_t kMaxMarksStripes = 1024;
// Of one request to fetch: what it says of each fits its header.
constexpr size_t kMaxFetchStripes = 4096;

// Stripes [first, end) of one shard that travel in one frame.
struct Group {
  uint32_t first = 0;
  uint32_t end = 0;
  Slice slice;
};

std::span<const std::byte> Part(std::span<const float> vector, const Group& group) {
  return std::as_bytes(vector.subspan(group.slice.begin, group.slice.size()));
}

// Stripes of `stripe_bytes`, that of the longest one, which fit one frame.
uint32_t StripesPerFrame(uint64_t stripe_bytes) {
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(kMaxFramePayloadBytes / stripe_bytes, 1, kMaxFrameRecords));
}

// Calls `visit(group)` for the frames of the shard's stripes `run`.
template <typename Visit>
void ForEachGroup(const ShardMap& map, uint32_t shard, StripeRun run, uint64_t stripe_bytes,
                  Visit visit) {
  const uint32_t fit = StripesPerFrame(stripe_bytes);
  for (uint32_t first = run.first; first < run.end; first += fit) {
    const uint32_t end = std::min(run.end, first + fit);
    visit(Group{first, end, {map.stripe(shard, first).begin, map.stripe(shard, end - 1).end}});
  }
}

// Of a whole shard.
template <typename Visit>
void ForEachGroup(const ShardMap& map, uint32_t shard, uint64_t stripe_bytes, Visit visit) {
  ForEachGroup(map, shard, StripeRun{0, map.stripes(shard)}, stripe_bytes, visit);
}

uint32_t StripeBytes(const ShardMap& map, uint32_t shard, uint32_t stripe) {
  return static_cast<uint32_t>(map.stripe(shard, stripe).size() * sizeof(float));
}

// Where there is none at all the shards are told that, too.
uint32_t Milliseconds(absl::Duration patience) {
  return static_cast<uint32_t>(std::clamp<int64_t>(absl::ToInt64Milliseconds(patience), 1,
                                                   std::numeric_limits<int32_t>::max()));
}

}  // namespace

RequestMaker::RequestMaker(const ParameterClientOptions* options)
    : options_(*options), whole_(options->map.shards()), requests_(options->map.shards()) {
  for (uint32_t shard = 0; shard < options_.map.shards(); ++shard) {
    FillSession(options_, whole_[shard].mutable_session());
    whole_[shard].set_layout_hash(options_.layout_hash);
    whole_[shard].set_stripe_count(options_.map.stripes(shard));
    whole_[shard].set_read_only(options_.read_only);
  }
}

void RequestMaker::Begin() {
  for (std::vector<RequestFrame>& requests : requests_) {
    requests.clear();
  }
  copied_.clear();
}

std::shared_ptr<std::string> RequestMaker::FreeHead() {
  for (size_t i = 0; i < heads_.size(); ++i) {
    next_head_ = (next_head_ + 1) % heads_.size();
    // Transports give up frames in the thread that calls them: this one.
    if (heads_[next_head_].use_count() == 1) {
      return heads_[next_head_];
    }
  }
  return heads_.emplace_back(std::make_shared<std::string>());
}

void RequestMaker::KeepAll() {
  for (const std::vector<RequestFrame>& requests : requests_) {
    for (const RequestFrame& request : requests) {
      KeepPayload(request.frame);
    }
  }
}

void RequestMaker::Add(uint32_t shard, std::span<const std::byte> payload,
                       const std::shared_ptr<KeptBytes>& keep, size_t at) {
  header_.set_request_id(next_request_id_++);
  std::shared_ptr<std::string> head = FreeHead();
  EncodeFrameHead(header_, head.get());
  Frame frame{std::move(head), payload, {}};
  if (keep != nullptr) {
    frame.keep = {keep, keep->bytes().data() + at, &copied_.emplace_back(false)};
  }
  requests_[shard].push_back({header_.request_id(), std::move(frame)});
}

const RequestMaker::ShardRequests& RequestMaker::Push(
    const PushEncoder& encoder, const FetchMarks& base, uint64_t sequence, bool then_fetch,
    std::span<const std::shared_ptr<const KeptRows>> rows) {
  Begin();
  for (uint32_t shard = 0; shard < options_.map.shards(); ++shard) {
    if (!rows.empty()) {
      AddRows(shard, sequence, options_.shard_epochs[shard], *rows[shard]);
    }
    KeptPush push{.sequence = sequence,
                  .shard_epoch = options_.shard_epochs[shard],
                  .bytes = encoder.ShardBytes(shard),
                  .weight = encoder.weight(),
                  .part = encoder.part(),
                  .patience = encoder.patience(),
                  .absent = encoder.absent()};
    if (!base.shard.empty()) {
      push.base = base.shard[shard];
    }
    AddPush(shard, encoder, push, then_fetch);
  }
  return requests_;
}

void RequestMaker::AddPush(uint32_t shard, const PushEncoder& encoder, const KeptPush& kept,
                           bool then_fetch) {
  PushRequest* push = header_.mutable_push();
  FillSession(options_, push->mutable_session());
  push->set_layout_hash(options_.layout_hash);
  push->set_then_fetch(then_fetch);
  push->set_weight(kept.weight);
  push->set_part(kept.part < 1 ? kept.part : 0);
  push->set_patience_ms(options_.rounds ? Milliseconds(kept.patience) : 0);
  push->mutable_absent()->Assign(kept.absent.begin(), kept.absent.end());
  push->set_fetch_format(then_fetch ? options_.fetch_format : FLOAT32);
  const FragmentMap& fragments = options_.fragments;
  const uint64_t sequence = fragments.SequenceOf(kept.sequence);
  size_t offset = 0;
  const auto add = [&](const Group& group) {
    push->clear_record();
    const size_t begin = offset;
    for (uint32_t stripe = group.first; stripe < group.end; ++stripe) {
      PushRecord* record = push->add_record();
      record->set_stripe(stripe);
      record->set_sequence(sequence);
      record->set_shard_epoch(kept.shard_epoch);
      if (!kept.base.empty()) {
        record->set_base_shard_epoch(kept.base[stripe].shard_epoch);
        record->set_base_version(kept.base[stripe].version);
        record->set_dropped(kept.base[stripe].dropped);
      }
      record->set_format(encoder.format());
      record->set_length(static_cast<uint32_t>(encoder.StripeBytes(shard, stripe)));
      offset += encoder.StripeBytes(shard, stripe);
    }
    Add(shard, kept.bytes.subspan(begin, offset - begin), kept.keep, begin);
  };
  // The first stripe is as long as any.
  for (const StripeRun& run : fragments.Runs(fragments.OfPush(kept.sequence), shard)) {
    ForEachGroup(options_.map, shard, run, encoder.StripeBytes(shard, 0), add);
  }
}

void RequestMaker::AddRows(uint32_t shard, uint64_t sequence, uint64_t shard_epoch,
                           const KeptRows& rows) {
  for (size_t i = 0; i < rows.frames.size(); ++i) {
    const KeptRows::Frame& frame = rows.frames[i];
    RowPushRequest* const push = header_.mutable_row_push();
    push->Clear();
    FillSession(options_, push->mutable_session());
    push->set_layout_hash(options_.layout_hash);
    push->set_shard_epoch(shard_epoch);
    push->set_push(sequence);
    push->set_frame(static_cast<uint32_t>(i));
    push->set_last(i + 1 == rows.frames.size());
    push->mutable_table()->Assign(frame.tables.begin(), frame.tables.end());
    Add(shard, std::span(rows.bytes).subspan(frame.begin, frame.end - frame.begin));
  }
}

const RequestMaker::ShardRequests& RequestMaker::FetchRows(const RowFetch& fetch) {
  Begin();
  for (uint32_t shard = 0; shard < fetch.requests().size(); ++shard) {
    for (const RowFetch::Request& request : fetch.requests()[shard]) {
      RowFetchRequest* const rows = header_.mutable_row_fetch();
      FillSession(options_, rows->mutable_session());
      rows->set_layout_hash(options_.layout_hash);
      rows->set_read_only(options_.read_only);
      rows->mutable_table()->Assign(request.tables.begin(), request.tables.end());
      Add(shard, std::as_bytes(std::span(request.numbers)));
    }
  }
  return requests_;
}

size_t RequestMaker::IndexOf(uint32_t shard, uint64_t request_id) const {
  return static_cast<size_t>(
      std::ranges::find(requests_[shard], request_id, &RequestFrame::request_id) -
      requests_[shard].begin());
}

void RequestMaker::AddMarks(uint32_t shard, bool passes) {
  const uint32_t stripes = options_.map.stripes(shard);
  for (uint32_t first = 0; first < stripes; first += kMaxMarksStripes) {
    MarksRequest* marks = header_.mutable_marks();
    FillSession(options_, marks->mutable_session());
    marks->set_layout_hash(options_.layout_hash);
    marks->set_first_stripe(first);
    marks->set_passes(passes);
    marks->set_stripe_count(std::min(stripes - first, kMaxMarksStripes));
    Add(shard, {});
  }
}

const RequestMaker::ShardRequests& RequestMaker::Pass() {
  Begin();
  for (uint32_t shard = 0; shard < options_.map.shards(); ++shard) {
    AddMarks(shard, /*passes=*/true);
  }
  return requests_;
}

uint32_t RequestMaker::FirstMarked(uint32_t shard, uint64_t request_id) const {
  return static_cast<uint32_t>(IndexOf(shard, request_id)) * kMaxMarksStripes;
}

bool RequestMaker::FitsOneFrame(const PushEncoder& encoder) const {
  const ShardMap& map = options_.map;
  for (uint32_t shard = 0; shard < map.shards(); ++shard) {
    if (map.stripes(shard) > StripesPerFrame(encoder.StripeBytes(shard, 0)) ||
        map.stripes(shard) > StripesPerFrame(map.stripe_floats() * sizeof(float))) {
      return false;
    }
  }
  return true;
}

const RequestMaker::ShardRequests& RequestMaker::Contribute(uint64_t evaluation,
                                                            uint32_t contribution,
                                                            std::span<const float> gradient) {
  Begin();
  ContributeRequest* contribute = header_.mutable_contribute();
  FillSession(options_, contribute->mutable_session());
  contribute->set_layout_hash(options_.layout_hash);
  contribute->set_evaluation(evaluation);
  contribute->set_contribution(contribution);
  for (uint32_t shard = 0; shard < options_.map.shards(); ++shard) {
    const uint64_t stripe_bytes = options_.map.stripe_floats() * sizeof(float);
    ForEachGroup(options_.map, shard, stripe_bytes, [&](const Group& group) {
      contribute->clear_record();
      for (uint32_t stripe = group.first; stripe < group.end; ++stripe) {
        ContributeRecord* record = contribute->add_record();
        record->set_stripe(stripe);
        record->set_shard_epoch(options_.shard_epochs[shard]);
        record->set_length(StripeBytes(options_.map, shard, stripe));
      }
      Add(shard, Part(gradient, group));
    });
  }
  return requests_;
}

WriteRequest* RequestMaker::BeginWrite(uint64_t writer) {
  Begin();
  WriteRequest* write = header_.mutable_write();
  write->Clear();
  write->set_job(options_.job);
  write->set_job_term(options_.job_term);
  write->set_layout_hash(options_.layout_hash);
  write->set_writer(writer);
  return write;
}

const RequestMaker::ShardRequests& RequestMaker::Seal(std::span<const float> parameters,
                                                      uint64_t writer) {
  WriteRequest* write = BeginWrite(writer);
  for (uint32_t shard = 0; shard < options_.map.shards(); ++shard) {
    const Slice slice = options_.map.shard(shard);
    write->mutable_seal()->set_checksum(
        Xxh3::Of(std::as_bytes(parameters.subspan(slice.begin, slice.size()))));
    Add(shard, {});
  }
  return requests_;
}

WriteRequest* RequestMaker::BeginStateWrite(uint64_t number) {
  Begin();
  WriteRequest* write = header_.mutable_write();
  write->Clear();
  FillSession(options_, write->mutable_session());
  write->set_layout_hash(options_.layout_hash);
  write->set_writer(number);
  return write;
}

const RequestMaker::ShardRequests& RequestMaker::SealState(
    std::span<const std::span<const float>> slots, uint64_t number) {
  WriteRequest* write = BeginStateWrite(number);
  for (uint32_t shard = 0; shard < options_.map.shards(); ++shard) {
    const Slice slice = options_.map.shard(shard);
    Xxh3 hash;
    for (const std::span<const float> values : slots) {
      CHECK_EQ(values.size(), options_.map.size());
      hash.Add(std::as_bytes(values.subspan(slice.begin, slice.size())));
    }
    write->mutable_seal()->set_checksum(hash.Digest());
    Add(shard, {});
  }
  return requests_;
}

template <typename VersionOf>
const RequestMaker::ShardRequests& RequestMaker::AddWrite(std::span<const float> values,
                                                          VersionOf version_of) {
  WriteRequest* const write = header_.mutable_write();
  for (uint32_t shard = 0; shard < options_.map.shards(); ++shard) {
    const uint64_t stripe_bytes = options_.map.stripe_floats() * sizeof(float);
    ForEachGroup(options_.map, shard, stripe_bytes, [&](const Group& group) {
      write->clear_record();
      for (uint32_t stripe = group.first; stripe < group.end; ++stripe) {
        FetchRecord* record = write->add_record();
        record->set_stripe(stripe);
        record->set_length(StripeBytes(options_.map, shard, stripe));
        record->set_version(version_of(shard, stripe));
      }
      Add(shard, Part(values, group));
    });
  }
  return requests_;
}

const RequestMaker::ShardRequests& RequestMaker::Write(
    std::span<const float> values, const ParameterClient::WriteOptions& options) {
  WriteRequest* write = BeginWrite(options.writer);
  write->set_slot(options.slot);
  write->set_set_version(!options.versions.empty());
  return AddWrite(values, [&](uint32_t shard, uint32_t stripe) -> uint64_t {
    return options.versions.empty() ? 0 : options.versions[shard][stripe];
  });
}

const RequestMaker::ShardRequests& RequestMaker::WriteState(uint32_t slot,
                                                            std::span<const float> values,
                                                            uint64_t version, uint64_t number) {
  WriteRequest* write = BeginStateWrite(number);
  write->set_slot(slot);
  write->set_set_version(true);
  return AddWrite(values, [version](uint32_t, uint32_t) { return version; });
}

const RequestMaker::ShardRequests& RequestMaker::WriteRows(uint32_t table,
                                                           std::span<const KeptRowWrite> writes,
                                                           uint64_t writer) {
  Begin();
  for (const KeptRowWrite& write : writes) {
    RowWriteRequest* const request = header_.mutable_row_write();
    request->set_job(options_.job);
    request->set_job_term(options_.job_term);
    request->set_layout_hash(options_.layout_hash);
    request->set_writer(writer);
    request->set_table(table);
    request->set_first_row(write.first_row);
    request->set_rows(write.rows);
    Add(write.shard, std::as_bytes(std::span(write.floats)));
  }
  return requests_;
}

const FetchRequest& RequestMaker::WholeFetch(uint32_t shard, const std::string& vector,
                                             WireFormat format, uint32_t slot) {
  whole_[shard].set_vector(vector);
  whole_[shard].set_format(format);
  whole_[shard].set_slot(slot);
  whole_[shard].set_after_round(options_.rounds && vector.empty() && slot == 0 &&
                                !options_.read_only);
  return whole_[shard];
}

size_t RequestMaker::StripesPerFetch(size_t stripes) const {
  if (options_.connections == 1) {
    return kMaxFetchStripes;
  }
  // A slow connection leaves some of its part to the others.
  const size_t requests = 2 * size_t{options_.connections};
  return std::clamp<size_t>((stripes + requests - 1) / requests,
                            StripesPerFrame(options_.map.stripe_floats() * sizeof(float)),
                            kMaxFetchStripes);
}

const RequestMaker::ShardRequests& RequestMaker::Fetch(
    std::span<const std::vector<uint32_t>> stripes, const PublicView* view) {
  Begin();
  for (uint32_t shard = 0; shard < stripes.size(); ++shard) {
    const std::vector<uint32_t>& wanted = stripes[shard];
    const size_t most = StripesPerFetch(wanted.size());
    for (size_t begin = 0; begin < wanted.size();) {
      size_t end = begin + 1;
      while (end < wanted.size() && wanted[end] == wanted[end - 1] + 1 && end - begin < most) {
        ++end;
      }
      FetchRequest* fetch = header_.mutable_fetch();
      *fetch = whole_[shard];
      fetch->set_first_stripe(wanted[begin]);
      fetch->set_stripe_count(static_cast<uint32_t>(end - begin));
      if (view != nullptr) {
        view->AddKnown(shard, fetch);
      }
      Add(shard, {});
      begin = end;
    }
  }
  return requests_;
}

}  // namespace monsoon
