#!/usr/bin/env python3
"""Prints the rows that scripts/bench measured as one table, and compares two runs.

    python3 scripts/bench_table.py print ROWS.jsonl OUT.json --machine TEXT --peak GFLOPS
    python3 scripts/bench_table.py compare OLD.json NEW.json

A row of ROWS.jsonl is an object: `what`, `unit` (s or GFLOP/s), `ours` (least time or greatest
rate), `theirs` (or null) and `peer` (its name), and optionally `memory` (bytes of ours and theirs),
`rate` (our GFLOP/s of the row) and `noise` (the distance of our two best rounds, as a part).
`compare` reports rows of the same `what` that became slower by more than the noise of both runs, at
least 5 %, and exits with 1 if there are such rows. Figures of different machines are not compared.
"""
import argparse
import json
import sys

LEAST_NOISE = 0.05


def faster(row):
    """How many times as fast as the peer ours is."""
    if row.get("theirs") is None:
        return None
    a, b = row["ours"], row["theirs"]
    return b / a if row["unit"] == "s" else a / b


def text(row, peak):
    def number(x):
        return "-" if x is None else f"{x:.3g} {row['unit']}"

    memory, rate, ratio = row.get("memory"), row.get("rate"), faster(row)
    held = "-" if not memory else " / ".join(f"{m / 2**30:.2f}" for m in memory) + " GiB"
    share = "-" if not rate or not peak else f"{100 * rate / peak:.0f} %"
    peer = f" ({row['peer']})" if row.get("theirs") is not None else ""
    return (f"| {row['what']} | {number(row['ours'])} | {number(row.get('theirs'))}{peer} | "
            f"{'-' if ratio is None else f'{ratio:.2f}'} | {held} | {share} |")


def print_table(a):
    with open(a.rows) as f:
        rows = [json.loads(line) for line in f]
    run = {"machine": a.machine, "peak": a.peak, "rows": rows}
    print(f"{a.machine}; products that stay in the cache: {a.peak:.4g} GFLOP/s")
    print("| measurement | vlt | other | times as fast | peak memory | share of that rate |\n"
          "|---|---|---|---|---|---|")
    for row in rows:
        print(text(row, a.peak))
    with open(a.out, "w") as f:
        json.dump(run, f, indent=1)


def compare(a):
    with open(a.old) as f, open(a.new) as g:
        old, new = json.load(f), json.load(g)
    if old["machine"] != new["machine"]:
        sys.exit(f"bench: {a.old} is of another machine or build: {old['machine']}, not "
                 f"{new['machine']}")
    before, slower = {row["what"]: row for row in old["rows"]}, 0
    for row in new["rows"]:
        was = before.get(row["what"])
        if not was:
            continue
        ratio = was["ours"] / row["ours"] if row["unit"] == "s" else row["ours"] / was["ours"]
        noise = max(LEAST_NOISE, row.get("noise", 0) + was.get("noise", 0))
        bad = ratio < 1 - noise
        slower += bad
        print(f"{'SLOWER' if bad else 'ok':6} {row['what']}: {ratio:.2f} times the speed of before "
              f"(noise {100 * noise:.0f} %)")
    sys.exit(1 if slower else 0)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    sub = p.add_subparsers(required=True)
    t = sub.add_parser("print")
    t.add_argument("rows")
    t.add_argument("out")
    t.add_argument("--machine", required=True)
    t.add_argument("--peak", type=float, default=0)
    t.set_defaults(call=print_table)
    c = sub.add_parser("compare")
    c.add_argument("old")
    c.add_argument("new")
    c.set_defaults(call=compare)
    a = p.parse_args()
    a.call(a)


if __name__ == "__main__":
    main()
