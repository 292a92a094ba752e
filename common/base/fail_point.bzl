"""fail_point_defines: of libraries that have fail points (fail_point.h)."""

def fail_point_defines():
    """For `local_defines`: with --config=failpoints the points are compiled in.

    Only of the library's own sources: `defines` would compile anew all that include
    its headers.
    """
    return select({
        "//common/base:with_fail_points": ["MONSOON_FAIL_POINTS"],
        "//conditions:default": [],
    })
