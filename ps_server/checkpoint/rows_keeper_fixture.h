// RowsKeeperTest: a CheckpointKeeperTest whose job has tables beside the four stripes, in
// stripes of their own. For tests.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/model/parameter_layout.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/checkpoint/keeper_fixture.h"
#include "ps_server/shard/table_slice_fixture.h"

namespace monsoon {

class RowsKeeperTest : public CheckpointKeeperTest {
 protected:
  // As tables of a model.
  static void AddTable(const TableInfo& info, Model* model) {
    Table* const table = model->add_table();
    table->set_name(info.name);
    table->set_rows(info.rows);
    table->set_columns(info.columns);
    *table->mutable_initializer() = info.initializer;
    *table->mutable_optimizer() = info.optimizer;
  }
  CreateShardJobRequest MakeRowsCreate() const {
    CreateShardJobRequest create = MakeCreate("a-1");
    create.mutable_model()->Clear();
    ModelTensor* const tensor = create.mutable_model()->add_tensor();
    tensor->set_name("w");
    tensor->add_shape(static_cast<uint32_t>(kStripes * kStripe * shards_));
    for (const TableInfo& table : tables_) AddTable(table, create.mutable_model());
    create.set_seed(kRowSeed);
    create.set_written_by_client(false);
    create.set_shards(shards_);
    create.set_shard(task_);
    create.set_layout_hash(ParameterLayout::Create(create.model())->Hash());
    return create;
  }
  // On this life's shard, with an open session of worker 0.
  std::shared_ptr<ShardJob> MakeRowsJob() {
    layout_hash_ = MakeRowsCreate().layout_hash();
    EXPECT_OK(shard_->CreateJob(MakeRowsCreate()));
    session_ = SessionOf(0);
    EXPECT_OK(shard_->OpenSession(session_));
    sequence_ = 0;
    return Job();
  }
  std::shared_ptr<ShardJob> Job() { return shard_->FindJob("a-1", 3); }
  static SessionKey SessionOf(uint32_t worker) {
    SessionKey session;
    session.set_job("a-1");
    session.set_job_term(3);
    session.set_worker(worker);
    session.set_incarnation(1);
    return session;
  }

  Verdict PushRows(const RowFrame& frame) {
    SentRows sent = Encode(frame, tables_);
    *sent.request.mutable_session() = SessionOf(frame.worker);
    sent.request.set_layout_hash(layout_hash_);
    sent.request.set_shard_epoch(epoch_);
    const std::vector<ByteChunk> chunks = {std::as_bytes(std::span(sent.payload))};
    ChunkCursor cursor(chunks);
    const absl::StatusOr<RowPushReply> reply = shard_->PushRows(sent.request, &cursor, &scratch_);
    EXPECT_OK(reply);
    return reply.ok() ? reply->verdict() : VERDICT_UNSPECIFIED;
  }
  std::vector<float> Row(uint32_t table, uint32_t row) {
    RowFetchRequest request;
    request.set_layout_hash(layout_hash_);
    request.set_read_only(true);
    *request.mutable_session() = SessionOf(0);
    request.add_table()->set_table(table);
    request.mutable_table(0)->set_rows(1);
    const std::vector<ByteChunk> chunks = {std::as_bytes(std::span(&row, 1))};
    ChunkCursor cursor(chunks);
    const absl::StatusOr<TableSlice::Rows> rows = shard_->FetchRows(request, &cursor);
    EXPECT_OK(rows);
    return rows.ok() ? std::vector<float>(rows->values->span().begin(), rows->values->span().end())
                     : std::vector<float>();
  }
  StripeMarks Marks(uint32_t worker = 0) {
    MarksRequest request;
    *request.mutable_session() = SessionOf(worker);
    request.set_layout_hash(layout_hash_);
    request.set_stripe_count(1);
    const absl::StatusOr<MarksReply> reply = shard_->Marks(request);
    EXPECT_OK(reply);
    return reply.ok() ? reply->rows() : StripeMarks();
  }
  // Every row and sum of this life, to the bit. It does not count what is touched.
  void ExpectRows(RowOracle* oracle) {
    for (uint32_t table = 0; table < tables_.size(); ++table) {
      for (uint32_t row = 0; row < oracle->rows(table); ++row) {
        ASSERT_EQ(Row(table, row), oracle->Values(table, row))
            << "table " << table << ", row " << row;
      }
    }
    ASSERT_OK(Job()->tables()->CutStripes(
        Job()->tables()->FindTouched(),
        [&](RowStripeRecord record, std::span<const float> floats) -> absl::Status {
          const TableMap map = TableMaps(tables_, shards_).value()[record.table()];
          const size_t rows = floats.size() / (map.columns() + 1);
          for (uint32_t i = 0; i < rows; ++i) {
            const uint32_t row = record.stripe() * map.stripe_rows() + i;
            EXPECT_EQ(floats[rows * map.columns() + i], oracle->Sum(record.table(), row))
                << "table " << record.table() << ", the sum of row " << row;
          }
          return absl::OkStatus();
        }));
  }

  // Of sessions of these workers.
  RestoreShardJobRequest RestoreRequest(const std::vector<uint32_t>& workers) const {
    RestoreShardJobRequest request;
    *request.mutable_create() = MakeRowsCreate();
    for (const uint32_t worker : workers) *request.add_session() = SessionOf(worker);
    return request;
  }
  absl::StatusOr<RestoreShardJobReply> Restore(const std::vector<uint32_t>& workers) {
    return keeper_->Restore(shard_.get(), RestoreRequest(workers));
  }

  std::string PartFile(uint64_t generation, uint64_t epoch) const {
    return absl::StrCat(JobFolder(kStateDir, "a-1", 3), "/ps-", task_, "-of-", shards_, ".g",
                        generation, ".e", epoch, ".safetensors");
  }
  uint64_t PartFileBytes(uint64_t generation) const {
    return (*storage_.Open(PartFile(generation, epoch_)))->bytes();
  }

  // 10 rows in stripes of 4, 4 and 2, and 6 in one.
  std::vector<TableInfo> tables_{MakeTable("words", 10, 60000), MakeTable("users", 6, 2)};
  uint32_t shards_ = 1;
};

}  // namespace monsoon
