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
            "*/service.cc",
            "*/*_service.cc",
            "*/*_service.h",
            "worker/server.cc",
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
        "codec json memory metrics model npz process simd",
        "data onnx optimizer storage",
        "config",
        "safetensors",
        "checkpoint model_file transport",
    ],
    "common/transport": ["frame", "grpc shm", "."],
    "ps_server": ["vector", "shard", "checkpoint client", "server", "testing", "."],
    "coordinator": [
        "client lbfgs state",
        "journal session job",
        "status",
        "downpour sandblaster",
        "core",
        "chaos server launcher",
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
        "baseline replica",
        "sidecar",
        ".",
    ],
    "worker/backend": ["reference", "cpu cuda", "."],
    "worker/backend/cuda": ["runtime", "host", "kernels", "layers", "."],
}

# System libraries a folder's BUILD files may name.
LIBRARY_USERS = {
    "@onednn": ["worker/backend/cpu/*"],
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
SLEEP_ALLOWED = []
