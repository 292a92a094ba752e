#include "worker/sidecar/program_runner.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/data/access/data_access.h"
#include "common/data/data_context.h"
#include "common/data/dataset_info.h"
#include "common/model/tensor_slices.h"
#include "worker/downpour/downpour_runner.h"
#include "worker/downpour/local_updater.h"
#include "worker/group/replica_group.h"
#include "worker/replica/replica_session.h"
#include "worker/replica/session_wires.h"
#include "worker/replica/training_work.h"
#include "worker/session/push_bound.h"
#include "worker/session/taken_stream.h"
#include "worker/sidecar/leased_batches.h"
#include "worker/sidecar/program_figures.h"
#include "worker/sidecar/program_network.h"

namespace monsoon {

SessionEnd ProgramRunner::Run(const Assignment& assignment, StatsCollector* stats,
                              SessionControl* control) {
  absl::StatusOr<JoinedJob> joined = MakeJoinedJob(assignment);
  if (!joined.ok()) {
    return {SessionEnd::Kind::kFailed, ReportFailureRequest::JOB,
            std::string(joined.status().message())};
  }
  if (sessions_ > 0) {
    program_->Discard();
  }
  ++sessions_;
  joined_ = *joined;
  const absl::StatusOr<SessionEnd> end = RunJoined(*joined, stats, control);
  return end.ok() ? *end
                  : SessionEnd{SessionEnd::Kind::kFailed, ReportFailureRequest::JOB,
                               std::string(end.status().message())};
}

namespace {

// Its data are in the program, not in files.
absl::StatusOr<uint64_t> ExamplesOf(const Job& job) {
  const DataAccess access = DataAccess::ForJobs(DataRoots::None());
  ASSIGN_OR_RETURN(const DatasetInfo data,
                   DescribeDataset(job.train(), TrainingContext(job, access)));
  return data.examples;
}

absl::StatusOr<std::unique_ptr<LocalUpdater>> LocalOf(const JoinedJob& joined) {
  const Job& job = joined.job;
  return LocalUpdater::Create(job.downpour(), joined.client_options.map,
                              LocalUpdater::TensorsOf(job.downpour(), job.model(), joined.layout),
                              joined.client_options.fragments);
}

}  // namespace

ParameterClientOptions ProgramRunner::ClientOptions(const JoinedJob& joined,
                                                    StatsCollector* stats) const {
  ParameterClientOptions options =
      SessionClientOptions(joined, options_.rpc_deadline, options_.replay_window_bytes, stats);
  options.tls = options_.tls;
  options.halves = options_.halves;
  if (options_.make_transport) {
    options.make_transport = [this, session = joined.session] {
      return options_.make_transport(session);
    };
  }
  return options;
}

absl::StatusOr<SessionEnd> ProgramRunner::RunJoined(const JoinedJob& joined, StatsCollector* stats,
                                                    SessionControl* control) {
  const Job& job = joined.job;
  const uint32_t worker = joined.session.worker();
  ASSIGN_OR_RETURN(const std::unique_ptr<ParameterClient> client,
                   ParameterClient::Create(ClientOptions(joined, stats)));
  const SessionWires wires(joined, client.get(), stats, control);
  ProgramFigures figures(worker, sessions_, joined.client_options.fragments.count(), stats, control,
                         options_.clock);
  ASSIGN_OR_RETURN(const uint64_t examples, ExamplesOf(job));
  LeasedBatches batches(job, examples);
  ProgramNetwork network(program_, &batches, control, options_.clock, joined.layout.tables(),
                         TensorSlices(joined.layout, {0, joined.layout.size()}));
  ReplicaGroup::Options group_options;
  group_options.worker = worker;
  group_options.stats = stats;
  ReplicaGroup group(group_options, &network);
  ASSIGN_OR_RETURN(std::unique_ptr<LocalUpdater> local, LocalOf(joined));
  DownpourRunnerOptions downpour_options =
      DownpourRunnerOptions::From(job, worker, joined.client_options.fragments);
  downpour_options.halves = options_.halves;
  const std::unique_ptr<PushBound> bound =
      PushBound::Of(job, joined.session, coordinator_, stats, control, options_.clock);
  DownpourRunner downpour(downpour_options, &joined.layout, client.get(), &group, std::move(local),
                          stats, control, options_.clock, DifferenceWeigher(job, /*replicas=*/1));
  downpour.BoundBy(bound.get());
  TrainingWork training(&downpour, &batches, job.downpour().overlap(), worker, options_.clock);
  ReplicaSession::Parts parts;
  parts.session = joined.session;
  parts.coordinator = coordinator_;
  parts.work = {&training};
  parts.stats = stats;
  parts.control = control;
  parts.evaluate = [&](const std::string& vector) -> absl::StatusOr<EvaluationResult> {
    RETURN_IF_ERROR(
        FetchForEvaluation(client.get(), control, vector, program_->memory().evaluated(), stats));
    figures.CountEvaluation();
    absl::StatusOr<EvaluationResult> result = network.AskToEvaluate();
    program_->memory().ReleaseEvaluated();
    return result;
  };
  parts.listen = [&network] { return network.Listen(); };
  ReplicaSession session(std::move(parts));
  network.Connect(&downpour, &session);
  network.SetStreamTaker([&](const std::string& stream) {
    return TakeStream(coordinator_, joined.session, stream, control);
  });
  LOG(INFO) << "session opened: job " << joined.session.job() << ", worker/" << worker
            << ", incarnation " << joined.session.incarnation() << ", "
            << joined.layout.parameters() << " parameters on " << client->transports().size()
            << " shards";
  program_->SetFigures([&figures] { return figures.Get(); });
  SessionEnd end = session.Run();
  program_->SetFigures([last = figures.Read()] { return last; });
  if (end.kind != SessionEnd::Kind::kFinished && end.kind != SessionEnd::Kind::kDrained) {
    client->Cancel();  // calls in flight end before what made them is taken down
  }
  return end;
}

}  // namespace monsoon
