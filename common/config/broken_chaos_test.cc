// Plans of chaos that are wrong, and every line that is said about each.
#include "common/config/chaos.h"
#include "common/config/config_test_util.h"
#include "gtest/gtest.h"

namespace monsoon::testing {
namespace {

const std::vector<BrokenFile>& Cases() {
  static const auto* const cases = new std::vector<BrokenFile>{
      {"UnknownField",
       "times: 3",
       "tims: 3",
       {"FILE:3:47: error: fault[0].tims: Fault has no field \"tims\"; did you mean \"times\"?"}},
      {"UnknownTopLevelField",
       "seconds: 30",
       "duration: 30",
       {"FILE:2:1: error: duration: ChaosPlan has no field \"duration\"; write seconds"}},
      {"AnotherNameOfAField",
       "times: 3",
       "target: \"ps/1\"",
       {"FILE:3:47: error: fault[0].target: Fault has no field \"target\"; write task: \"ps/0\", "
        "\"worker/*\" or \"*\""}},
      {"UnknownKind",
       "kind: KILL",
       "kind: KIL",
       {"FILE:3:42: error: fault[0].kind: expected one of KILL, TERMINATE, STOP, SLOW, found KIL; "
        "did you mean \"KILL\"?"}},
      {"KindByAnotherName",
       "kind: KILL",
       "kind: SIGSTOP",
       {"FILE:3:42: error: fault[0].kind: expected one of KILL, TERMINATE, STOP, SLOW, found "
        "SIGSTOP; write STOP"}},
      {"NoKind",
       "kind: KILL ",
       "",
       {"FILE:3:1: error: fault[0].kind: no kind is set; write KILL, TERMINATE, STOP or SLOW"}},
      {"NoTask",
       "task: [\"ps/0\", \"worker/*\"] ",
       "",
       {"FILE:3:1: error: fault[0].task: no task is named; as in task: \"ps/0\", \"worker/*\" or "
        "\"*\""}},
      {"UnknownEntry",
       "fault",
       "zebra",
       {"FILE:3:1: error: zebra: ChaosPlan has no field \"zebra\"; its fields are seed, seconds, "
        "fault, back_within_s, checkpoint_within_s"}},
      {"TaskOfAnotherRole",
       "\"ps/0\"",
       "\"pss/0\"",
       {"FILE:3:16: error: fault[0].task[0]: \"pss/0\" is no task: there are coordinator/0, ps/N "
        "and worker/N; did you mean \"ps\"?"}},
      {"TaskWithoutANumber",
       "\"worker/*\"",
       "\"worker\"",
       {"FILE:3:24: error: fault[0].task[1]: \"worker\" does not say which; write worker/0, or "
        "worker/* for any"}},
      {"TaskWithAWord",
       "\"ps/0\"",
       "\"ps/first\"",
       {"FILE:3:16: error: fault[0].task[0]: \"ps/first\" is no task: after the / stands a number "
        "below 4096, or * for any"}},
      {"TaskBeyondAnyCluster",
       "\"ps/0\"",
       "\"ps/4096\"",
       {"FILE:3:16: error: fault[0].task[0]: \"ps/4096\" is no task: after the / stands a number "
        "below 4096, or * for any"}},
      {"SecondCoordinator",
       "\"ps/0\"",
       "\"coordinator/1\"",
       {"FILE:3:16: error: fault[0].task[0]: \"coordinator/1\" is no task: a cluster has one "
        "coordinator; write coordinator/0"}},
      {"StopWithoutLength",
       "lasts_s { min: 0.5 max: 2 }",
       "",
       {"FILE:4:1: error: fault[1].lasts_s: a STOP must end; as in lasts_s { min: 1 max: 2 }"}},
      {"StopOfNoTime",
       "lasts_s { min: 0.5 max: 2 }",
       "lasts_s { }",
       {"FILE:4:37: error: fault[1].lasts_s: a STOP of 0 s is none; as in lasts_s { min: 1 max: 2 "
        "}"}},
      {"KillWithALength",
       "times: 3",
       "lasts_s { min: 1 }",
       {"FILE:3:47: error: fault[0].lasts_s: a KILL has no length; leave it out, or write kind: "
        "STOP"}},
      {"StopWithAShare",
       "from_s: 1",
       "share: 0.5 period_s: 1",
       {"FILE:4:72: error: fault[1].share: a STOP has no share; leave it out, or write kind: SLOW",
        "FILE:4:86: error: fault[1].period_s: a STOP has no periods; leave it out, or write kind: "
        "SLOW"}},
      {"ShareOfAll",
       "share: 0.8",
       "share: 1",
       {"FILE:5:76: error: fault[2].share: 1 is outside [0, 1)"}},
      {"PeriodInMilliseconds",
       "share: 0.8",
       "period_s: 100",
       {"FILE:5:79: error: fault[2].period_s: 100 is outside 0.01 .. 10 seconds"}},
      {"SpanTheWrongWayRound",
       "pause_s { min: 1 max: 4 }",
       "pause_s { min: 4 max: 1 }",
       {"FILE:3:78: error: fault[0].pause_s.max: 1 is less than min, 4; swap them"}},
      {"SpanInMilliseconds",
       "pause_s { min: 1 max: 4 }",
       "pause_s { min: 200000 }",
       {"FILE:3:71: error: fault[0].pause_s.min: 200000 is outside 0 .. 86400 seconds"}},
      {"NegativeLength",
       "lasts_s { min: 0.5 max: 2 }",
       "lasts_s { min: -1 max: 2 }",
       {"FILE:4:52: error: fault[1].lasts_s.min: -1 is outside 0 .. 86400 seconds"}},
      {"CountedAndEndless",
       "times: 3",
       "times: 3 until_the_end: true",
       {"FILE:3:54: error: fault[0].times: it goes on until_the_end, so nobody counts; keep one "
        "of them"}},
      {"TooOften",
       "times: 3",
       "times: 1000000",
       {"FILE:3:54: error: fault[0].times: 1000000 is more than 100000"}},
      {"WaitsForever",
       "seconds: 30",
       "back_within_s: 1e6",
       {"FILE:2:16: error: back_within_s: 1e+06 is outside 0 .. 86400 seconds"}},
      {"SeveralAtOnce",
       "kind: KILL times: 3 pause_s { min: 1 max: 4 }",
       "kind: SLOW pause_s { min: 2 max: 1 } await: true",
       {"FILE:3:69: error: fault[0].pause_s.max: 1 is less than min, 2; swap them",
        "FILE:3:73: error: fault[0].await: Fault has no field \"await\"; did you mean "
        "\"await_checkpoint\"?"}},
  };
  return *cases;
}

class BrokenChaos : public ::testing::TestWithParam<BrokenFile> {};

TEST_P(BrokenChaos, EveryErrorIsTold) {
  ExpectDiagnostics(GetParam(), ValidChaosPlan(),
                    [](const std::string& path, std::vector<Diagnostic>* diagnostics) {
                      return LoadChaosPlan(path, diagnostics).status();
                    });
}

INSTANTIATE_TEST_SUITE_P(Files, BrokenChaos, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace monsoon::testing
