"""What checks print for a person to read."""


def print_times(seconds_by_name):
    """Median and longest of each name's seconds."""
    for name, seconds in seconds_by_name.items():
        seconds = sorted(seconds)
        print(f"  {name}: {seconds[len(seconds) // 2]:.2f} s (median), {seconds[-1]:.2f} s "
              "(longest)", flush=True)


def print_events(described):
    """Those of a job."""
    for event in described["events"]:
        print(f"    {event['elapsed_s']:.3f} {event['kind']} {event['task']} {event['text']}")
