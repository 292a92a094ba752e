// Parts that hold anything behind right checksums, and a shard with a small memory budget
// that is to go on from them (FuzzCalls: an even kind writes a part with the record that
// the message is, an odd one is an order to restore in a new life of the shard). The order
// is refused for a reason that the coordinator can act on, or the slice serves: sessions
// open and close, what it writes can be read, and the next life restores it again.
//
// With the first flag a message is merged into a right one; with the second one a record's
// layout hash, with the third the number of its stripes is made right; with the fourth the right
// one is of a job with tables.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/checkpoint/checkpoint.h"
#include "common/memory/aligned_floats.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "common/model/table_info.h"
#include "common/model/table_map.h"
#include "common/storage/simulated_storage.h"
#include "common/testing/fuzz/fuzz_answer.h"
#include "common/testing/fuzz/fuzz_calls.h"
#include "common/transport/frame/frame_codec.h"
#include "proto/optimizer.pb.h"
#include "ps_server/checkpoint/checkpoint_keeper.h"
#include "ps_server/checkpoint/kept_parts.h"
#include "ps_server/shard/session_table.h"
#include "ps_server/shard/shard.h"
#include "ps_server/shard/shard_job.h"

namespace monsoon {
namespace {

constexpr uint64_t kMemoryBytes = 1 << 20;
constexpr uint64_t kMostFloats = 4096;
constexpr size_t kMostCalls = 8;
constexpr char kStateDir[] = "/state";
constexpr absl::Duration kPatience = absl::Seconds(30);

// Two stripes of 32 floats; of tables each one stripe.
CreateShardJobRequest RightCreate(bool tables) {
  CreateShardJobRequest request;
  request.set_job("job-1");
  request.set_job_term(3);
  if (tables) {
    ModelTensor* const tensor = request.mutable_model()->add_tensor();
    tensor->set_name("w");
    tensor->add_shape(64);
    for (const char* const name : {"words", "users", "items"}) {
      Table* const table = request.mutable_model()->add_table();
      table->set_name(name);
      table->set_rows(5);
      table->set_columns(3);
    }
  } else {
    request.mutable_model()->add_input_shape(8);
    Dense* const dense = request.mutable_model()->add_layer()->mutable_dense();
    dense->set_units(8);
    dense->set_no_bias(true);
  }
  request.mutable_optimizer()->mutable_adagrad()->set_rate(0.1);
  request.set_shards(1);
  request.set_max_stripe_bytes(128);
  return request;
}

void SetRightHash(CreateShardJobRequest* request) {
  if (const auto layout = ParameterLayout::Create(request->model()); layout.ok()) {
    request->set_layout_hash(layout->Hash());
  }
}

// Nothing for bytes that are no message.
template <typename Message>
std::optional<Message> Read(const FuzzCall& call, const Message& right) {
  Message message;
  if (call.flag(0)) {
    message = right;
  }
  return message.MergeFromString(call.message) ? std::optional(std::move(message)) : std::nullopt;
}

// Floats of each of the record's stripes of rows. Nothing, where a slice has no such ones.
std::optional<std::vector<size_t>> RowStripeFloats(const ShardCheckpoint& record,
                                                   const std::vector<TableMap>& tables) {
  std::vector<size_t> floats;
  size_t sum = 0;
  std::pair<uint32_t, uint32_t> least(0, 0);
  for (const RowStripeRecord& stripe : record.row_stripe()) {
    const std::pair place(stripe.table(), stripe.stripe());
    if (place < least || stripe.table() >= tables.size()) {
      return std::nullopt;
    }
    const TableMap& map = tables[stripe.table()];
    const uint64_t first = uint64_t{stripe.stripe()} * map.stripe_rows();
    const uint64_t rows = map.rows_of(record.create().shard());
    if (first >= rows) {
      return std::nullopt;
    }
    floats.push_back(std::min<uint64_t>(map.stripe_rows(), rows - first) *
                     (map.columns() + size_t{1}));
    if ((sum += floats.back()) > kMostFloats) {
      return std::nullopt;
    }
    least = {stripe.table(), stripe.stripe() + 1};
  }
  return floats;
}

// The record's part, with floats that tell places apart. Where the record can be no
// part's: nothing.
void WritePart(const FuzzCall& call, SimulatedStorage* storage) {
  ShardCheckpoint right;
  *right.mutable_create() = RightCreate(call.flag(3));
  right.set_generation(1);
  right.set_shard_epoch(5);
  right.set_state_slots(1);
  std::optional<ShardCheckpoint> record = Read(call, right);
  if (!record.has_value()) {
    return;
  }
  if (call.flag(1)) {
    SetRightHash(record->mutable_create());
  }
  const CreateShardJobRequest& create = record->create();
  const auto layout = ParameterLayout::Create(create.model());
  if (!layout.ok() || layout->size() > kMostFloats || layout->Hash() != create.layout_hash()) {
    return;
  }
  const auto map = ShardMap::Create(layout->size(), create.shards(), create.max_stripe_bytes());
  if (!map.ok() || create.shard() >= create.shards() || record->state_slots() > 5) {
    return;
  }
  const auto stripes = static_cast<int>(map->stripes(create.shard()));
  if (!call.flag(2) && record->stripe_size() != stripes) {
    return;
  }
  const auto tables = TableMaps(layout->tables(), create.shards());
  const auto row_floats =
      tables.ok() ? RowStripeFloats(*record, *tables) : std::optional<std::vector<size_t>>();
  if (!row_floats.has_value()) {
    return;
  }
  ShardCheckpoint content = *record;
  content.clear_stripe();
  content.clear_row_stripe();
  const std::string folder = JobFolder(kStateDir, create.job(), create.job_term());
  const auto writer = PartWriter::Create(storage, folder, *layout, content);
  if (!writer.ok()) {
    return;
  }
  for (int i = 0; i < stripes; ++i) {
    const Slice stripe = map->stripe(create.shard(), static_cast<uint32_t>(i));
    const std::vector<float> floats(stripe.size(), static_cast<float>(i + 1));
    const std::vector<std::span<const float>> vectors(
        static_cast<size_t>(content.context().vector_size()), floats);
    const std::vector<float> state(floats.size() * content.state_slots(),
                                   static_cast<float>(i + 1));
    const StripeRecord known = i < record->stripe_size() ? record->stripe(i) : StripeRecord();
    CHECK_OK((*writer)->AddStripe(floats, state, vectors, known));
  }
  std::vector<uint64_t> table_floats(tables->size(), 0);
  for (size_t i = 0; i < row_floats->size(); ++i) {
    table_floats[record->row_stripe(static_cast<int>(i)).table()] += (*row_floats)[i];
  }
  (*writer)->SetTableFloats(table_floats);
  for (size_t i = 0; i < row_floats->size(); ++i) {
    const std::vector<float> floats((*row_floats)[i], static_cast<float>(i + 1));
    CHECK_OK((*writer)->AddRowStripe(floats, record->row_stripe(static_cast<int>(i))));
  }
  // A record that a reader refuses is no part: writing it reads it back.
  (*writer)->Finish([] { return absl::OkStatus(); }).status().IgnoreError();
}

void CheckAnswer(const absl::Status& status) { CHECK_OK(JudgeFuzzAnswer(status)); }

// A life of the shard.
class Life {
 public:
  Life(uint64_t epoch, SimulatedStorage* storage)
      : storage_(storage),
        shard_({"fuzz", 0, epoch, kMemoryBytes}),
        keeper_({.state_dir = kStateDir, .check_owner = [] { return absl::OkStatus(); }}, storage) {
  }
  ~Life() { CHECK_LE(shard_.GetStatus({})->memory_used_bytes(), kMemoryBytes); }

  absl::StatusOr<RestoreShardJobReply> Restore(const RestoreShardJobRequest& request) {
    return keeper_.Restore(&shard_, request);
  }

  // The job that was restored lives on.
  void Use(const RestoreShardJobRequest& request, const RestoreShardJobReply& reply) {
    const CreateShardJobRequest& create = request.create();
    const std::shared_ptr<ShardJob> job = shard_.FindJob(create.job(), create.job_term());
    CHECK(job != nullptr);
    for (const SessionKey& session : request.session()) {
      MarksRequest marks;
      *marks.mutable_session() = session;
      marks.set_layout_hash(create.layout_hash());
      marks.set_stripe_count(job->stripes()->count());
      shard_.Marks(marks).status().IgnoreError();
      if (job->tables() != nullptr) {
        UseRows(session, *job);
      }
      CheckSession(shard_.OpenSession(session, create.term()).status());
      CheckSession(shard_.CloseSession(session, create.term()).status());
    }
    CheckpointRequest order;
    order.set_job(create.job());
    order.set_job_term(create.job_term());
    order.set_term(create.term());
    order.set_generation(std::max(reply.generation(), reply.generation() + 1));
    const absl::Status ordered = keeper_.Order(job, order);
    CHECK(ordered.ok() || order.generation() == reply.generation());
    CHECK(keeper_.AwaitIdle(kPatience));
    const std::string folder = JobFolder(kStateDir, create.job(), create.job_term());
    bool written = false;
    const std::vector<OwnPart> parts = *ListOwnParts(*storage_, folder, create.shard());
    for (const OwnPart& found : parts) {
      if (found.whole && found.name.epoch == shard_.shard_epoch()) {
        const auto part = PartReader::Open(storage_, found.files.manifest);
        CHECK_OK(part.status());
        CHECK_OK((*part)->Verify());
        written = true;
      }
    }
    CHECK(written || !ordered.ok());
  }

 private:
  // Rows can be read, and the session's next push of some is taken.
  void UseRows(const SessionKey& session, const ShardJob& job) {
    const CreateShardJobRequest& create = job.request();
    RowFetchRequest fetch;
    *fetch.mutable_session() = session;
    fetch.set_read_only(true);
    fetch.set_layout_hash(create.layout_hash());
    RowPushRequest push;
    *push.mutable_session() = session;
    push.set_layout_hash(create.layout_hash());
    push.set_shard_epoch(shard_.shard_epoch());
    const SessionId id{session.worker(), session.incarnation()};
    push.set_push(job.tables()->Marks(id).applied() + 1);
    push.set_last(true);
    std::vector<uint32_t> rows;  // the first one of each table
    std::vector<uint32_t> pushed;
    const auto maps = TableMaps(job.tables()->tables(), create.shards());
    CHECK_OK(maps.status());
    for (const TableMap& map : *maps) {
      const auto table = static_cast<uint32_t>(fetch.table_size());
      TableRows* const listed = fetch.add_table();
      listed->set_table(table);
      listed->set_rows(map.rows_of(create.shard()) > 0 ? 1 : 0);
      *push.add_table() = *listed;
      rows.resize(rows.size() + listed->rows());
      pushed.resize(pushed.size() + listed->rows() * (1 + map.columns()));  // zeros
    }
    CheckAnswer(WithPayload(
        rows, [&](ChunkCursor* payload) { return shard_.FetchRows(fetch, payload).status(); }));
    CHECK_OK(WithPayload(pushed, [&](ChunkCursor* payload) -> absl::Status {
      AlignedFloats scratch(pushed.size());
      const auto reply = shard_.PushRows(push, payload, &scratch);
      if (!reply.ok()) {
        return reply.status();
      }
      const Verdict verdict = reply->verdict();
      CHECK(verdict == APPLIED || verdict == REFUSED_SESSION);
      return absl::OkStatus();
    }));
  }
  template <typename Call>
  static absl::Status WithPayload(const std::vector<uint32_t>& words, Call call) {
    const ByteChunk chunk = std::as_bytes(std::span(words));
    ChunkCursor cursor({&chunk, 1});
    return call(&cursor);
  }
  static void CheckSession(const absl::Status& status) {
    CHECK(status.ok() || absl::IsFailedPrecondition(status) || absl::IsResourceExhausted(status));
  }

  SimulatedStorage* const storage_;
  Shard shard_;
  CheckpointKeeper keeper_;
};

void Fuzz(const uint8_t* data, size_t size) {
  FuzzCalls calls(data, size);
  SimulatedStorage storage;
  uint64_t epoch = 100;
  for (size_t i = 0; i < kMostCalls; ++i) {
    const std::optional<FuzzCall> call = calls.Next();
    if (!call.has_value()) {
      break;
    }
    if (call->kind % 2 == 0) {
      WritePart(*call, &storage);
      continue;
    }
    RestoreShardJobRequest right;
    *right.mutable_create() = RightCreate(call->flag(3));
    std::optional<RestoreShardJobRequest> request = Read(*call, right);
    if (!request.has_value()) {
      continue;
    }
    if (call->flag(1)) {
      SetRightHash(request->mutable_create());
    }
    const auto restored = Life(++epoch, &storage).Restore(*request);
    CheckAnswer(restored.status());
    if (restored.ok()) {
      Life next(++epoch, &storage);
      const auto again = next.Restore(*request);
      CHECK_OK(again.status());
      CHECK_EQ(again->generation(), restored->generation());
      next.Use(*request, *again);
    }
  }
}

}  // namespace
}  // namespace monsoon

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  monsoon::Fuzz(data, size);
  return 0;
}
