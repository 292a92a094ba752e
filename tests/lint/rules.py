"""What the lint checks enforce: every list in one place.

Patterns match paths from the repository root, as fnmatch does ('*' also
matches '/').
"""

# Who may include a header: (what, pattern of the include, who may).
HEADER_USERS = [
    (
        "gRPC stays in adapters",
        r"(grpcpp/|grpc/|.*\.grpc\.pb\.h$)",
        [
            "common/transport/grpc/*",
            "*_grpc.cc",
        ],
    ),
    ("oneDNN stays in the CPU backend", r"(oneapi/dnnl/|dnnl)", ["worker/backend/cpu/*"]),
    (
        "CUDA stays in its backend",
        r"(cuda|cublas|cudnn|curand|nccl)[a-z_0-9]*\.(h|hpp|cuh)$",
        ["worker/backend/cuda/*", "tests/gpu/emulator/*"],
    ),
    ("spdlog stays behind common/base/logging.h", r"spdlog/", ["common/base/logging.cc"]),
    ("SQLite stays in the coordinator's journal", r"sqlite3", ["coordinator/journal/sqlite_journal.cc"]),
    ("OpenSSL stays in common/security", r"openssl/", ["common/security/*"]),
    ("XXH3 stays behind common/base/xxh3.h", r"xxhash", ["common/base/xxh3.cc"]),
    (
        "the JSON parser stays in one source: it costs 20 s to compile",
        r"nlohmann/",
        ["common/safetensors/safetensors_header.cc"],
    ),
    ("lbfgs.h is a reference for tests", r"lbfgs\.h$", ["*_test.cc"]),
]

# proto <- common <- ps_server <- coordinator <- worker <- tests. Which
# folders a folder may include, besides itself and proto/.
MAY_INCLUDE = {
    "proto": [],
    "common": [],
    "ps_server": ["common/"],
    "coordinator": ["common/", "ps_server/client/"],
    "worker": ["common/", "ps_server/client/", "coordinator/client/"],
    "tests": ["common/", "ps_server/", "coordinator/", "worker/"],
}

# Folders that may include less than their top folder.
FOLDER_MAY_INCLUDE = {
    "common/base/": ["common/base/", "common/testing/"],
    "common/testing/": ["common/base/", "common/testing/"],
}

# The order of the rooms within a folder, lowest first: a room may include those on
# earlier lines, neither later ones nor another on its own. "." is the folder itself.
ROOMS = {
    "common": [
        "testing",
        "base",
        "settings",
        "codec json memory metrics model npz process simd",
        "data onnx optimizer security storage",
        "config",
        "safetensors",
        "checkpoint model_file transport",
        "collective",
    ],
    "common/transport": ["frame", "grpc shm", "."],
    "ps_server": ["vector", "shard", "checkpoint client", "server", "testing", "."],
    "coordinator": [
        "client lbfgs state",
        "journal shards",
        "session",
        "job",
        "checkpoints slices",
        "downpour sandblaster synchronous",
        "replicas",
        "members",
        "status",
        "core",
        "chaos compare server launcher",
        "cli",
        ".",
    ],
    "worker": [
        "client nn",
        "backend data",
        "testing",
        "session",
        "group",
        "downpour sandblaster",
        "baseline",
        "synchronous",
        "replica",
        "sidecar",
        ".",
    ],
    "worker/backend": ["reference", "cpu cuda", "."],
    "worker/backend/cuda": ["runtime", "host", "kernels", "layers", "."],
}

# Folders in which a job's data files are read, and the one place there that opens them: below
# the roots of the host's owner (DataRoots). A path that a job names goes through it.
DATA_FOLDERS = ("common/data/", "worker/data/")
DATA_OPENERS = ["common/data/access/data_roots.cc"]
FILE_OPENS = (r"\b(i?fstream|fopen|gzopen|opendir|glob|std::filesystem)\b"
              r"|(?<![\w.>:])(openat|lstat)\(|\bopen\([^()]*(c_str\(\)|O_RDONLY)"
              r"|NpzReader::Open\(")

# System libraries a folder's BUILD files may name.
LIBRARY_USERS = {
    "@onednn": ["worker/backend/cpu/*"],
    "@openssl": ["common/security/*"],
    "@spdlog": ["common/base/*"],
    "@sqlite3": ["coordinator/journal/*"],
    "@benchmark": ["*"],
}

# Each cc_test carries one of these, or tests/run.sh would never run it.
TEST_TAGS = {"unit", "cluster", "convergence", "full"}

MAX_LINES = 500

# Words that mark unfinished work, and paths of one machine. Spelled apart so
# that this file passes.
FORBIDDEN_WORDS = [
    r"\bTO" + r"DO\b",
    r"\bFIX" + r"ME\b",
    r"\bXX" + r"X\b",
    r"\bDISAB" + r"LED_",
    r"(?<![\w.}$])/(home|root|work)/\w",
]

# Waiting for time instead of an event, in a test.
SLEEPS = r"\b(sleep_for|sleep_until|SleepFor|usleep|nanosleep|sleep)\s*\("

# Tests whose subject is passing time itself: (path pattern, why).
SLEEP_ALLOWED = [
    ("tests/simulation/fiber_threads_test.cc", "its threads sleep in virtual time"),
]

# A class has at most so many methods, overloads each, and members. Structs are data: their
# members do not count.
MAX_METHODS = 40
MAX_MEMBERS = 20

# A function, from its name to its closing brace.
MAX_FUNCTION_LINES = 60

# In the three tables below a number is what there is today: it may only fall, and what no
# longer needs its line loses it.

# Classes that are wider: {class: what it has, and why it is no more than one class}.
WIDE_CLASSES = {
    "Stream": {"members": 24, "why": "gRPC's stream with what is read, written and awaited"},
    "Trainer": {"members": 22, "why": "training in one process has all parts at once"},
    "testing::FakeShards": {"members": 23, "why": "a test sets each answer by its name"},
    "cuda::Engine": {"methods": 41, "members": 39,
                     "why": "one device's buffers, streams and graphs are freed in one order"},
}

# Classes whose .cc files call each other in a circle: {class: files in it, and why}.
CALL_CIRCLES = {
    "ReplicaGroup": {"files": 2, "why": "a device that fails is the group's loss"},
}

_TABLE = "one table of cases"
_WALK = "one story in order; its steps share what they see"
_SWITCH = "one switch, a few lines a case"
_SEQUENCE = "one sequence with an error at each step"

# {file:function: its lines, and why it is one}. All tests of a file are TEST.
LONG_FUNCTIONS = {
    "common/checkpoint/load.cc:LoadGeneration": {"lines": 65, "why": _SEQUENCE},
    "common/checkpoint/part_test.cc:RoundTrip": {"lines": 63, "why": _WALK},
    "common/config/broken_chaos_test.cc:Cases": {"lines": 126, "why": _TABLE},
    "common/config/broken_cluster_test.cc:Cases": {"lines": 259, "why": _TABLE},
    "common/config/broken_job_test.cc:Cases": {"lines": 472, "why": _TABLE},
    "common/config/broken_model_test.cc:Cases": {"lines": 202, "why": _TABLE},
    "common/config/broken_sandblaster_test.cc:Cases": {"lines": 163, "why": _TABLE},
    "common/config/joined_check_test.cc:TEST": {"lines": 86, "why": _TABLE},
    "common/data/sources_test.cc:TEST_F": {"lines": 74, "why": _TABLE},
    "common/onnx/onnx_graph.cc:Converter::AddLayer": {"lines": 63, "why": _SWITCH},
    "common/safetensors/safetensors_test.cc:TEST": {"lines": 63, "why": _TABLE},
    "coordinator/downpour/block_dispenser_test.cc:TEST": {"lines": 71, "why": _WALK},
    "ps_server/checkpoint/restore_fuzz.cc:WritePart": {"lines": 62, "why": _SEQUENCE},
    "ps_server/checkpoint_process_test.cc:TEST": {"lines": 63, "why": _WALK},
    "ps_server/rows_process_test.cc:TEST_P": {"lines": 64, "why": _WALK},
    "ps_server/server/shard_control_fuzz.cc:World::Serve": {"lines": 71, "why": _SWITCH},
    "ps_server/shard/shard_concurrency_test.cc:TEST": {"lines": 74, "why": _WALK},
    "ps_server/shard/stripe.cc:Stripe::Apply": {"lines": 63, "why": _SEQUENCE},
    "python/monsoon/join.py:join": {"lines": 98, "why": "its documentation is half of it"},
    "tests/cluster/ledger_pusher.cc:Run": {"lines": 65, "why": _SEQUENCE},
    "tests/gpu/network_test.cc:TEST_F": {"lines": 68, "why": _WALK},
    "worker/downpour/on_device_test.cc:OnDeviceTest::Train": {"lines": 68, "why": _WALK},
}

# Files that comments name and that are not of this tree.
FOREIGN_FILES = ["linux/*.h", "omp.h"]
