#include "tests/cluster/ledger_rows.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/config/job.h"
#include "common/model/parameter_layout.h"
#include "common/model/table_info.h"
#include "common/optimizer/row_adagrad.h"
#include "common/transport/frame/protocol.h"
#include "coordinator/client/job_client.h"
#include "coordinator/client/job_location.h"

namespace monsoon {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);
// What a job's table must have (ledger.py).
constexpr uint32_t kColumns = 16;
constexpr RowAdagradConstants kConstants{.learning_rate = 1, .epsilon = 1};
constexpr uint64_t kMostPushes = 10'000'000;

absl::Status WriteZeros(const EnterReply& turn) {
  ASSIGN_OR_RETURN(const ParameterLayout layout, ParameterLayout::Create(turn.location().model()));
  ASSIGN_OR_RETURN(ParameterClientOptions options, ReadOnlyOptions(turn.location(), layout));
  ASSIGN_OR_RETURN(const std::unique_ptr<ParameterClient> client,
                   ParameterClient::Create(std::move(options)));
  const std::vector<float> zeros(layout.size());
  ParameterClient::WriteOptions write;
  write.writer = turn.writer();
  RETURN_IF_ERROR(client->Write(zeros, write));
  return client->Seal(zeros, turn.writer());
}

}  // namespace

absl::StatusOr<EnterReply> EnterTables(ReplicaClient* coordinator, const std::string& settings,
                                       uint64_t guest) {
  LoadOptions load;
  load.contents = &settings;
  load.joined = true;
  EnterRequest request;
  ASSIGN_OR_RETURN(*request.mutable_job(), LoadJob("settings", load));
  request.set_protocol_version(kProtocolVersion);
  request.set_version(kVersion);
  request.set_guest(guest);
  request.set_pid(static_cast<uint32_t>(getpid()));
  request.set_host("ledger");
  const absl::Time end = absl::Now() + kPatience;
  absl::Status last = absl::DeadlineExceededError("nothing was asked");
  while (absl::Now() < end) {
    absl::StatusOr<EnterReply> reply = coordinator->Enter(request);
    last = reply.status();
    if (reply.ok()) {
      request.mutable_job()->set_name(reply->job());
      if (reply->part() == EnterReply::TRAIN) {
        return reply;
      }
      last = absl::DeadlineExceededError(reply->reason());
      if (reply->part() == EnterReply::INITIALIZE && request.sealed_by() != reply->writer()) {
        if (last = WriteZeros(*reply); last.ok()) {
          request.set_sealed_by(reply->writer());
          continue;
        }
      }
    }
    absl::SleepFor(absl::Milliseconds(reply.ok() ? reply->retry_ms() : 100));
  }
  return last;
}

LedgerRows::LedgerRows(const std::vector<TableMap>& tables, uint32_t place) : map_(tables[0]) {
  for (uint64_t row = place; row < map_.rows(); row += map_.stripe_rows()) {
    rows_.push_back(row);
  }
  values_.assign(rows_.size() * kColumns, -1.0f);
}

absl::StatusOr<std::vector<LedgerRows::Count>> LedgerRows::Read(ParameterClient* client,
                                                                uint64_t most) const {
  std::vector<float> read(values_.size());
  const std::vector<RowRequest> wanted{{0, rows_, read}};
  RETURN_IF_ERROR(client->FetchRows(wanted, nullptr));
  std::vector<Count> counts;
  for (size_t i = 0; i < rows_.size(); ++i) {
    const float* const row = &read[i * kColumns];
    Count count{map_.ShardOf(rows_[i]), 0};
    std::vector<float> value(kColumns, 0.0f);
    const std::vector<float> gradient(kColumns, -1.0f);
    float sum = 0;
    while (value[0] < row[0] && count.pushes <= most) {
      StepRow(kConstants, gradient.data(), kColumns, value.data(), &sum);
      ++count.pushes;
    }
    for (uint32_t j = 0; j < kColumns; ++j) {
      if (row[j] != value[j]) {
        return absl::InternalError(absl::StrCat("row ", rows_[i], ": value ", j, " is ", row[j],
                                                ", which no number of pushes leads to"));
      }
    }
    counts.push_back(count);
  }
  return counts;
}

absl::Status PrintRows(const std::string& coordinator, const std::string& job, uint32_t places) {
  const std::unique_ptr<JobClient> jobs = JobClient::Create(coordinator, kPatience);
  ASSIGN_OR_RETURN(const JobLocation location, jobs->Locate(job));
  ASSIGN_OR_RETURN(const ParameterLayout layout, ParameterLayout::Create(location.model()));
  ASSIGN_OR_RETURN(ParameterClientOptions options, ReadOnlyOptions(location, layout));
  ASSIGN_OR_RETURN(options.tables, TableMaps(layout.tables(), options.map.shards()));
  ASSIGN_OR_RETURN(const std::unique_ptr<ParameterClient> client, ParameterClient::Create(options));
  for (uint32_t place = 0; place < places; ++place) {
    const LedgerRows rows(options.tables, place);
    ASSIGN_OR_RETURN(const std::vector<LedgerRows::Count> counts,
                     rows.Read(client.get(), kMostPushes));
    for (const LedgerRows::Count& count : counts) {
      std::printf("%u %u %llu\n", place, count.shard,
                  static_cast<unsigned long long>(count.pushes));
    }
  }
  return absl::OkStatus();
}

}  // namespace monsoon
