#include "coordinator/cli/chaos_command.h"
#include "coordinator/cli/cli.h"
#include "coordinator/cli/compare_command.h"
#include "coordinator/cli/job_commands.h"
#include "coordinator/cli/member_commands.h"
#include "coordinator/cli/model_commands.h"
#include "coordinator/cli/up_command.h"
#include "coordinator/cli/validate_command.h"
#include "coordinator/cli/version_command.h"

namespace monsoon {
namespace {

constexpr Command kCommands[] = {
    {"up", "[flags]", "start the local tasks of the cluster file and watch them",
     "  coordinator up\n"
     "  coordinator up --cluster=configs/cluster/localhost_2ps.textproto --restart=workers\n"
     "  coordinator up --fault=delay_ms=20,seed=1\n",
     RunUpCommand},
    {"validate", "FILE... [flags]", "check cluster, job, model and chaos files; opens no port",
     "  coordinator validate configs/cluster/localhost.textproto\n"
     "  coordinator validate my_cluster.textproto my_job.textproto --json\n",
     RunValidate},
    {"submit", "[JOB.textproto] [flags]", "submit a job, new or to go on from a checkpoint",
     "  coordinator submit configs/job/lenet_downpour.textproto --watch\n"
     "  coordinator submit my.textproto --name=try --set=seed=7 --set=downpour.n_fetch=4\n"
     "  coordinator submit my.textproto --init=model.npz\n"
     "  coordinator submit --resume=lenet-1 --set=stop.epochs=20 --watch\n",
     RunSubmit},
    {"jobs", "[flags]", "list the jobs, oldest first",
     "  coordinator jobs\n"
     "  coordinator jobs --json\n",
     RunJobs},
    {"describe", "JOB [flags]", "tell all about one job",
     "  coordinator describe lenet-1\n"
     "  coordinator describe latest --json\n",
     RunDescribe},
    {"watch", "JOB [flags]", "show a job's progress until it ends",
     "  coordinator watch latest\n"
     "  coordinator watch lenet-1 > progress.log\n"
     "  coordinator watch softmax-1 --strict   # 1 also where a batch job missed its minimum\n",
     RunWatch},
    {"cancel", "JOB [flags]", "ask a job to end", "  coordinator cancel lenet-1 --wait\n",
     RunCancel},
    {"checkpoint", "JOB [flags]", "write a job to the disk now, and wait until it is there",
     "  coordinator checkpoint lenet-1\n"
     "  coordinator checkpoint latest --timeout=10 --json\n",
     RunCheckpoint},
    {"set", "JOB PATH=VALUE... [flags]", "change settings of a job while it trains",
     "  coordinator set lenet-1 downpour.optimizer.adagrad.rate=0.01\n"
     "  coordinator set latest downpour.staleness_bound=8 downpour.workers=6\n",
     RunSet},
    {"drain", "worker/N [flags]", "let a worker finish its push and leave",
     "  coordinator drain worker/1 --wait\n", RunDrain},
    {"give-up", "ps/N|coordinator/0 [flags]",
     "say that a task's state folder will not come back: what waits for it fails",
     "  coordinator give-up ps/0\n"
     "  coordinator give-up coordinator/0 --json\n",
     RunGiveUp},
    {"tasks", "[flags]", "list the cluster's tasks: states, machines, addresses",
     "  coordinator tasks\n"
     "  coordinator tasks --json\n",
     RunTasks},
    {"cluster", "init [flags]", "make this user the cluster's authority, once",
     "  coordinator cluster init\n"
     "  coordinator cluster init --cluster=my_cluster.textproto\n",
     RunCluster},
    {"token", "create|list|revoke [flags]", "let others join: make tokens, list them, end one",
     "  coordinator token create --role=worker --ttl=24h --uses=3\n"
     "  coordinator token list\n"
     "  coordinator token revoke 4f0c2a9be1d7\n",
     RunToken},
    {"join", "INVITATION [flags]",
     "join a cluster with a token, from the machine that is to be in it",
     "  coordinator join msn1.AUTHORITY.ID.SECRET@alpha:2221 --task=1\n"
     "  coordinator join msn1.AUTHORITY.ID.SECRET@alpha:2221 --name=ada\n",
     RunJoin},
    {"member", "list|revoke [flags]", "list who has joined; throw one out",
     "  coordinator member list\n"
     "  coordinator member revoke worker/7\n",
     RunMember},
    {"chaos", "--plan=FILE [flags]", "kill, stop and slow tasks of this machine under a job",
     "  coordinator chaos --plan=configs/chaos/demo.textproto\n"
     "  coordinator chaos --plan=my_plan.textproto --job=lenet-1 --json > report.json\n",
     RunChaos},
    {"compare", "JOB.textproto --modes=MODE,... [flags]",
     "run a job in several modes, one after another, and compare",
     "  coordinator compare my.textproto --modes=single,downpour,local:50 --to=0.88\n"
     "  coordinator compare my.textproto --modes=downpour,diloco:50 --seeds=5 --out=compared\n"
     "  coordinator compare my.textproto --modes=downpour,damped:0.5 --rates=0.01,0.03,0.1\n"
     "  coordinator compare my.textproto --modes=downpour,sandblaster --kill=worker/1@0.3\n",
     RunCompare},
    {"delete", "JOB [flags]", "free the memory that an ended job holds on the shards",
     "  coordinator delete lenet-1\n", RunDelete},
    {"export", "[JOB] --out=FILE [flags]",
     "write a job's model to a .npz, .safetensors or .onnx file",
     "  coordinator export lenet-1 --out=lenet.npz\n"
     "  coordinator export latest --out=lenet.safetensors\n"
     "  python3 -c 'import numpy; print(numpy.load(\"lenet.npz\").files)'\n",
     RunExport},
    {"inspect", "JOB|PATH [flags]", "tell what a checkpoint holds, and whether it is whole",
     "  coordinator inspect lenet-1\n"
     "  coordinator inspect latest --json\n",
     RunInspect},
    {"evaluate", "--model=FILE|JOB [--job=FILE] [flags]", "test a model on this machine",
     "  coordinator evaluate --model=lenet.npz --job=configs/job/lenet_downpour.textproto\n"
     "  coordinator evaluate --model=lenet-1\n",
     RunEvaluate},
    {"predict", "--model=FILE|JOB [--job=FILE] --out=FILE [flags]",
     "write what a model says of samples, on this machine",
     "  coordinator predict --model=lenet.npz --job=configs/job/lenet_downpour.textproto "
     "--out=lenet.csv\n"
     "  coordinator predict --model=lenet.npz --job=configs/job/lenet_downpour.textproto "
     "--data=images.npy --out=probabilities.npy\n",
     RunPredict},
    {"version", "[flags]", "tell what this binary is", "  coordinator version --json\n",
     RunVersion},
};

}  // namespace

std::span<const Command> ClientCommands() { return kCommands; }

}  // namespace monsoon
