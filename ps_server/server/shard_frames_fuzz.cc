// Whole frames to a shard that has a job with an open session, one whose slice only stores and that
// has one, one with tables and a session, and one with tables that is written to: each is answered,
// and what the shard holds stays within its budget.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "common/base/check.h"
#include "common/model/parameter_layout.h"
#include "common/transport/frame/fault.h"
#include "common/transport/frame/frame_codec.h"
#include "common/transport/frame/frame_server.h"
#include "proto/optimizer.pb.h"
#include "ps_server/server/shard_frame_handler.h"
#include "ps_server/shard/shard.h"

namespace {

constexpr uint64_t kMemoryBytes = 1 << 20;
// Then a shard is made anew, so that what was found does not depend on all that
// came before.
constexpr int kFramesOfAShard = 1000;

// Four stripes of 16 floats and, of two tables, a stripe of five rows and one of nine.
monsoon::CreateShardJobRequest JobWithTables(const char* name) {
  monsoon::CreateShardJobRequest job;
  job.set_job(name);
  monsoon::ModelTensor* const tensor = job.mutable_model()->add_tensor();
  tensor->set_name("w");
  tensor->add_shape(64);
  monsoon::Table* table = job.mutable_model()->add_table();
  table->set_name("words");
  table->set_rows(5);
  table->set_columns(3);
  table = job.mutable_model()->add_table();
  table->set_name("users");
  table->set_rows(9);
  table->set_columns(2);
  job.mutable_optimizer()->mutable_sgd()->set_rate(0.1);
  job.set_shards(1);
  job.set_max_stripe_bytes(64);
  job.set_layout_hash(monsoon::ParameterLayout::Create(job.model())->Hash());
  return job;
}

// The seeds of the corpus are for these jobs; the first has four stripes of 16 floats.
struct Server {
  Server() {
    monsoon::CreateShardJobRequest job;
    job.set_job("job-1");
    job.mutable_model()->add_input_shape(8);
    monsoon::Dense* dense = job.mutable_model()->add_layer()->mutable_dense();
    dense->set_units(8);
    dense->set_no_bias(true);
    job.mutable_optimizer()->mutable_sgd()->set_rate(0.1);
    job.set_shards(1);
    job.set_max_stripe_bytes(64);
    job.set_layout_hash(monsoon::ParameterLayout::Create(job.model())->Hash());
    CHECK_OK(shard.CreateJob(job).status());
    monsoon::SessionKey session;
    session.set_job("job-1");
    session.set_worker(1);
    session.set_incarnation(1);
    CHECK_OK(shard.OpenSession(session).status());
    CHECK_OK(shard.CreateJob(JobWithTables("rows-1")).status());
    CHECK_OK(shard.CreateJob(JobWithTables("rows-2")).status());
    // The same model, whose workers have the optimizer.
    job.set_job("store-1");
    job.mutable_optimizer()->mutable_momentum()->set_rate(0.1);
    job.set_store_only(true);
    CHECK_OK(shard.CreateJob(job).status());
    session.set_job("store-1");
    CHECK_OK(shard.OpenSession(session).status());
    session.set_job("rows-1");
    CHECK_OK(shard.OpenSession(session).status());
  }

  monsoon::Shard shard{{"fuzz", 0, /*shard_epoch=*/7, kMemoryBytes}};
  monsoon::ShardFrameHandler handler{&shard};
  monsoon::FrameServer frames{&handler, uint64_t{64} << 20, monsoon::FaultOptions()};
  monsoon::FrameScratch scratch;
  int served = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto* const server = new std::unique_ptr<Server>;
  if (*server == nullptr || ++(*server)->served > kFramesOfAShard) {
    *server = std::make_unique<Server>();
  }
  const monsoon::ByteChunk frame = std::as_bytes(std::span(data, size));
  monsoon::FrameCall call(&(*server)->frames);
  CHECK(call.Serve({&frame, 1}, &(*server)->scratch));
  int answers = 0;
  while (call.NextAnswer().has_value()) {
    ++answers;
  }
  CHECK_GE(answers, 1);
  CHECK_LE((*server)->shard.GetStatus({})->memory_used_bytes(), kMemoryBytes);
  return 0;
}
