// The fixture of the tests of commands that read checkpoints: a state folder in memory
// with the job of cli_fixture.h.
#pragma once

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint/checkpoint.h"
#include "common/config/job.h"
#include "common/model/table_info.h"
#include "common/testing/status_matchers.h"
#include "coordinator/cli/cli_fixture.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {

// What a test wants of a generation.
struct KeptOptions {
  std::string job = "tiny-1";
  uint64_t term = 1000;
  uint64_t generation = 1;
  uint32_t shards = 2;
  uint64_t max_stripe_bytes = 64;
  uint64_t steps = 12;
  double first = 1.0;               // the parameters count up from here
  std::optional<uint32_t> without;  // this shard's part is not there
  bool has_job = true;              // in the context
  uint64_t in_rounds = 0;           // with rounds: differences in the open one of each stripe
  // Of a model with tables: the shards of which the first stripe of each table was touched.
  std::vector<uint32_t> touched = {};
};

class CheckpointCliTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    cli_.variables["MONSOON_STATE_DIR"] = "/state";
    cli_.clock.Advance(absl::Hours(1));
    ASSERT_OK_AND_ASSIGN(stored_, LoadJob(job_));
    Optimizer* const optimizer = stored_.mutable_downpour()->mutable_optimizer();
    optimizer->mutable_adagrad()->set_rate(0.1);
    optimizer->mutable_adagrad()->set_epsilon(1e-8);
    ASSERT_OK_AND_ASSIGN(layout_, ParameterLayout::Create(stored_.model()));
  }

  std::string Folder(const KeptOptions& options = {}) const {
    return JobFolder("/state", options.job, options.term);
  }
  // Padding zero. State is 100 more.
  std::vector<float> Parameters(double first = 1.0) const {
    std::vector<float> values(layout_.size());
    for (const TensorInfo& tensor : layout_.tensors()) {
      for (uint64_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
        values[i] = static_cast<float>(first + static_cast<double>(i));
      }
    }
    return values;
  }
  ShardMap Map(const KeptOptions& options) const {
    return *ShardMap::Create(layout_.size(), options.shards, options.max_stripe_bytes);
  }

  ShardCheckpoint Content(const KeptOptions& options, uint32_t shard) const {
    ShardCheckpoint content;
    CreateShardJobRequest* const create = content.mutable_create();
    create->set_job(options.job);
    create->set_job_term(options.term);
    *create->mutable_model() = stored_.model();
    *create->mutable_optimizer() = stored_.downpour().optimizer();
    create->set_shard(shard);
    create->set_shards(options.shards);
    create->set_max_stripe_bytes(options.max_stripe_bytes);
    create->set_layout_hash(layout_.Hash());
    create->set_seed(stored_.seed());
    content.set_generation(options.generation);
    content.set_shard_epoch(3);
    content.set_parent_epoch(2);
    content.set_parent_generation(options.generation - 1);
    content.set_state_slots(StateSlots());
    content.set_rows_applied(layout_.tables().empty() ? 0 : 30);
    create->set_fetch_changes(stored_.downpour().fetch_changes());
    if (stored_.downpour().has_rounds()) {
      *create->mutable_rounds() = stored_.downpour().rounds();
    }
    CheckpointContext* const context = content.mutable_context();
    if (options.has_job) {
      *context->mutable_job() = stored_;
    }
    context->set_ordered_ms(absl::ToUnixMillis(cli_.clock.WallTime()) - 90'000);
    context->set_reason("every 10 s");
    context->set_elapsed_s(20);
    context->mutable_downpour()->set_steps(options.steps);
    context->mutable_downpour()->set_epochs_done(1);
    EpochCursor* const cursor = context->mutable_downpour()->add_epoch();
    cursor->set_epoch(1);
    cursor->set_blocks(2);
    cursor->add_done()->set_end(1);
    return content;
  }

  // Of one of Adagrad's, the sum of a round and the public copy.
  uint32_t StateSlots() const {
    return 1 + (stored_.downpour().has_rounds() ? 2 : 0) +
           (stored_.downpour().fetch_changes() != FLOAT32 ? 1 : 0);
  }

  // Writes a generation. A stripe's version is 10 times its number in the vector, and
  // the generation's.
  void Keep(const KeptOptions& options) {
    const ShardMap map = Map(options);
    const std::vector<float> parameters = Parameters(options.first);
    const std::vector<float> state = Parameters(options.first + 100);
    uint64_t number = 0;
    for (uint32_t shard = 0; shard < options.shards; ++shard) {
      ASSERT_OK_AND_ASSIGN(
          const std::unique_ptr<PartWriter> writer,
          PartWriter::Create(&cli_.storage, Folder(options), layout_, Content(options, shard)));
      for (uint32_t stripe = 0; stripe < map.stripes(shard); ++stripe) {
        const Slice slice = map.stripe(shard, stripe);
        StripeRecord record;
        record.set_version(10 * number++ + options.generation);
        const auto of_optimizer = std::span(state).subspan(slice.begin, slice.size());
        std::vector<float> slots(of_optimizer.begin(), of_optimizer.end());
        // Those that are not to be taken.
        slots.resize(StateSlots() * slice.size(), std::bit_cast<float>(0x7f800001u));
        if (options.in_rounds > 0) {
          RoundMember* const member = record.add_member();
          member->set_worker(1);
          member->set_pushes(options.in_rounds);
          member->set_weight(1.0);
        }
        ASSERT_OK(writer->AddStripe(std::span(parameters).subspan(slice.begin, slice.size()), slots,
                                    record));
      }
      AddRows(options, shard, writer.get());
      if (options.without != shard) {
        ASSERT_OK(writer->Finish([] { return absl::OkStatus(); }).status());
      }
    }
  }

  // Of rows that were touched.
  static float RowValue(uint32_t table, uint64_t row) {
    return static_cast<float>(1000 * (table + 1) + row);
  }
  static float RowSum(uint32_t table, uint64_t row) { return RowValue(table, row) + 0.5f; }

  void AddRows(const KeptOptions& options, uint32_t shard, PartWriter* writer) {
    ASSERT_OK_AND_ASSIGN(const std::vector<TableMap> maps,
                         TableMaps(layout_.tables(), options.shards));
    std::vector<std::vector<float>> floats(maps.size());
    std::vector<uint64_t> sizes;
    for (uint32_t table = 0; table < maps.size(); ++table) {
      const TableMap& map = maps[table];
      const bool touched = std::ranges::count(options.touched, shard) > 0;
      const uint64_t rows = touched ? std::min(map.rows_of(shard), map.stripe_rows()) : 0;
      for (uint64_t i = 0; i < rows * map.columns(); ++i) {
        floats[table].push_back(RowValue(table, map.first_row(shard) + i / map.columns()));
      }
      for (uint64_t i = 0; i < rows; ++i) {
        floats[table].push_back(RowSum(table, map.first_row(shard) + i));
      }
      sizes.push_back(floats[table].size());
    }
    writer->SetTableFloats(sizes);
    for (uint32_t table = 0; table < maps.size(); ++table) {
      RowStripeRecord record;
      record.set_table(table);
      if (sizes[table] > 0) {
        ASSERT_OK(writer->AddRowStripe(floats[table], record));
      }
    }
  }

  // The fixture's job becomes one that programs join, with two tables.
  void UseTables() {
    stored_.clear_model();
    stored_.mutable_model()->set_name("words");
    ModelTensor* const tensor = stored_.mutable_model()->add_tensor();
    tensor->set_name("w");
    tensor->add_shape(50);
    Table* table = stored_.mutable_model()->add_table();
    table->set_name("words");
    table->set_rows(7);
    table->set_columns(2);
    table->mutable_initializer()->set_constant(0.25);
    table = stored_.mutable_model()->add_table();
    table->set_name("users");
    table->set_rows(4);
    table->set_columns(1);
    stored_.clear_train();
    stored_.mutable_train()->mutable_joiners()->set_examples(70);
    stored_.clear_test();
    stored_.clear_evaluation();
    stored_.mutable_downpour()->clear_workers();
    stored_.set_seed(3);
    ASSERT_OK_AND_ASSIGN(layout_, ParameterLayout::Create(stored_.model()));
    *cli_.coordinator.location.mutable_model() = stored_.model();
    cli_.coordinator.location.set_job("tiny-1");
    cli_.coordinator.location.set_layout_hash(layout_.Hash());
  }

  // The file of a part.
  std::string Part(const KeptOptions& options, uint32_t shard, const std::string& suffix) const {
    return absl::StrCat(Folder(options), "/ps-", shard, "-of-", options.shards, ".g",
                        options.generation, ".e3.", suffix);
  }

  Job stored_;
  ParameterLayout layout_;
};

}  // namespace monsoon
