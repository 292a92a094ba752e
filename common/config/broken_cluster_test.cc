// Cluster files that are wrong, and every line that is said about each.
#include "common/config/cluster.h"
#include "common/config/config_test_util.h"
#include "gtest/gtest.h"

namespace monsoon::testing {
namespace {

std::string DeepText() {
  std::string text = "deep ";
  for (int i = 0; i < 40; ++i) {
    text += "{ a ";
  }
  return text + std::string(40, '}');
}

const std::vector<BrokenFile>& Cases() {
  static const auto* const cases = new std::vector<BrokenFile>{
      {"UnknownField",
       "address: \"127.0.0.1:2222\"",
       "adress: \"127.0.0.1:2222\"",
       {"FILE:3:6: error: ps[0].adress: ParameterServerTask has no field \"adress\"; did you mean "
        "\"address\"?"}},
      {"UnknownFieldWithoutNeighbour",
       "heartbeat_ms: 100",
       "colour: 3",
       {"FILE:6:1: error: colour: Cluster has no field \"colour\"; its fields are name, "
        "coordinator, ps, worker, heartbeat_ms, lost_after_ms, rpc_deadline_ms, ps_lost_after_ms, "
        "worker_wait_ms, state_dir, keep_ended_jobs, open, data_roots, connections"}},
      {"UnknownTopLevelPlural",
       "worker {",
       "workers {",
       {"FILE:4:1: error: workers: Cluster has no field \"workers\"; did you mean \"worker\"?"}},
      {"UnknownFieldOfTheMessageAround",
       "threads: 2",
       "heartbeat_ms: 7",
       {"FILE:4:36: error: worker[0].heartbeat_ms: WorkerTask has no field \"heartbeat_ms\"; move "
        "it out: it is a field of Cluster"}},
      {"UnknownEnumValue",
       "CPU",
       "CUDDA",
       {"FILE:4:55: error: worker[0].device: expected one of AUTO, CPU, CUDA, found CUDDA; did you "
        "mean \"CUDA\"?"}},
      {"EnumInQuotes",
       "CPU",
       "\"CPU\"",
       {"FILE:4:55: error: worker[0].device: expected one of AUTO, CPU, CUDA, found \"CPU\"; write "
        "CPU without quotes"}},
      {"EnumNumberUnknown",
       "CPU",
       "9",
       {"FILE:4:55: error: worker[0].device: expected one of AUTO, CPU, CUDA, found 9"}},
      {"StringForInteger",
       "heartbeat_ms: 100",
       "heartbeat_ms: \"100\"",
       {"FILE:6:15: error: heartbeat_ms: expected an integer, found \"100\"; write 100 without "
        "quotes"}},
      {"IdentifierForInteger",
       "heartbeat_ms: 100",
       "heartbeat_ms: fast",
       {"FILE:6:15: error: heartbeat_ms: expected an integer, found fast"}},
      {"FloatForInteger",
       "heartbeat_ms: 100",
       "heartbeat_ms: 1e2",
       {"FILE:6:15: error: heartbeat_ms: expected an integer, found 1e2; write 100"}},
      {"IntegerForString",
       "name: \"test\"",
       "name: 5",
       {"FILE:1:7: error: name: expected a string in quotes, found 5; write \"5\""}},
      {"MessageForScalar",
       "heartbeat_ms: 100",
       "heartbeat_ms { }",
       {"FILE:6:14: error: heartbeat_ms: expected an integer, found '{'"}},
      {"ScalarForMessage",
       "coordinator { address: \"127.0.0.1:2221\" }",
       "coordinator: \"127.0.0.1:2221\"",
       {"FILE:2:14: error: coordinator: expected a message, found \"127.0.0.1:2221\"; write "
        "coordinator { ... }"}},
      {"ListForSingular",
       "heartbeat_ms: 100",
       "heartbeat_ms: [100]",
       {"FILE:6:15: error: heartbeat_ms: it takes one value, not a list; leave out the brackets"}},
      {"IntegerOverUint32",
       "heartbeat_ms: 100",
       "heartbeat_ms: 4294967296",
       {"FILE:6:15: error: heartbeat_ms: 4294967296 is out of range 0 .. 4294967295"}},
      {"NegativeUnsigned",
       "threads: 2",
       "threads: -2",
       {"FILE:4:45: error: worker[0].threads: -2 is out of range 0 .. 4294967295"}},
      {"DeviceByAnotherName",
       "device: CPU",
       "device: GPU",
       {"FILE:4:55: error: worker[0].device: expected one of AUTO, CPU, CUDA, found GPU; write "
        "CUDA"}},
      {"ManyReplicas",
       "threads: 2",
       "replicas: 65",
       {"FILE:4:46: error: worker[0].replicas: 65 replicas are more than 64"}},
      {"DeviceIndexSlipped",
       "threads: 2",
       "device_index: 2000",
       {"FILE:4:50: error: worker[0].device_index: 2000 is no device; GPUs count from 0"}},
      {"DeviceMemoryInBytes",
       "threads: 2",
       "device_memory_limit_mib: 4000000000",
       {"FILE:4:61: error: worker[0].device_memory_limit_mib: 4000000000 MiB are more than "
        "1048576"}},
      {"OctalInteger",
       "heartbeat_ms: 100",
       "heartbeat_ms: 0100",
       {"FILE:6:15: error: heartbeat_ms: 0100 starts with 0 and would be octal; write 100"}},
      {"MissingValue",
       "heartbeat_ms: 100",
       "heartbeat_ms:",
       {"FILE:6:1: error: heartbeat_ms: it has no value"}},
      {"MissingColon",
       "heartbeat_ms: 100",
       "heartbeat_ms 100",
       {"FILE:6:14: error: heartbeat_ms: expected ':' after \"heartbeat_ms\"; write heartbeat_ms: "
        "100"}},
      {"DuplicateScalar",
       "lost_after_ms: 1000",
       "lost_after_ms: 1000\nheartbeat_ms: 200",
       {"FILE:8:1: error: heartbeat_ms: it is set twice, first on line 6; keep one of them"}},
      {"DuplicateMessage",
       "heartbeat_ms: 100",
       "heartbeat_ms: 100\ncoordinator { address: \"127.0.0.1:9\" }",
       {"FILE:7:1: error: coordinator: it is set twice, first on line 2; keep one of them"}},
      {"UnclosedMessage",
       "address: \"127.0.0.1:2222\" memory_limit_mib: 64 }",
       "address: \"127.0.0.1:2222\"",
       {"FILE:3:4: error: ps[0]: '{' is never closed; add '}'"}},
      {"WrongCloser",
       "memory_limit_mib: 64 }",
       "memory_limit_mib: 64 >",
       {"FILE:3:53: error: ps[0]: '{' is closed by '>'"}},
      {"StrayCloser", "heartbeat_ms: 100", "}", {"FILE:6:1: error: '}' closes nothing"}},
      {"UnclosedString",
       "name: \"test\"",
       "name: \"test",
       {"FILE:1:7: error: name: the string is not closed on its line"}},
      {"BadEscape",
       "name: \"test\"",
       "name: \"te\\qst\"",
       {"FILE:1:7: error: name: an unknown escape sequence in the string"}},
      {"BadUtf8",
       "name: \"test\"",
       "name: \"te\377st\"",
       {"FILE:1:10: error: byte 0xff is not valid UTF-8; save the file as UTF-8"}},
      {"BadUtf8ByEscape",
       "name: \"test\"",
       "name: \"te\\xffst\"",
       {"FILE:1:7: error: name: the string is not valid UTF-8"}},
      {"NulInString",
       "name: \"test\"",
       "name: \"te\\0st\"",
       {"FILE:1:7: error: name: the string holds a NUL byte"}},
      {"ControlCharacters",
       "heartbeat_ms: 100",
       "\001\002 heartbeat_ms: 100",
       {"FILE:6:1: error: control characters in the text"}},
      {"NonAsciiOutsideStrings",
       "heartbeat_ms",
       "h\303\251artbeat_ms",
       {"FILE:6:2: error: a character outside ASCII may stand in strings and comments only"}},
      {"NumberRunsIntoName",
       "heartbeat_ms: 100",
       "heartbeat_ms: 100ms",
       {"FILE:6:18: error: heartbeat_ms: a number must be followed by a space"}},
      {"CStyleComment",
       "heartbeat_ms: 100",
       "// heartbeat_ms: 100",
       {"FILE:6:1: error: expected the name of a field, found '/'"}},
      {"Extension",
       "heartbeat_ms: 100",
       "[monsoon.extra]: 100",
       {"FILE:6:1: error: extensions and Any are not supported here"}},
      {"DeepNesting",
       "heartbeat_ms: 100",
       DeepText(),
       {"FILE:6:1: error: deep: Cluster has no field \"deep\"; its fields are name, coordinator, "
        "ps, worker, heartbeat_ms, lost_after_ms, rpc_deadline_ms, ps_lost_after_ms, "
        "worker_wait_ms, state_dir, keep_ended_jobs, open, data_roots, connections",
        "FILE:6:130: error: messages are nested deeper than 32 levels"}},
      {"StateDirAsAnotherName",
       "heartbeat_ms: 100",
       "checkpoint_dir: \"state\"",
       {"FILE:6:1: error: checkpoint_dir: Cluster has no field \"checkpoint_dir\"; write "
        "state_dir"}},
      {"StateDirWithALineBreak",
       "lost_after_ms: 1000",
       "state_dir: \"a\\nb\"",
       {"FILE:7:12: error: state_dir: a path has no control characters"}},
      {"KeepsTooManyJobs",
       "lost_after_ms: 1000",
       "keep_ended_jobs: 10001",
       {"FILE:7:18: error: keep_ended_jobs: 10001 jobs are more than 10000"}},
      {"DuplicateAddress",
       "127.0.0.1:2224",
       "127.0.0.1:2223",
       {"FILE:5:19: error: worker[1].address: \"127.0.0.1:2223\" is the address of worker[0] too; "
        "give each task its own address"}},
      {"DuplicateAddressByOtherName",
       "127.0.0.1:2224",
       "localhost:2222",
       {"FILE:5:19: error: worker[1].address: \"localhost:2222\" is the address of ps[0] too "
        "(\"127.0.0.1:2222\"); give each task its own address"}},
      {"PortOutOfRange",
       "127.0.0.1:2222",
       "127.0.0.1:70000",
       {"FILE:3:15: error: ps[0].address: port 70000 is out of range 0 .. 65535"}},
      {"PortNotANumber",
       "127.0.0.1:2222",
       "127.0.0.1:http",
       {"FILE:3:15: error: ps[0].address: port \"http\" is not a number"}},
      {"NoPort",
       "127.0.0.1:2222",
       "127.0.0.1",
       {"FILE:3:15: error: ps[0].address: \"127.0.0.1\" has no port"}},
      {"NoHost",
       "127.0.0.1:2222",
       ":2222",
       {"FILE:3:15: error: ps[0].address: \":2222\" has no host"}},
      {"UnixPathTooLong",
       "127.0.0.1:2222",
       "unix:/" + std::string(110, 'x'),
       {"FILE:3:15: error: ps[0].address: the socket's path has 111 bytes, the system takes 107 at "
        "most"}},
      {"NoAddress",
       "worker { address: \"127.0.0.1:2224\" }",
       "worker { }",
       {"FILE:5:1: error: worker[1].address: no address is set; as in address: "
        "\"127.0.0.1:2222\""}},
      {"NoParameterServer",
       "ps { address: \"127.0.0.1:2222\" memory_limit_mib: 64 }",
       "",
       {"FILE:1:1: error: ps: a cluster needs at least one parameter server; add ps { address: "
        "\"127.0.0.1:2222\" }"}},
      {"NoCoordinator",
       "coordinator { address: \"127.0.0.1:2221\" }",
       "",
       {"FILE:1:1: error: coordinator.address: no address is set; as in address: "
        "\"127.0.0.1:2222\""}},
      {"LostAfterTooShort",
       "lost_after_ms: 1000",
       "lost_after_ms: 299",
       {"FILE:7:16: error: lost_after_ms: a task is lost after 299 ms, less than three heartbeats "
        "of 100 ms; write lost_after_ms: 300 or more"}},
      {"HeartbeatTooShort",
       "heartbeat_ms: 100",
       "heartbeat_ms: 1",
       {"FILE:6:15: error: heartbeat_ms: 1 ms is out of range 10 .. 3600000"}},
      {"SpaceInClusterName",
       "name: \"test\"",
       "name: \"my test\"",
       {"FILE:1:7: error: name: a cluster's name has up to 64 printable ASCII characters and no "
        "space"}},
      {"FiveErrors",
       "ps { address: \"127.0.0.1:2222\" memory_limit_mib: 64 }\nworker { address: "
       "\"127.0.0.1:2223\" threads: 2 device: CPU }\nworker { address: \"127.0.0.1:2224\" "
       "}\nheartbeat_ms: 100",
       "ps { address: \"127.0.0.1:2222\" memory_limit: 64 }\nworker { address: \"127.0.0.1:2221\" "
       "threads: \"2\" }\nworker { address: \"127.0.0.1:99999\" }\nheartbeat_ms: -5",
       {"FILE:3:32: error: ps[0].memory_limit: ParameterServerTask has no field \"memory_limit\"; "
        "did you mean \"memory_limit_mib\"?",
        "FILE:4:19: error: worker[0].address: \"127.0.0.1:2221\" is the address of coordinator "
        "too; give each task its own address",
        "FILE:4:45: error: worker[0].threads: expected an integer, found \"2\"; write 2 without "
        "quotes",
        "FILE:5:19: error: worker[1].address: port 99999 is out of range 0 .. 65535",
        "FILE:6:15: error: heartbeat_ms: -5 is out of range 0 .. 4294967295"}},
  };
  return *cases;
}

// What people take for protobuf text, or for an address, and is another thing.
const std::vector<BrokenFile>& Foreign() {
  static const auto* const cases = new std::vector<BrokenFile>{
      {"ByteOrderMark",
       "name: \"test\"",
       "\xef\xbb\xbfname: \"test\"",
       {"FILE:1:1: error: the file begins with a byte order mark (EF BB BF); save it as UTF-8 "
        "without one"}},
      {"Json",
       "name: \"test\"",
       "{\"name\": \"test\",",
       {"FILE:1:1: error: this is JSON, and the file is protobuf text: no braces around all of it, "
        "no quotes around names, no commas needed; write it as in  name: \"mine\"  block { "
        "field: 1 }"}},
      {"Utf16",
       "name: \"test\"",
       "\xff\xfename: \"test\"",
       {"FILE:1:1: error: the file is UTF-16; save it as UTF-8 without a byte order mark"}},
      {"Ipv6WithoutBrackets",
       "127.0.0.1:2222",
       "::1:2222",
       {"FILE:3:15: error: ps[0].address: \"::1:2222\" is an IPv6 address without brackets: write "
        "[::1]:2222"}},
      {"AbstractUnixSocket",
       "127.0.0.1:2222",
       "unix-abstract:ps0",
       {"FILE:3:15: error: ps[0].address: \"unix-abstract:ps0\" is an abstract Unix socket, to "
        "which "
        "every user of the machine can connect: use unix:PATH, as in unix:/run/user/1000/ps0"}},
  };
  return *cases;
}

class BrokenCluster : public ::testing::TestWithParam<BrokenFile> {};

TEST_P(BrokenCluster, EveryErrorIsTold) {
  ExpectDiagnostics(GetParam(), ValidCluster(),
                    [](const std::string& path, std::vector<Diagnostic>* diagnostics) {
                      return LoadCluster(path, diagnostics).status();
                    });
}

INSTANTIATE_TEST_SUITE_P(Files, BrokenCluster, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Foreign, BrokenCluster, ::testing::ValuesIn(Foreign()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace monsoon::testing
