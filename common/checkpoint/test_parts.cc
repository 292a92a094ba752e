#include "common/checkpoint/test_parts.h"

#include <google/protobuf/text_format.h>

#include <bit>
#include <cstring>
#include <span>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/model/table_info.h"
#include "common/model/table_map.h"
#include "proto/downpour.pb.h"
#include "proto/model.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon::testing {

const char kTinyModel[] = R"pb(
  input_shape: 5
  layer {
    name: "a"
    dense { units: 3 }
  }
  layer {
    name: "b"
    dense { units: 5 no_bias: true }
  }
)pb";

const char kConvModel[] = R"pb(
  input_shape: [ 2, 8, 8 ]
  layer {
    name: "conv1"
    conv2d { filters: 4 kernel: 3 }
  }
  layer { relu {} }
  layer { flatten {} }
  layer {
    name: "dense1"
    dense { units: 8 }
  }
  layer {
    name: "out"
    dense { units: 3 }
  }
)pb";

const char kOneTensorModel[] = R"pb(
  input_shape: 5
  layer { dense { units: 1 no_bias: true } }
)pb";

const char kTablesModel[] = R"pb(
  tensor { name: "w" shape: 40 }
  table { name: "words" rows: 7 columns: 3 }
  table { name: "never" rows: 6 columns: 2 }
  table { name: "users" rows: 3 columns: 1 }
  table { name: "items" rows: 5 columns: 2 }
)pb";

TestJob MakeTestJob(const TestJobOptions& options) {
  TestJob job;
  job.seed = options.seed;
  CHECK(google::protobuf::TextFormat::ParseFromString(options.model, job.create.mutable_model()));
  auto layout = ParameterLayout::Create(job.create.model());
  CHECK_OK(layout.status());
  job.layout = *layout;
  auto map = ShardMap::Create(job.layout.size(), options.shards, options.max_stripe_bytes);
  CHECK_OK(map.status());
  job.map = *map;
  job.state_slots = options.state_slots;
  if (options.rounds) {
    job.create.mutable_rounds()->set_quorum(2);
    job.state_slots += 2;
  }
  if (options.changes) {
    job.create.set_fetch_changes(INT4);
    ++job.state_slots;
  }
  job.create.set_job("tiny-1");
  job.create.set_seed(11);
  job.create.mutable_optimizer()->mutable_adagrad()->set_epsilon(0.125);
  job.create.set_shards(options.shards);
  job.create.set_max_stripe_bytes(options.max_stripe_bytes);
  job.create.set_layout_hash(job.layout.Hash());
  job.create.set_job_term(1700000000000001);
  const auto append = [&](uint32_t sub, std::vector<float>* floats) {
    const size_t begin = floats->size();
    floats->resize(begin + job.layout.size());
    const PhiloxStream stream(options.seed, StreamKind::kTest, sub);
    for (const TensorInfo& tensor : job.layout.tensors()) {
      for (uint64_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
        (*floats)[begin + i] = std::bit_cast<float>(stream.Bits(i));
      }
    }
    (*floats)[begin] = std::bit_cast<float>(0x7fc12345u);  // a NaN that says something
  };
  append(0, &job.parameters);
  for (uint32_t slot = 0; slot < job.state_slots; ++slot) {
    append(slot == 0 ? 1 : 1000 + slot, &job.state);
  }
  for (uint32_t i = 0; i < options.vectors; ++i) {
    job.vector_names.push_back(absl::StrCat("v:", i));
    append(2 + i, &job.vectors.emplace_back());
  }
  return job;
}

ShardCheckpoint TestContent(const TestJob& job, uint32_t shard, uint64_t generation,
                            uint64_t epoch) {
  ShardCheckpoint content;
  *content.mutable_create() = job.create;
  content.mutable_create()->set_shard(shard);
  content.set_generation(generation);
  content.set_shard_epoch(epoch);
  content.set_parent_epoch(epoch - 1);
  content.set_parent_generation(epoch > 1 ? generation - 1 : 0);
  content.mutable_context()->set_ordered_ms(1800000000000 + static_cast<int64_t>(generation));
  content.mutable_context()->set_reason("asked for");
  content.mutable_context()->mutable_downpour()->set_steps(100 * generation);
  content.mutable_context()->mutable_vector()->Assign(job.vector_names.begin(),
                                                      job.vector_names.end());
  ClosedSession* const closed = content.add_closed();
  closed->set_worker(3);
  closed->set_incarnation(2);
  closed->set_applied(40);
  content.set_applied(1000 + shard);
  content.set_duplicates(2);
  StalenessCount* const staleness = content.add_staleness();
  staleness->set_staleness(1);
  staleness->set_count(5);
  content.set_state_slots(job.state_slots);
  if (!job.layout.tables().empty()) {
    content.set_rows_applied(500 + shard);
    SessionWindowRecord* const session = content.add_row_session();
    session->set_worker(1);
    session->set_incarnation(7);
    session->set_last(29);
  }
  return content;
}

std::vector<TestRowStripe> TestRowStripes(const TestJob& job, uint32_t shard) {
  std::vector<TestRowStripe> stripes;
  for (uint32_t table = 0; table < job.layout.tables().size(); ++table) {
    const TableInfo& info = job.layout.tables()[table];
    const auto map = TableMap::Create(info.rows, info.columns, job.map.shards());
    CHECK_OK(map.status());
    if (table == 1 || map->rows_of(shard) == 0) {
      continue;
    }
    CHECK_EQ(map->stripes_of(shard), 1u);
    TestRowStripe& stripe = stripes.emplace_back();
    stripe.record.set_table(table);
    stripe.record.set_version(10 * table + shard + 1);
    SessionWindowRecord* const session = stripe.record.add_session();
    session->set_worker(1);
    session->set_incarnation(7);
    session->set_last(30 + table);
    const PhiloxStream stream(job.seed, StreamKind::kTest, 5000 + 10 * table + shard);
    stripe.floats.resize(map->rows_of(shard) * (info.columns + size_t{1}));
    for (size_t i = 0; i < stripe.floats.size(); ++i) {
      stripe.floats[i] = std::bit_cast<float>(stream.Bits(i));
    }
  }
  return stripes;
}

StripeRecord TestStripe(const TestJob& job, uint32_t shard, uint32_t stripe) {
  StripeRecord record;
  record.set_version(1000 * shard + stripe + 1);
  SessionWindowRecord* const session = record.add_session();
  session->set_worker(1);
  session->set_incarnation(7);
  session->set_last(30 + stripe);
  session->set_applied(29);
  SessionWindowRecord::Refusal* const refusal = session->add_refusal();
  refusal->set_sequence(4);
  refusal->set_message("a NaN");
  if (job.create.has_rounds()) {
    RoundMember* const member = record.add_member();
    member->set_worker(1);
    member->set_incarnation(7);
    member->set_pushes(1 + stripe % 2);
    member->set_weight(2.5);
    member->set_first(28);
  }
  if (job.create.fetch_changes() != FLOAT32) {
    record.set_public_version(1000 * shard + stripe);
  }
  if (!job.vectors.empty()) {
    for (uint64_t line = 0; line < job.map.stripe(shard, stripe).size() / 16; ++line) {
      record.add_maximum(line == 1 ? 0.0f : 0.1f * static_cast<float>(stripe + line + 1));
    }
  }
  return record;
}

absl::Status AddAllStripes(const TestJob& job, uint32_t shard, PartWriter* writer) {
  for (uint32_t i = 0; i < job.map.stripes(shard); ++i) {
    const Slice stripe = job.map.stripe(shard, i);
    const auto part = [&](const std::vector<float>& floats) {
      return floats.empty() ? std::span<const float>()
                            : std::span(floats).subspan(stripe.begin, stripe.size());
    };
    std::vector<std::span<const float>> vectors;
    for (const std::vector<float>& vector : job.vectors) {
      vectors.push_back(part(vector));
    }
    std::vector<float> state;
    for (uint32_t slot = 0; slot < job.state_slots; ++slot) {
      const auto begin =
          job.state.begin() + static_cast<ptrdiff_t>(slot * job.layout.size() + stripe.begin);
      state.insert(state.end(), begin, begin + static_cast<ptrdiff_t>(stripe.size()));
    }
    RETURN_IF_ERROR(
        writer->AddStripe(part(job.parameters), state, vectors, TestStripe(job, shard, i)));
  }
  const std::vector<TestRowStripe> rows = TestRowStripes(job, shard);
  std::vector<uint64_t> floats(job.layout.tables().size(), 0);
  for (const TestRowStripe& stripe : rows) {
    floats[stripe.record.table()] += stripe.floats.size();
  }
  writer->SetTableFloats(floats);
  for (const TestRowStripe& stripe : rows) {
    RETURN_IF_ERROR(writer->AddRowStripe(stripe.floats, stripe.record));
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckpointManifest> WriteTestPart(Storage* storage, const std::string& folder,
                                                 const TestJob& job, uint32_t shard,
                                                 uint64_t generation, uint64_t epoch,
                                                 const std::function<absl::Status()>& still_owner) {
  ASSIGN_OR_RETURN(
      const std::unique_ptr<PartWriter> writer,
      PartWriter::Create(storage, folder, job.layout, TestContent(job, shard, generation, epoch)));
  RETURN_IF_ERROR(AddAllStripes(job, shard, writer.get()));
  return writer->Finish(still_owner);
}

absl::Status WriteTestGeneration(Storage* storage, const std::string& folder, const TestJob& job,
                                 uint64_t generation) {
  for (uint32_t shard = 0; shard < job.map.shards(); ++shard) {
    RETURN_IF_ERROR(WriteTestPart(storage, folder, job, shard, generation).status());
  }
  return absl::OkStatus();
}

bool SameFloats(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace monsoon::testing
