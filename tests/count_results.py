#!/usr/bin/python3
"""Counts GoogleTest cases of one `bazel test` run.

    tests/count_results.py BUILD_EVENTS.json BAZEL_EXIT_CODE

Reads Bazel's build event file, follows it to each target's test.xml and prints
`PASSED FAILED SKIPPED`; what failed is named on stderr. Never fewer failures
than there were: a target that did not build, a crash, a timeout, a target
without a single case and a failed build without any failed case count as one
failure each.
"""

import json
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree


def count_cases(path):
    """(passed, names of the failed, skipped) of one test.xml."""
    passed, failed, skipped = 0, [], 0
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        children = {child.tag for child in case}
        if children & {"failure", "error"}:
            failed.append(f"{case.get('classname', '')}.{case.get('name', '')}".lstrip("."))
        elif "skipped" in children or case.get("status") == "notrun":
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def xml_of(result):
    for output in result.get("testActionOutput", []):
        if output.get("name") == "test.xml" and output.get("uri", "").startswith("file://"):
            return urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path)
    return None


def count_target(label, result):
    """(passed, failed, skipped) of one run of one target; names failures."""
    status = result.get("status", "NO_STATUS")
    path = xml_of(result)
    try:
        passed, failed, skipped = count_cases(path) if path else (0, [], 0)
    except (OSError, ElementTree.ParseError) as error:
        print(f"FAILED {label}: its test.xml cannot be read: {error}", file=sys.stderr)
        return 0, 1, 0
    for name in failed:
        print(f"FAILED {label}: {name}", file=sys.stderr)
    if status not in ("PASSED", "FLAKY") and not failed:
        print(f"FAILED {label}: {status}", file=sys.stderr)
        return passed, 1, skipped
    if passed + len(failed) + skipped == 0:
        print(f"FAILED {label}: it ran no case", file=sys.stderr)
        return 0, 1, 0
    return passed, len(failed), skipped


def count_events(lines):
    totals = [0, 0, 0]
    ran, broken = set(), set()
    for line in lines:
        if not line.strip():
            continue
        event = json.loads(line)
        identity = event.get("id", {})
        if "testResult" in identity and "testResult" in event:
            label = identity["testResult"]["label"]
            ran.add(label)
            for i, count in enumerate(count_target(label, event["testResult"])):
                totals[i] += count
        elif "targetCompleted" in identity and not event.get("completed", {}).get("success"):
            broken.add(identity["targetCompleted"]["label"])
    for label in sorted(broken - ran):
        print(f"FAILED {label}: does not build", file=sys.stderr)
        totals[1] += 1
    return totals


def main(arguments):
    events, exit_code = arguments[0], int(arguments[1])
    try:
        with open(events, encoding="utf-8") as file:
            totals = count_events(file)
    except (OSError, ValueError) as error:
        print(f"FAILED: Bazel's events cannot be read: {error}", file=sys.stderr)
        totals = [0, 1, 0]
    # 4: no test target matched, which is for the caller to judge.
    if exit_code not in (0, 4) and totals[1] == 0:
        print(f"FAILED: bazel ended with {exit_code}", file=sys.stderr)
        totals[1] = 1
    print(*totals)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
