#include "common/config/job.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/codec/push_bytes.h"
#include "common/codec/wire_formats.h"
#include "common/config/cluster.h"
#include "common/config/data_advice.h"
#include "common/config/job_check.h"
#include "common/config/joined_check.h"
#include "common/config/load_text.h"
#include "common/config/location_map.h"
#include "common/config/model.h"
#include "common/config/override.h"
#include "common/config/reporter.h"
#include "common/config/synchronous_check.h"
#include "common/config/text_parser.h"
#include "common/config/text_tokens.h"
#include "common/config/training_advice.h"
#include "common/data/access/data_access.h"
#include "common/data/data_context.h"
#include "common/data/dataset_info.h"
#include "common/model/fragment_map.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "common/model/table_info.h"
#include "common/optimizer/optimizer_kinds.h"
#include "common/settings/number_rule.h"
#include "proto/downpour.pb.h"
#include "proto/synchronous.pb.h"

namespace monsoon {
namespace {

constexpr uint32_t kDefaultStripeKib = 1024;
// A stripe is of one layer alone.
constexpr uint32_t kDefaultStripeKibOfFragments = 64;
// The sum of a round is an int64 of each parameter.
constexpr int kFloatsOfASum = 2;
// The public copy, and its newest changes, which are fewer bytes than that.
constexpr int kFloatsOfChanges = 2;
// The minimiser's vectors of one iteration, four of variables that are scaled, and one to spare.
constexpr uint32_t kIterationVectors = 11;
// While parts are tried one by one, without a history.
constexpr uint32_t kTrialVectors = 16;
// Of l2_weights_only: which floats are weights, and the trial point's weights.
constexpr uint32_t kWeightVectors = 2;
// Of the exact sums, per 64-byte line: two largest values and an exponent.
constexpr uint64_t kSumBytesPerLine = 10;

// `path` as seen from the folder of `file`, absolute. Empty stays empty.
std::string Resolved(const std::string& path, const std::string& file) {
  if (path.empty()) {
    return path;
  }
  std::error_code error;
  const std::filesystem::path base = std::filesystem::path(file).parent_path();
  const std::filesystem::path absolute = std::filesystem::absolute(base / path, error);
  return error ? path : absolute.lexically_normal().string();
}

void ResolveDataset(const std::string& file, Dataset* data) {
  VisitPaths(data, [&](std::string* path) { *path = Resolved(*path, file); });
}

class JobLoader {
 public:
  JobLoader(const std::string& path, const LoadOptions& options) : path_(path), options_(options) {}

  Job Load() {
    TextSource source{path_, options_.contents != nullptr ? *options_.contents : "", ""};
    structure_ok_ =
        (options_.contents != nullptr || ReadConfigFile(path_, &source.contents, &diagnostics_)) &&
        ParseText(source, &job_, &locations_, &diagnostics_);
    ApplyOverrides(/*of_model=*/false);
    InlineModel();
    ApplyOverrides(/*of_model=*/true);
    if (job_.has_train()) {
      ResolveDataset(path_, job_.mutable_train());
    }
    if (job_.has_test()) {
      ResolveDataset(path_, job_.mutable_test());
    }
    if (job_.name().empty()) {
      job_.set_name(NameFromPath(path_));
    }
    if (!options_.stored) {
      for (Dataset* const data : NamedSets()) {
        data->set_class_order(Dataset::BY_VALUE);
      }
    }
    if (structure_ok_ && IsJoined(job_) && !options_.joined) {
      Reporter(path_, &locations_, &diagnostics_)
          .Error("model.tensor",
                 "jobs of a model that lists its tensors are made by the programs that join them, "
                 "and only these can train it, evaluate it or predict with it",
                 "docs/python.md shows such a program");
    } else if (structure_ok_) {
      Reporter reporter(path_, &locations_, &diagnostics_);
      data_ = CheckJob(job_,
                       !options_.check_data_files     ? DataCheck::kNothing
                       : options_.files_are_elsewhere ? DataCheck::kWithoutFiles
                       : options_.check_data_values   ? DataCheck::kValues
                                                      : DataCheck::kHeaders,
                       DataAccess::Own(), &reporter);
    }
    SortDiagnostics(&diagnostics_);
    if (options_.places != nullptr) {
      *options_.places = locations_;
    }
    return std::move(job_);
  }

  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

  // Of the job that Load gave.
  void Advise(const Job& job, std::vector<Diagnostic>* warnings) const {
    Reporter reporter(path_, &locations_, warnings);
    AdviseTraining(job, ExamplesOf(job), &reporter);
    // What whoever has the files says includes this.
    const bool has_files = HasFiles(job.train()) || HasFiles(job.test());
    if (!options_.files_are_elsewhere || !has_files) {
      AdviseData(job, data_, &reporter);
      AdviseFeatures(job, data_, DataAccess::Own(), &reporter);
    }
  }

 private:
  // Those whose classes have names.
  std::vector<Dataset*> NamedSets() {
    std::vector<Dataset*> sets;
    if (job_.train().has_csv() || job_.train().has_image_folder()) {
      sets.push_back(job_.mutable_train());
    }
    if (job_.test().has_csv() || job_.test().has_image_folder()) {
      sets.push_back(job_.mutable_test());
    }
    return sets;
  }

  // Of the training data; 0: nobody was to look.
  uint64_t ExamplesOf(const Job& job) const {
    if (!options_.check_data_files || options_.joined) {
      return job.train().joiners().examples();
    }
    if (options_.files_are_elsewhere && HasFiles(job.train())) {
      return 0;
    }
    const absl::StatusOr<DatasetInfo> info =
        DescribeDataset(job.train(), TrainingContext(job, DataAccess::Own()));
    return info.ok() ? info->examples : 0;
  }

  // Those of the model's fields wait until it is there.
  void ApplyOverrides(bool of_model) {
    for (const std::string& assignment : options_.overrides) {
      if (IsWithin(OverridePath(assignment), "model") == of_model) {
        ApplyOverride(assignment, &job_, &locations_, &diagnostics_);
      }
      if (!of_model && OverridePath(assignment) == "model_file") {
        job_.clear_model();
      }
    }
  }

  void InlineModel() {
    if (job_.model_file().empty()) {
      return;
    }
    const Location place = locations_.Nearest("model_file", path_);
    if (job_.has_model()) {
      diagnostics_.push_back({place.file, place.line, place.column, "model_file",
                              "the job has a model of its own too", "keep one of them"});
      return;
    }
    const std::string file = Resolved(job_.model_file(), path_);
    // Shown as near to what the user wrote as leads there.
    std::string shown = job_.model_file();
    if (shown[0] != '/') {
      shown = (std::filesystem::path(path_).parent_path() / shown).lexically_normal().string();
    }
    TextSource source{shown, "", "model"};
    std::vector<Diagnostic> unreadable;
    if (!ReadConfigFile(file, &source.contents, &unreadable)) {
      diagnostics_.push_back({place.file, place.line, place.column, "model_file",
                              absl::StrCat(shown, ": ", unreadable.front().message), ""});
      return;
    }
    structure_ok_ &= ParseText(source, job_.mutable_model(), &locations_, &diagnostics_);
    locations_.Add("model", {shown, 1, 1});
    if (job_.model().name().empty()) {
      job_.mutable_model()->set_name(NameFromPath(file));
    }
    job_.clear_model_file();
  }

  const std::string& path_;
  const LoadOptions& options_;
  Job job_;
  LocationMap locations_;
  CheckedData data_;
  std::vector<Diagnostic> diagnostics_;
  bool structure_ok_ = false;
};

void FillDatasetDefaults(Dataset* data) {
  FillUnset(data);
  if (data->has_synthetic()) {
    FillUnset(data->mutable_synthetic());
  }
}

void FillDownpourDefaults(Downpour* downpour) {
  FillUnset(downpour, TakesShare(downpour->push_format())
                          ? std::vector<absl::string_view>()
                          : std::vector<absl::string_view>{"top_k_share", "residual_decay"});
  if (downpour->local_update().kind_case() == LocalUpdate::KIND_NOT_SET) {
    downpour->mutable_local_update()->mutable_none();
  }
  FillOptimizerDefaults(downpour->mutable_optimizer());
  if (downpour->local().has_inner()) {
    FillOptimizerDefaults(downpour->mutable_local()->mutable_inner());
  }
}

void FillSandblasterDefaults(uint32_t batch_size, Sandblaster* sandblaster) {
  FillUnset(sandblaster);
  if (sandblaster->chunk_examples() == 0) {
    sandblaster->set_chunk_examples(batch_size);
  }
  FillUnset(sandblaster->mutable_line_search());
}

uint64_t StripeBytes(const Job& job) {
  const uint32_t unset =
      job.downpour().local().has_fragments() ? kDefaultStripeKibOfFragments : kDefaultStripeKib;
  return 1024 * uint64_t{job.stripe_kib() == 0 ? unset : job.stripe_kib()};
}

// What BytesOfShards adds up, in words.
std::string MemoryParts(const Job& job) {
  std::string parts = "parameters";
  if (OptimizerStateSlots(job.downpour().optimizer()) > 0) {
    absl::StrAppend(&parts, ", optimizer state");
  }
  if (job.downpour().has_rounds()) {
    absl::StrAppend(&parts, ", sums of rounds");
  }
  if (job.downpour().fetch_changes() != FLOAT32) {
    absl::StrAppend(&parts, ", a public copy and its changes");
  }
  if (TrainsInGroups(job)) {
    absl::StrAppend(&parts, ", and room for both once more");
  }
  if (job.model().table_size() > 0) {
    absl::StrAppend(&parts, ", rows of tables and their sums");
  }
  if (job.has_sandblaster()) {
    absl::StrAppend(&parts, ", ", SandblasterVectors(job.sandblaster()), " vectors, exact sums");
  }
  return parts;
}

}  // namespace

bool TrainsInGroups(const Job& job) {
  return job.has_synchronous() && job.synchronous().reduce() != Synchronous::SHARDS;
}

void FillJobDefaults(Job* job) {
  if (job->has_train()) {
    FillDatasetDefaults(job->mutable_train());
  }
  if (job->has_test()) {
    FillDatasetDefaults(job->mutable_test());
    FillUnset(job->mutable_evaluation());
  }
  if (job->has_downpour()) {
    if (job->synchronous().reduce() == Synchronous::SHARDS) {
      TrainInRoundsOfSteps(job->synchronous(), job->downpour().workers(), job->mutable_downpour());
    }
    FillDownpourDefaults(job->mutable_downpour());
  }
  if (job->has_sandblaster()) {
    FillSandblasterDefaults(job->batch_size(), job->mutable_sandblaster());
  }
  job->set_stripe_kib(static_cast<uint32_t>(StripeBytes(*job) >> 10));
  if (job->block_examples() == 0) {
    job->set_block_examples(DefaultBlockBatches(*job) * job->batch_size());
  }
  FillUnset(job->mutable_divergence());
  if (!job->checkpoint().off()) {
    FillUnset(job->mutable_checkpoint());
  }
}

absl::Status ValidateJobOnData(const Job& job, uint64_t examples) {
  return CheckWithoutFile([&](Reporter* reporter) { CheckExamples(job, examples, reporter); });
}

absl::StatusOr<Job> LoadJob(const std::string& path, const LoadOptions& options,
                            std::vector<Diagnostic>* diagnostics,
                            std::vector<Diagnostic>* warnings) {
  JobLoader loader(path, options);
  Job job = loader.Load();
  if (warnings != nullptr && loader.diagnostics().empty()) {
    loader.Advise(job, warnings);
  }
  if (diagnostics != nullptr) {
    diagnostics->insert(diagnostics->end(), loader.diagnostics().begin(),
                        loader.diagnostics().end());
  }
  RETURN_IF_ERROR(DiagnosticsToStatus(loader.diagnostics()));
  FillJobDefaults(&job);
  return job;
}

absl::Status ValidateJob(const Job& job) {
  return CheckWithoutFile([&](Reporter* reporter) {
    if (!job.model_file().empty()) {
      reporter->Error("model_file", "a submitted job carries its model itself");
    }
    CheckJob(job, DataCheck::kNothing, DataAccess::Own(), reporter);
  });
}

int FloatsBesideOptimizer(const Downpour& downpour) {
  return (downpour.has_rounds() ? kFloatsOfASum : 0) +
         (downpour.fetch_changes() != FLOAT32 ? kFloatsOfChanges : 0);
}

uint32_t SandblasterVectors(const Sandblaster& sandblaster) {
  const auto pairs = sandblaster.algorithm() == Sandblaster::LBFGS
                         ? static_cast<uint32_t>(NumberOrUnset(sandblaster, "history"))
                         : 0;
  return std::max(2 * pairs + kIterationVectors, kTrialVectors) +
         (sandblaster.l2_weights_only() ? kWeightVectors : 0);
}

uint64_t ShardBytes(const Job& job, uint64_t floats) {
  const uint64_t stored =
      1 + static_cast<uint64_t>(OptimizerStateSlots(job.downpour().optimizer()));
  uint64_t copies = stored + static_cast<uint64_t>(FloatsBesideOptimizer(job.downpour()));
  copies += TrainsInGroups(job) ? stored : 0;
  copies += job.checkpoint().keep_best() != NO_TEST_METRIC ? 1 : 0;  // what is tested
  uint64_t sums = 0;
  if (job.has_sandblaster()) {
    copies += SandblasterVectors(job.sandblaster());
    sums = floats * sizeof(int64_t) + floats / kAlignmentFloats * kSumBytesPerLine;
  }
  const uint64_t stripe_bytes = StripeBytes(job);
  const uint64_t stripes = (floats * sizeof(float) + stripe_bytes - 1) / stripe_bytes;
  return floats * sizeof(float) * copies + sums + stripes * kStripeOverheadBytes +
         kJobOverheadBytes;
}

absl::StatusOr<std::vector<uint64_t>> BytesOfShards(const Job& job, const ParameterLayout& layout,
                                                    const ShardMap& map) {
  std::vector<uint64_t> bytes;
  for (uint32_t shard = 0; shard < map.shards(); ++shard) {
    ASSIGN_OR_RETURN(const uint64_t tables, TableBytes(layout.tables(), shard, map.shards()));
    bytes.push_back(ShardBytes(job, map.shard(shard).size()) + tables);
  }
  return bytes;
}

uint32_t WantedWorkers(const Job& job) {
  return job.has_downpour() ? job.downpour().workers() : job.sandblaster().workers();
}

namespace {

// A step of the shards is the mean over workers, each of which counts once.
absl::Status CheckStepsOfShards(const Job& job, const Cluster& cluster) {
  if (job.synchronous().reduce() != Synchronous::SHARDS) {
    return absl::OkStatus();
  }
  const uint32_t wanted = WantedWorkers(job);
  for (int i = 0; i < cluster.worker_size(); ++i) {
    if (cluster.worker(i).replicas() > 1 && (wanted == 0 || static_cast<uint32_t>(i) < wanted)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "job \"", job.name(), "\": worker/", i, " has ", cluster.worker(i).replicas(),
          " replicas, whose sum would count as one gradient of the mean that synchronous { reduce: "
          "SHARDS } makes over workers; write another reduce"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateJobOnCluster(const Job& job, const Cluster& cluster) {
  RETURN_IF_ERROR(CheckStepsOfShards(job, cluster));
  ASSIGN_OR_RETURN(const ParameterLayout layout, ParameterLayout::Create(job.model()));
  const uint32_t wanted = WantedWorkers(job);
  const auto workers =
      static_cast<uint32_t>(cluster.open() ? kMaxTasksOfAKind : cluster.worker_size());
  if (!IsJoined(job) && (workers == 0 || wanted > workers)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "job \"", job.name(), "\" wants ", wanted == 0 ? "at least 1" : absl::StrCat(wanted),
        " workers, the cluster has ", workers, cluster.open() ? " at most" : ""));
  }
  absl::StatusOr<ShardMap> map =
      ShardMap::Create(layout.size(), static_cast<uint32_t>(cluster.ps_size()), StripeBytes(job));
  if (!map.ok()) {
    return Annotate(map.status(), absl::StrCat("job \"", job.name(), "\""));
  }
  if (job.downpour().local().has_fragments()) {
    const auto fragments = FragmentMap::Create(job.downpour().local().fragments(), layout, *map);
    if (!fragments.ok()) {
      return Annotate(fragments.status(),
                      absl::StrCat("job \"", job.name(), "\": downpour.local.fragments"));
    }
  }
  const absl::StatusOr<std::vector<uint64_t>> bytes = BytesOfShards(job, layout, *map);
  if (!bytes.ok()) {
    return Annotate(bytes.status(), absl::StrCat("job \"", job.name(), "\": model.table"));
  }
  for (int i = 0; i < cluster.ps_size(); ++i) {
    const uint64_t floats = map->shard(static_cast<uint32_t>(i)).size();
    const uint64_t needed = (*bytes)[static_cast<size_t>(i)];
    const uint32_t mib = cluster.ps(i).memory_limit_mib();
    const uint64_t limit = uint64_t{mib == 0 ? 4096 : mib} << 20;
    if (needed > limit) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "job \"", job.name(), "\" needs ", needed, " bytes on ps/", i, " for ", floats,
          " floats of the model (", MemoryParts(job), "), its limit is ", limit, "; add ps tasks",
          job.has_sandblaster() ? ", keep a shorter history" : "", " or raise memory_limit_mib"));
    }
  }
  return absl::OkStatus();
}

std::string AdviseOnCluster(const Job& job, const Cluster& cluster) {
  const absl::StatusOr<ParameterLayout> layout = ParameterLayout::Create(job.model());
  if (!layout.ok() || !job.has_downpour() || job.checkpoint().off()) {
    return "";
  }
  const Downpour& downpour = job.downpour();
  const uint64_t push = PushBytes(layout->size(), downpour.push_format(), downpour.top_k_share()) /
                        std::max(1u, downpour.local().fragments().count());
  for (int i = 0; i < cluster.worker_size(); ++i) {
    const uint64_t mib = cluster.worker(i).replay_window_mib();
    if (mib > 0 && (mib << 20) < 2 * push) {
      return absl::StrCat("worker/", i, " may keep ", mib,
                          " MiB of pushes that are not on the "
                          "shards' disks yet (replay_window_mib), less than two of this job's, of ",
                          (push >> 20) + 1, " MiB each: every step will wait for checkpoints");
    }
  }
  return "";
}

}  // namespace monsoon
