"""Which instructions this machine has, and limits for ours and for the peers, so that one
machine shows what others would; and results, kept per CPU type and instruction set.
"""

import datetime
import json
import os
import re
import statistics

# Rising. avx512 stands for F, DQ, VL and BW, avx2 for that and FMA, baseline for SSE2.
LEVELS = ("baseline", "avx2", "avx512")
NEEDED = {"avx512": {"avx512f", "avx512dq", "avx512vl", "avx512bw"}, "avx2": {"avx2", "fma"},
          "baseline": set()}
# What each program reads when it starts, and which library that is for: docs/benchmarks.md.
SWITCHES = {
    "avx512": {"MONSOON_SIMD": "avx512"},
    "avx2": {"MONSOON_SIMD": "avx2", "ATEN_CPU_CAPABILITY": "avx2",
             "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2",
             "OPENBLAS_CORETYPE": "Haswell", "XLA_FLAGS": "--xla_cpu_max_isa=AVX2"},
    "baseline": {"MONSOON_SIMD": "baseline", "ATEN_CPU_CAPABILITY": "default",
                 "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
                 "OPENBLAS_CORETYPE": "Nehalem", "XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2"},
}
RESULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results")


def cpu_facts(text=None):
    """{field: value} of the first processor in /proc/cpuinfo."""
    if text is None:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            text = file.read()
    lines = (line.partition(":") for line in text.split("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}


def machine_level(facts=None):
    flags = set((facts or cpu_facts()).get("flags", "").split())
    level = "baseline"
    for higher in LEVELS[1:]:
        if not NEEDED[higher] <= flags:
            break
        level = higher
    return level


def level():
    """What the programs that are started now use."""
    return os.environ.get("MONSOON_SIMD") or machine_level()


def limit(to):
    """Limits all programs that are started from now on; ValueError above what there is."""
    highest = machine_level()
    if LEVELS.index(to) > LEVELS.index(highest):
        raise ValueError(f"this machine has {highest} and no {to}")
    for names in SWITCHES.values():
        for name in names:
            os.environ.pop(name, None)
    os.environ.update(SWITCHES[to])


def wanted(by_level):
    """What is wanted at the level in use of {level: Wanted}; None: only stated."""
    return by_level.get(level())


def file_name(facts, used):
    """CPU types whose names are alike differ in family and model."""
    words = f"{facts.get('model name', 'unknown')} {facts.get('cpu family', '')} " \
            f"{facts.get('model', '')}"
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-") + f"-{used}.json"


def record(row):
    """One row as it is kept: what the table says, and each round's ratio."""
    kept = {name: getattr(row, name) for name in
            ("workload", "size", "threads", "ours", "reference", "unit", "cpu", "why")}
    kept = {name: value for name, value in kept.items() if value}
    if row.ratios:
        # JSON has no infinity.
        kept["ratios"] = [value if abs(value) < 1e300 else "inf" for value in row.ratios]
        kept["median"] = str(statistics.median(row.ratios))[:6]
    if row.wanted is not None:
        kept.update(target=str(row.wanted), met=row.reached())
    return kept


def save(found, rounds, commit, folder=RESULTS, today=None):
    """Puts {benchmark: rows} into the file of this CPU type and level, over what those
    benchmarks had there; the others stay. The file's path."""
    facts, used = cpu_facts(), level()
    path = os.path.join(folder, file_name(facts, used))
    kept = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            kept = json.load(file)["benchmarks"]
    day = str(today or datetime.datetime.now(datetime.timezone.utc).date())
    for name, rows in found.items():
        kept[name] = {"date": day, "commit": commit, "rounds": rounds,
                      "cores": len(os.sched_getaffinity(0)),
                      "rows": [record(row) for row in rows]}
    os.makedirs(folder, exist_ok=True)
    content = {"cpu": facts.get("model name", "unknown"), "family": facts.get("cpu family"),
               "model": facts.get("model"), "instructions": used, "benchmarks": kept}
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1, allow_nan=False)
        file.write("\n")
    os.replace(path + ".new", path)
    return path
