#include "ps_server/shard/table_slice.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/finite.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

// Of a session in each stripe that it has touched, where lists grow by doubling; and beside
// those.
constexpr uint64_t kSessionInStripeBytes = 48;
constexpr uint64_t kRowSessionBytes = 256;

// Rows beyond a stripe's that are brought to the caches.
constexpr size_t kAhead = 16;

RowPushReply Refuse(Verdict verdict, std::string why) {
  RowPushReply reply;
  reply.set_verdict(verdict);
  reply.set_message(std::move(why));
  return reply;
}

// The payload in one piece: where it came, or in the scratch.
const std::byte* InOnePiece(ChunkCursor* payload, AlignedFloats* scratch) {
  const size_t size = payload->remaining();
  if (const std::byte* const there = payload->Peek(size, alignof(float))) {
    return there;
  }
  const std::span<std::byte> copy = std::as_writable_bytes(scratch->span()).first(size);
  payload->Copy(size, copy.data());
  return copy.data();
}

}  // namespace

TableSlice::TableSlice(const JobFacts* facts, uint64_t seed, std::vector<TableInfo> tables)
    : facts_(*facts), tables_(std::move(tables)) {
  const absl::StatusOr<std::vector<TableMap>> maps = TableMaps(tables_, facts_.map.shards());
  CHECK_OK(maps.status());  // TableBytes has made the same ones
  for (uint32_t index = 0; index < tables_.size(); ++index) {
    const TableMap& map = (*maps)[index];
    OwnTable own{map, map.rows_of(facts_.shard), {}};
    const uint64_t first = map.first_row(facts_.shard);
    for (uint64_t row = 0; row < own.rows; row += map.stripe_rows()) {
      own.stripes.push_back(std::make_unique<RowStripe>(RowStripe::Place{
          &tables_[index], index, seed, first + row,
          static_cast<uint32_t>(std::min<uint64_t>(map.stripe_rows(), own.rows - row))}));
    }
    own_.push_back(std::move(own));
  }
}

uint64_t TableSlice::SessionBytes() const {
  uint64_t stripes = 0;
  for (const OwnTable& table : own_) {
    stripes += table.stripes.size();
  }
  return kRowSessionBytes + stripes * kSessionInStripeBytes;
}

template <typename Visit>
void TableSlice::ByStripe(const OwnTable& table, std::span<const uint32_t> rows, Visit visit) {
  const uint32_t stripe_rows = table.map.stripe_rows();
  size_t asked = 0;  // for the caches: few rows are of one stripe, and each is a miss
  for (size_t begin = 0; begin < rows.size();) {
    const uint32_t stripe = rows[begin] / stripe_rows;
    const uint32_t base = stripe * stripe_rows;
    size_t end = begin + 1;
    while (end < rows.size() && rows[end] >= base && rows[end] - base < stripe_rows) {
      ++end;
    }
    for (; asked < std::min(rows.size(), end + kAhead); ++asked) {
      table.stripes[rows[asked] / stripe_rows]->Prefetch(rows[asked] % stripe_rows);
    }
    visit(table.stripes[stripe].get(), rows.subspan(begin, end - begin), base, begin);
    begin = end;
  }
}

std::shared_ptr<TableSlice::Session> TableSlice::Find(SessionId session) const {
  MutexLock lock(&sessions_mutex_);
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? nullptr : found->second;
}

absl::Status TableSlice::CheckTables(const google::protobuf::RepeatedPtrField<TableRows>& tables,
                                     bool with_values, uint64_t payload) const {
  uint64_t bytes = 0, values = 0;
  for (const TableRows& part : tables) {
    if (part.table() >= own_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("job ", facts_.job, ": table ", part.table(), " of ", own_.size()));
    }
    const TableMap& map = own_[part.table()].map;
    bytes += uint64_t{part.rows()} * (with_values ? map.row_bytes() : TableMap::kNumberBytes);
    values += uint64_t{part.rows()} * map.columns() * sizeof(float);
  }
  if (bytes != payload || values > kMaxFramePayloadBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "job ", facts_.job, ": a frame of rows with ", payload, " bytes, where its ", tables.size(),
        " tables take ", bytes, "; values at most ", kMaxFramePayloadBytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TableSlice::Part>> TableSlice::CheckContent(
    const RowPushRequest& request, const std::byte* at) const {
  std::vector<Part> parts;
  std::vector<bool> seen(own_.size(), false);
  for (const TableRows& listed : request.table()) {
    Part part;
    part.table = &own_[listed.table()];
    const TableMap& map = part.table->map;
    const std::string& name = tables_[listed.table()].name;
    // A stripe that both have rows of would take the first ones alone.
    if (seen[listed.table()]) {
      return absl::InvalidArgumentError(
          absl::StrCat("job ", facts_.job, ": table \"", name, "\" is there twice in a frame"));
    }
    seen[listed.table()] = true;
    part.rows = {reinterpret_cast<const uint32_t*>(at), listed.rows()};
    at += part.rows.size_bytes();
    part.values = reinterpret_cast<const float*>(at);
    at += size_t{listed.rows()} * map.columns() * sizeof(float);
    for (size_t i = 0; i < part.rows.size(); ++i) {
      if (part.rows[i] >= part.table->rows || (i > 0 && part.rows[i] <= part.rows[i - 1])) {
        return absl::InvalidArgumentError(
            absl::StrCat("job ", facts_.job, ": table \"", name, "\": row ", part.rows[i], " of ",
                         part.table->rows, " comes after row ",
                         i > 0 ? absl::StrCat(part.rows[i - 1]) : "none", "; they must rise"));
      }
    }
    const std::span<const float> values(part.values, part.rows.size() * map.columns());
    if (const std::optional<uint64_t> bad = FirstNonFinite(values)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "job ", facts_.job, ": table \"", name, "\": the gradient of row ",
          part.rows[*bad / map.columns()], ", column ", *bad % map.columns(), ", is not finite"));
    }
    parts.push_back(part);
  }
  return parts;
}

absl::StatusOr<RowPushReply> TableSlice::Push(const RowPushRequest& request, ChunkCursor* payload,
                                              AlignedFloats* scratch, bool draining) {
  const SessionId id{request.session().worker(), request.session().incarnation()};
  if (request.layout_hash() != facts_.layout_hash) {
    return Refuse(REFUSED_REQUEST, "the job has another layout here");
  }
  if (request.shard_epoch() != facts_.shard_epoch) {
    return Refuse(REFUSED_EPOCH, absl::StrCat("the shard's epoch is ", facts_.shard_epoch));
  }
  if (draining) {
    return Refuse(REFUSED_BUSY, "the shard is draining");
  }
  RETURN_IF_ERROR(CheckTables(request.table(), /*with_values=*/true, payload->remaining()));
  const std::shared_ptr<Session> session = Find(id);
  if (session == nullptr) {
    return Refuse(REFUSED_SESSION, NotOpen(id));
  }
  MutexLock lock(&session->mutex);
  if (!session->open) {
    return Refuse(REFUSED_SESSION, NotOpen(id));
  }
  RowPushReply reply;
  reply.set_durable_push(session->durable);
  const uint64_t next = session->last + 1;
  if (request.push() < next || (request.push() == next && request.frame() < session->frames)) {
    reply.set_verdict(DUPLICATE);
    return reply;
  }
  if (request.push() > next || request.frame() > session->frames) {
    return Refuse(REFUSED_GAP,
                  absl::StrCat("rows of push ", request.push(), ", frame ", request.frame(),
                               ", where push ", next, ", frame ", session->frames, ", is next"));
  }
  ASSIGN_OR_RETURN(const std::vector<Part> parts,
                   CheckContent(request, InOnePiece(payload, scratch)));
  for (const Part& part : parts) {
    const uint32_t columns = part.table->map.columns();
    ByStripe(*part.table, part.rows,
             [&](RowStripe* stripe, std::span<const uint32_t> rows, uint32_t base, size_t first) {
               if (stripe->Apply(id, request.push(), rows, base, part.values + first * columns)) {
                 rows_applied_ += rows.size();
               }
             });
  }
  ++session->frames;
  if (request.last()) {
    session->last = next;
    session->frames = 0;
    if (session->mark != nullptr && session->mark->load(std::memory_order_relaxed) < next) {
      session->mark->store(next, std::memory_order_relaxed);
    }
  }
  reply.set_verdict(APPLIED);
  return reply;
}

absl::StatusOr<TableSlice::Rows> TableSlice::Fetch(const RowFetchRequest& request,
                                                   ChunkCursor* payload) const {
  if (request.layout_hash() != facts_.layout_hash) {
    return absl::InvalidArgumentError(
        absl::StrCat("job ", facts_.job, ": the job has another layout here"));
  }
  RETURN_IF_ERROR(CheckTables(request.table(), /*with_values=*/false, payload->remaining()));
  Rows rows;
  if (!request.read_only()) {
    const SessionId id{request.session().worker(), request.session().incarnation()};
    const std::shared_ptr<Session> session = Find(id);
    const absl::Status closed =
        absl::FailedPreconditionError(absl::StrCat("job ", facts_.job, ": ", NotOpen(id)));
    if (session == nullptr) {
      return closed;
    }
    MutexLock lock(&session->mutex);
    if (!session->open) {
      return closed;
    }
    rows.applied_push = session->last;
  }
  std::vector<uint32_t> numbers(payload->remaining() / sizeof(uint32_t));
  payload->Copy(payload->remaining(), numbers.data());
  uint64_t floats = 0;
  for (const TableRows& part : request.table()) {
    floats += uint64_t{part.rows()} * own_[part.table()].map.columns();
  }
  rows.values = std::make_shared<AlignedFloats>(AlignedFloats::Uninitialized(floats));
  float* out = rows.values->data();
  std::span<const uint32_t> left = numbers;
  for (const TableRows& part : request.table()) {
    const OwnTable& table = own_[part.table()];
    const std::span<const uint32_t> wanted = left.first(part.rows());
    left = left.subspan(part.rows());
    const auto beyond =
        std::ranges::find_if(wanted, [&](uint32_t row) { return row >= table.rows; });
    if (beyond != wanted.end()) {
      return absl::InvalidArgumentError(absl::StrCat("job ", facts_.job, ": table \"",
                                                     tables_[part.table()].name, "\": row ",
                                                     *beyond, " of ", table.rows));
    }
    const uint32_t columns = table.map.columns();
    ByStripe(table, wanted,
             [&](const RowStripe* stripe, std::span<const uint32_t> run, uint32_t base,
                 size_t first) { stripe->Read(run, base, out + first * columns); });
    out += wanted.size() * columns;
  }
  rows_fetched_ += numbers.size();
  return rows;
}

absl::Status TableSlice::Write(const RowWriteRequest& request, ChunkCursor* payload,
                               AlignedFloats* scratch) {
  if (request.table() >= own_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("job ", facts_.job, ": table ", request.table(), " of ", own_.size()));
  }
  const OwnTable& table = own_[request.table()];
  const uint64_t end = uint64_t{request.first_row()} + request.rows();
  const uint64_t values = uint64_t{request.rows()} * table.map.columns();
  if (end > table.rows || payload->remaining() != (values + request.rows()) * sizeof(float)) {
    return absl::InvalidArgumentError(
        absl::StrCat("job ", facts_.job, ": table \"", tables_[request.table()].name,
                     "\": a write of rows ", request.first_row(), " to ", end, " of ", table.rows,
                     " with ", payload->remaining(), " bytes"));
  }
  const auto* const at = reinterpret_cast<const float*>(InOnePiece(payload, scratch));
  const std::span<const float> floats(at, values + request.rows());
  if (!AllFinite(floats) ||
      std::ranges::any_of(floats.subspan(values), [](float sum) { return sum < 0; })) {
    return absl::InvalidArgumentError(
        absl::StrCat("job ", facts_.job, ": table \"", tables_[request.table()].name,
                     "\": a write of values that are not finite, or of sums below 0"));
  }
  const uint32_t stripe_rows = table.map.stripe_rows();
  for (uint32_t row = request.first_row(); row < end;) {
    const uint32_t within = row % stripe_rows;
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(end - row, stripe_rows - within));
    const uint32_t done = row - request.first_row();
    table.stripes[row / stripe_rows]->Write(within, count, at + size_t{done} * table.map.columns(),
                                            at + values + done);
    row += count;
  }
  return absl::OkStatus();
}

void TableSlice::Open(SessionId id, std::atomic<uint64_t>* mark) {
  const auto session = std::make_shared<Session>();
  {
    MutexLock lock(&session->mutex);
    session->mark = mark;
  }
  MutexLock lock(&sessions_mutex_);
  sessions_[id] = session;
}

uint64_t TableSlice::Close(SessionId id, bool keep) {
  const std::shared_ptr<Session> session = Find(id);
  if (session == nullptr) {
    return 0;
  }
  uint64_t last = 0;
  {
    MutexLock lock(&session->mutex);
    session->open = false;
    session->mark = nullptr;
    last = session->last;
  }
  for (const OwnTable& table : own_) {
    for (const auto& stripe : table.stripes) {
      stripe->Forget(id);
    }
  }
  if (!keep) {
    Forget(id);
  }
  return last;
}

void TableSlice::KeepClosed(SessionId id, uint64_t last) {
  const auto session = std::make_shared<Session>();
  {
    MutexLock lock(&session->mutex);
    session->open = false;
    session->last = last;
  }
  MutexLock lock(&sessions_mutex_);
  sessions_[id] = session;
}

void TableSlice::Forget(SessionId session) {
  MutexLock lock(&sessions_mutex_);
  sessions_.erase(session);
}

bool TableSlice::IsBehind(SessionId id) const {
  const std::shared_ptr<Session> session = Find(id);
  if (session == nullptr) {
    return false;
  }
  MutexLock lock(&session->mutex);
  return session->mark != nullptr && session->last < session->mark->load(std::memory_order_relaxed);
}

StripeMarks TableSlice::Marks(SessionId id) const {
  StripeMarks marks;
  if (const std::shared_ptr<Session> session = Find(id)) {
    MutexLock lock(&session->mutex);
    marks.set_applied(session->last);
    marks.set_durable(session->durable);
    marks.set_written(session->written);
  }
  return marks;
}

}  // namespace monsoon
