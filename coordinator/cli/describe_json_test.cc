#include "coordinator/cli/describe_json.h"

#include "coordinator/cli/describe_text.h"
#include "gmock/gmock.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

template <typename Message>
Message Parse(const char* text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message));
  return message;
}

google::protobuf::Struct ParseBack(const std::string& json) {
  google::protobuf::Struct parsed;
  const auto status = google::protobuf::util::JsonStringToMessage(json, &parsed);
  EXPECT_TRUE(status.ok()) << status << "\n" << json;
  return parsed;
}

constexpr char kFull[] = R"pb(
  summary {
    job: "lenet-1"
    name: "lenet"
    state: FAILED
    reason: "ps/0 is \"gone\""
    percent: 32
    created_ms: 1700000000123
    elapsed_s: 12.5
  }
  mode: "downpour"
  seed: 7
  model_name: "lenet"
  parameters: 129068
  layout_hash: 0x0123456789abcdef
  progress {
    epoch: 3.2
    epochs: 10
    percent: 32
    step: 1499
    examples: 191872
    examples_per_s: 5321.5
    loss: 0.5
    train_accuracy: 0.75
    eta_s: 58
  }
  evaluation {
    step: 468
    epoch: 1
    elapsed_s: 4.5
    test_loss: 0.625
    test_accuracy: 0.8125
    generation: 4
  }
  evaluation {
    step: 500
    epoch: 2
    elapsed_s: 5
    test_loss: 2.5
    metric { name: "perplexity" value: 12.5 }
    metric { name: "loss" value: 2.5 }
  }
  final_test_accuracy: 0.875
  final_loss: 0.25
  counts {
    steps: 1
    fetches: 2
    pushes: 3
    rpcs: 4
    retries: 5
    duplicates: 6
    refused: 7
    bytes_fetched: 8
    bytes_pushed: 9
    dropped: 34
    bound_wait_ms: 35
    evaluation_fetches: 10
    replayed: 31
    away_steps: 32
    restores: 33
  }
  staleness { key: 3 value: 10 }
  staleness { key: 0 value: 40 }
  staleness { key: 1 value: 50 }
  recent_staleness_p50: 2
  recent_staleness_p99: 4
  shard_skew_now: 1
  shard_skew_max: 4
  fetch_width { key: 0 value: 9 }
  fetch_width { key: 2 value: 1 }
  latency_ms {
    fetch_p50: 1.5
    fetch_p99: 2.5
    push_p50: 3.5
    push_p99: 4.5
    step_p50: 5.5
    step_p99: 6.5
    recent_fetch_p50: 7.5
    recent_push_p50: 8.5
  }
  worker {
    task: 1
    pid: 11
    state: "RUNNING"
    device: "CPU"
    threads: 2
    replicas: 3
    replicas_lost: 1
    steps: 500
    examples: 64000
    examples_per_s: 1770.25
    fetches: 500
    pushes: 499
    staleness_p50: 1
    recent_staleness_p50: 2
    blocks_done: 60
    last_seen_ms: 1700000012000
    host: "attic"
    local_steps: 50
    silent_s: 0.25
    address: "alpha:2230"
    clock: 77
    settings_revision: 3
  }
  worker { task: 2 state: "LOST" device: "CPU" threads: 1 }
  shard {
    task: 0
    pid: 21
    begin: 0
    end: 129136
    stripes: 2
    stripe_bytes: 1048576
    version_min: 1499
    version_max: 1500
    pushes: 2999
    duplicates: 6
    epoch: 5
    rss_bytes: 30000000
    table_rows: 1010
    table_stripes: 6
    touched_table_stripes: 2
    rows_applied: 77
    rows_fetched: 99
    address: "beta:2222"
    settings_revision: 3
    settings_from: 901
  }
  table { name: "words" rows: 1010 columns: 16 }
  data {
    examples: 60000
    blocks: 59
    blocks_done: 18
    blocks_released: 2
    stream { name: "part-0" taken_by: 2 read_by: 1 push: 17 state_bytes: 9 read_again: 3 }
  }
  event { elapsed_s: 1.5 kind: "worker_lost" task: "worker/2" text: "no heartbeat for 3 s" }
  durability {
    promise: "exactly_once"
    generation: 7
    age_s: 3.5
    ordered: 8
    error: "ps/0: disk full"
    disk_bytes: 4096
    state_dir: "ps/0: /s"
    lost { shard: 1 worker: 2 incarnation: 3 from: 13 to: 20 records: 16 row_pushes: 3 }
    lost { shard: 0 worker: 2 incarnation: 3 from: 14 to_at_least: 15 records: 4 }
    best { generation: 4 epoch: 1 accuracy: 0.8125 loss: 0.625 }
  }
)pb";

constexpr char kFullJson[] =
    R"({"schema_version":1,"job":"lenet-1","name":"lenet","state":"FAILED",)"
    R"("reason":"ps/0 is \"gone\"","mode":"downpour","created_ms":1700000000123,)"
    R"("elapsed_s":12.5,"seed":7,"model":{"name":"lenet","parameters":129068,)"
    R"("layout_hash":"0123456789abcdef",)"
    R"("tables":[{"name":"words","rows":1010,"columns":16}]},)"
    R"("progress":{"epoch":3.2,"epochs":10,"percent":32,"step":1499,"examples":191872,)"
    R"("examples_per_s":5321.5,"loss":0.5,"train_accuracy":0.75,"eta_s":58},)"
    R"("evaluations":[{"step":468,"epoch":1,"elapsed_s":4.5,"test_loss":0.625,)"
    R"("test_accuracy":0.8125,"generation":4,"metrics":{}},)"
    R"({"step":500,"epoch":2,"elapsed_s":5,"test_loss":2.5,"test_accuracy":null,"generation":0,)"
    R"("metrics":{"perplexity":12.5,"loss":2.5}}],"final":{"test_accuracy":0.875,"loss":0.25},)"
    R"("counts":{"steps":1,"fetches":2,"pushes":3,"rpcs":4,"retries":5,"duplicates":6,)"
    R"("refused":7,"bytes_fetched":8,"bytes_pushed":9,)"
    R"("dropped":34,"bound_wait_ms":35},)"
    R"("staleness":{"count":100,"mean":0.8,"p50":1,"p99":3,"max":3,)"
    R"("recent_p50":2,"recent_p99":4,)"
    R"("histogram":[[0,40],[1,50],[3,10]]},"shard_skew":{"now":1,"max":4},)"
    R"("fetch_width":{"p50":0,"max":2},)"
    R"("latency_ms":{"fetch_p50":1.5,"fetch_p99":2.5,"push_p50":3.5,"push_p99":4.5,)"
    R"("step_p50":5.5,"step_p99":6.5,"recent_fetch_p50":7.5,"recent_push_p50":8.5},)"
    R"("workers":[{"task":1,"pid":11,"state":"RUNNING","device":"CPU","threads":2,"steps":500,)"
    R"("examples":64000,"examples_per_s":1770.25,"fetches":500,"pushes":499,"staleness_p50":1,)"
    R"("recent_staleness_p50":2,)"
    R"("blocks_done":60,"last_seen_ms":1700000012000,"replicas":3,"replicas_lost":1,"waits_for":"",)"
    R"("host":"attic","local_steps":50,"silent_s":0.25,"address":"alpha:2230","clock":77,)"
    R"("settings_revision":3},)"
    R"({"task":2,"pid":0,"state":"LOST","device":"CPU","threads":1,"steps":0,"examples":0,)"
    R"("examples_per_s":0,"fetches":0,"pushes":0,"staleness_p50":null,)"
    R"("recent_staleness_p50":null,"blocks_done":0,)"
    R"("last_seen_ms":0,"replicas":0,"replicas_lost":0,"waits_for":"","host":"",)"
    R"("local_steps":null,"silent_s":null,"address":"","clock":null,)"
    R"("settings_revision":0}],)"
    R"("shards":[{"task":0,"pid":21,"begin":0,"end":129136,"stripes":2,"stripe_bytes":1048576,)"
    R"("version_min":1499,"version_max":1500,"pushes":2999,"duplicates":6,"epoch":5,)"
    R"("rss_bytes":30000000,"table_rows":1010,"table_stripes":6,"touched_table_stripes":2,)"
    R"("rows_applied":77,"rows_fetched":99,"address":"beta:2222",)"
    R"("settings_revision":3,"settings_from":901}],)"
    R"("data":{"examples":60000,"blocks":59,"blocks_done":18,"blocks_released":2},)"
    R"("streams":[{"name":"part-0","taken_by":2,"read_by":1,"push":17,"state_bytes":9,)"
    R"("read_again":3}],)"
    R"("events":[{"elapsed_s":1.5,"kind":"worker_lost","task":"worker/2",)"
    R"("text":"no heartbeat for 3 s"}],)"
    R"("durability":{"promise":"exactly_once","generation":7,"age_s":3.5,"ordered":8,)"
    R"("error":"ps/0: disk full","disk_bytes":4096,"state_dir":["ps/0: /s"],"replayed":31,)"
    R"("lost":[{"shard":1,"worker":2,"incarnation":3,"from":13,"to":20,"to_at_least":0,)"
    R"("records":16,"row_pushes":3},{"shard":0,"worker":2,"incarnation":3,"from":14,"to":null,)"
    R"("to_at_least":15,"records":4,"row_pushes":0}],"restores":33,"away_steps":32,)"
    R"("best":{"generation":4,"epoch":1,"accuracy":0.8125,"loss":0.625}},)"
    R"("rate_factor":null,"outer_optimizer":null,"sandblaster":null,)"
    R"("synchronous":null})";

TEST(DescribeTextTest, LostPushesWithRowsSaySo) {
  const JobDescription job = Parse<JobDescription>(kFull);
  EXPECT_EQ(LostPushesText(job.durability().lost(0)),
            "pushes 13 to 20 of worker/2#3 on ps/1, of which 3 had rows of tables");
  EXPECT_EQ(LostPushesText(job.durability().lost(1)),
            "pushes 14 to 15 at least of worker/2#3 on ps/0");
}

TEST(DescribeTextTest, TablesAndTheirRowsAreTold) {
  JobDescription job = Parse<JobDescription>(kFull);
  *job.add_shard() = job.shard(0);
  const std::string text = DescribeText(job);
  EXPECT_THAT(text, ::testing::HasSubstr("table        words, 1010 rows of 16\n"
                                         "rows         4 of 12 stripes touched, 154 rows applied, "
                                         "198 fetched\n"));
  job.clear_table();
  EXPECT_THAT(DescribeText(job), ::testing::Not(::testing::HasSubstr("rows applied")));
}

TEST(DescribeTextTest, TasksThatOthersMayNotReachAreTold) {
  JobDescription job = Parse<JobDescription>(kFull);
  EXPECT_THAT(DescribeText(job), ::testing::Not(::testing::HasSubstr("trouble")));
  JobDescription::Trouble* const trouble = job.add_trouble();
  trouble->set_task("ps/1");
  trouble->set_text("takes no new connections");
  EXPECT_THAT(DescribeText(job),
              ::testing::HasSubstr("\ntrouble      ps/1 takes no new connections\n"));
  EXPECT_THAT(
      DescribeJson(job),
      ::testing::HasSubstr(R"("trouble":[{"task":"ps/1","text":"takes no new connections"}],)"));
}

TEST(DescribeJsonTest, Golden) { EXPECT_EQ(DescribeJson(Parse<JobDescription>(kFull)), kFullJson); }

TEST(DescribeJsonTest, ParsesBack) {
  const google::protobuf::Struct json = ParseBack(DescribeJson(Parse<JobDescription>(kFull)));
  EXPECT_EQ(json.fields().at("reason").string_value(), "ps/0 is \"gone\"");
  EXPECT_EQ(json.fields().at("created_ms").number_value(), 1700000000123.0);
  EXPECT_EQ(json.fields().at("workers").list_value().values_size(), 2);
}

constexpr char kSandblaster[] = R"pb(
  sandblaster {
    iteration: 12
    f: 0.4375
    gradient_norm: 0.001
    step_length: 1
    evaluations: 15
    overflows: 1
    chunks_total: 150
    chunks_done: 120
    chunks_outstanding: 6
    chunks_backup: 2
    affinity: 0.9375
    end_reason: "converged"
    end_detail: "F 0.5"
    reproducibility: "same bits"
    command_bytes: 4096
    commands: 60
    largest_command_bytes: 512
    trace { iteration: 0 f: 2.25 gradient_norm: 3.5 step_length: 0 evaluations: 1 elapsed_s: 0.5 }
    trace { iteration: 1 f: 1.5 gradient_norm: 0.75 step_length: 0.25 evaluations: 3 elapsed_s: 2 }
  }
)pb";

TEST(DescribeJsonTest, SandblasterGolden) {
  const std::string json = DescribeJson(Parse<JobDescription>(kSandblaster));
  ParseBack(json);
  EXPECT_EQ(
      json.substr(json.find("\"sandblaster\"")),
      R"("sandblaster":{"iteration":12,"f":0.4375,"gradient_norm":0.001,"step_length":1,)"
      R"("evaluations":15,"chunks":{"total":150,"done":120,"outstanding":6,"backup":2},)"
      R"("affinity":0.9375,"end_reason":"converged","end_detail":"F 0.5","overflows":1,)"
      R"("reproducibility":"same bits","commands":60,"command_bytes":4096,)"
      R"("largest_command_bytes":512,)"
      R"("trace":[{"iteration":0,"f":2.25,"gradient_norm":3.5,"step_length":0,"evaluations":1,)"
      R"("elapsed_s":0.5},{"iteration":1,"f":1.5,"gradient_norm":0.75,"step_length":0.25,)"
      R"("evaluations":3,"elapsed_s":2}]},"synchronous":null})");
}

TEST(DescribeJsonTest, ASandblasterJobThatHasNotEvaluatedYet) {
  JobDescription description;
  description.mutable_sandblaster();
  const std::string json = DescribeJson(description);
  EXPECT_EQ(
      json.substr(json.find("\"sandblaster\"")),
      R"("sandblaster":{"iteration":0,"f":null,"gradient_norm":null,"step_length":null,)"
      R"("evaluations":0,"chunks":{"total":0,"done":0,"outstanding":0,"backup":0},)"
      R"("affinity":null,"end_reason":null,"end_detail":null,"overflows":0,"reproducibility":null,)"
      R"("commands":0,"command_bytes":0,"largest_command_bytes":0,"trace":[]},)"
      R"("synchronous":null})");
}

TEST(DescribeJsonTest, ASynchronousJobTellsOfItsGroup) {
  const std::string json = DescribeJson(Parse<JobDescription>(R"pb(
    synchronous {
      reduce: "RING"
      group: 3
      member: 0
      member: 2
      batches: 2
      updates: 120
      broken: 1
      retaken: 1
      regrouping_s: 3.5
      stored: 100
    }
  )pb"));
  ParseBack(json);
  EXPECT_EQ(json.substr(json.find("\"synchronous\"")),
            R"("synchronous":{"reduce":"RING","group":3,"members":[0,2],"batches":2,)"
            R"("updates":120,"broken":1,"retaken":1,"regrouping_s":3.5,"stored":100}})");
}

TEST(DescribeJsonTest, WhatIsNotMeasuredIsNull) {
  const google::protobuf::Struct json = ParseBack(DescribeJson(JobDescription()));
  const auto is_null = [](const google::protobuf::Value& value) { return value.has_null_value(); };
  const auto member = [&json](const char* object, const char* key) {
    return json.fields().at(object).struct_value().fields().at(key);
  };
  for (const char* key : {"examples_per_s", "loss", "train_accuracy", "eta_s"}) {
    EXPECT_TRUE(is_null(member("progress", key))) << key;
  }
  for (const char* key : {"test_accuracy", "loss"}) {
    EXPECT_TRUE(is_null(member("final", key))) << key;
  }
  for (const char* key : {"mean", "p50", "p99", "max"}) {
    EXPECT_TRUE(is_null(member("staleness", key))) << key;
  }
  for (const char* key : {"fetch_p50", "fetch_p99", "push_p50", "push_p99", "step_p50"}) {
    EXPECT_TRUE(is_null(member("latency_ms", key))) << key;
  }
  for (const char* key : {"now", "max"}) {
    EXPECT_TRUE(is_null(member("shard_skew", key))) << key;
  }
  EXPECT_TRUE(is_null(member("fetch_width", "p50")));
  EXPECT_TRUE(is_null(json.fields().at("durability")));
  EXPECT_EQ(member("staleness", "count").number_value(), 0);
  EXPECT_EQ(member("staleness", "histogram").list_value().values_size(), 0);
}

TEST(DescribeJsonTest, AJobWithoutACheckpoint) {
  JobDescription description;
  description.mutable_durability()->set_promise("memory_only");
  EXPECT_THAT(
      DescribeJson(description),
      ::testing::HasSubstr(
          R"("durability":{"promise":"memory_only","generation":0,"age_s":null,"ordered":0,)"
          R"("error":null,"disk_bytes":0,"state_dir":[],"replayed":null,"lost":[],)"
          R"("restores":0,"away_steps":0,"best":null})"));
}

TEST(JobsJsonTest, Golden) {
  const ListReply jobs = Parse<ListReply>(
      R"pb(job {
             job: "a-1"
             name: "a"
             state: SUCCEEDED
             percent: 100
             created_ms: 5
             elapsed_s: 1.5
             disk_bytes: 9
           }
           job { job: "b-2" name: "b" state: CANCELLED reason: "by request" }
           orphan { job: "c-3" job_term: 7 shard: 0 shard: 2 memory_bytes: 5 })pb");
  EXPECT_EQ(JobsJson(jobs),
            R"({"schema_version":1,"jobs":[{"job":"a-1","name":"a","state":"SUCCEEDED",)"
            R"("reason":"","percent":100,"created_ms":5,"elapsed_s":1.5,"disk_bytes":9},)"
            R"({"job":"b-2","name":"b","state":"CANCELLED","reason":"by request","percent":0,)"
            R"("created_ms":0,"elapsed_s":0,"disk_bytes":0}],)"
            R"("orphans":[{"job":"c-3","job_term":7,"shards":[0,2],"memory_bytes":5}],)"
            R"("insecure":false})");
  EXPECT_EQ(SummaryJson(jobs.job(1)),
            R"({"schema_version":1,"job":"b-2","name":"b","state":"CANCELLED",)"
            R"("reason":"by request","percent":0,"created_ms":0,"elapsed_s":0,"disk_bytes":0})");
  ParseBack(JobsJson(jobs));
}

}  // namespace
}  // namespace monsoon
