#!/bin/bash
# Writes compile_commands.json, for editors and clang tools, from the commands
# of Bazel's optimised build. Generated headers must exist: it builds //proto.
#
#   deploy/compile_commands.sh [TARGET_PATTERN]     (default //...)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

pattern="${1:-//...}"
startup=()
if [[ -n "${MONSOON_BAZEL_OUTPUT_BASE:-}" ]]; then
  startup+=(--output_base="$MONSOON_BAZEL_OUTPUT_BASE")
fi
bazel "${startup[@]}" build --config=opt --symlink_prefix=/ //proto/... >&2
root="$(bazel "${startup[@]}" info --config=opt execution_root 2>/dev/null)"
# Clang's tools cannot read g++'s precompiled headers.
bazel "${startup[@]}" aquery --config=opt --define=pch=off --symlink_prefix=/ --output=jsonproto \
  "mnemonic('CppCompile', $pattern)" 2>/dev/null |
  /usr/bin/python3 -c '
import json, sys
root, target = sys.argv[1:]
# What clang does not know of g++, or takes ill.
gcc_only = ("-fno-canonical-system-headers", "-Wno-free-nonheap-object", "-D__DATE__",
            "-D__TIME__", "-D__TIMESTAMP__")
commands = {}  # by source: one that is compiled in several ways needs one of them here
for action in json.load(sys.stdin).get("actions", []):
    arguments = action["arguments"]
    source = arguments[arguments.index("-c") + 1]
    if not source.startswith(("bazel-out/", "external/")):
        arguments = [argument for argument in arguments if not argument.startswith(gcc_only)]
        commands[source] = {"directory": root, "file": source, "arguments": arguments}
with open(target, "w") as out:
    json.dump([commands[source] for source in sorted(commands)], out, indent=1)
print(f"compile_commands.json: {len(commands)} sources")
' "$root" compile_commands.json
