#!/usr/bin/env python3
"""Prints, compares and keeps the rows that scripts/bench measured.

    bench_table.py print ROUNDS.jsonl OUT.json --machine TEXT --threads N [--peak NAME=RATE ...]
    bench_table.py compare OLD.json NEW.json
    bench_table.py keep NEW.json KEPT.json
    bench_table.py docs [--check] FILE...

A file holds the rows of one machine with one set of kernels: {"machine": ..., "rows": [...]}. A row
has these members; those after `threads` may be missing:

    what, part     the claim, and the part of scripts/bench that measures it
    unit           of `ours` and `theirs`: a time or a rate (TIMES, RATES below)
    ours           our least time or greatest rate
    date, threads  of the measurement; `what` and `threads` together name a row
    theirs, peer   the other program's least time or greatest rate, and its name
    memory         peaks of resident memory in bytes, ours and, if known, theirs
    first          seconds from the start of the program to its first step, ours and theirs
    rate           our GFLOP/s, if `unit` is a time
    peak           the machine's best rate in the same run: of products that stay in the cache, or
                   of memcpy
    noise          the distance of our two best rounds, as a part of the best
    note           a condition of the measurement
    brief          true: the short tables of docs/measurements.md show the row

`print` reads the rounds of one run, prints its table and writes OUT: of a row with `times` (and
`their_times`, `kib`, `their_kib`, `amount`) the best round counts. A row's peak is that of its
`type` if --peak gives one of this name, such as bf16, and else that of its unit.
`compare` reports rows that became slower by more than the noise of both runs, and at least 5 %, and
rows that NEW lacks although it ran their part; it ends with status 1 if there are any. `keep`
replaces the rows of KEPT that NEW measured again. Both refuse files of different machines. `docs`
writes tables into a page, between <!-- bench KEPT.json PART... --> and <!-- bench end -->; the part
`brief` selects the rows that are marked so. With --check the pages must have these tables already.
"""
import argparse
import datetime
import json
import math
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LEAST_NOISE = 0.05
TIMES = ("s", "CPU s", "CPU ms")
RATES = ("GFLOP/s", "GB/s", "clips/CPU s")


def fail(text):
    sys.exit(f"bench: {text}")


# ---- files ----

def positive(x):
    return isinstance(x, (int, float)) and math.isfinite(x) and x > 0


def check_row(path, row):
    name = f"{path}: row `{row.get('what')}`"
    for key in ("what", "part", "unit", "ours", "date", "threads"):
        if key not in row:
            fail(f"{name} has no `{key}`; measure it with this version of scripts/bench")
    if row["unit"] not in TIMES + RATES:
        fail(f"{name}: the unit `{row['unit']}` is none of {', '.join(TIMES + RATES)}")
    for key in ("ours", "theirs", "rate", "peak"):
        if row.get(key) is not None and not positive(row[key]):
            fail(f"{name}: `{key}` is {row[key]}, not a number above 0")


def load(path):
    try:
        with open(path) as f:
            run = json.load(f)
    except OSError as e:
        fail(f"{path}: {e.strerror}")
    except ValueError as e:
        fail(f"{path}: no JSON: {e}")
    if not isinstance(run, dict) or not isinstance(run.get("rows"), list) or "machine" not in run:
        fail(f"{path}: no file of scripts/bench: it needs `machine` and `rows`")
    for row in run["rows"]:
        check_row(path, row)
    if len(by_key(run)) < len(run["rows"]):
        fail(f"{path}: two rows have the same `what` and `threads`")
    return run


def by_key(run):
    return {(row["what"], row["threads"]): row for row in run["rows"]}


def store(path, run):
    """Writes a row a line, so that a changed row is a changed line."""
    rows = ",\n  ".join(json.dumps(row) for row in run["rows"])
    with open(path, "w") as f:
        f.write(f'{{"machine": {json.dumps(run["machine"])},\n "rows": [\n  {rows}\n]}}\n')


def of_one_machine(old, old_path, new, new_path):
    if old["machine"] != new["machine"]:
        fail(f"{old_path} is of another machine: {old['machine']}; {new_path} is of "
             f"{new['machine']}; rows of different machines are not comparable")


# ---- tables ----

def speedup(a, b, unit):
    """How many times as fast a is as b."""
    return b / a if unit in TIMES else a / b


def three(x):
    """Three digits; more before the point."""
    return f"{x:#.3g}".rstrip(".") if x < 999.5 else f"{x:.0f}"


def number(x, unit):
    if x is None:
        return "-"
    if x >= 1000 and unit == "GFLOP/s":
        return f"{three(x / 1000)} TFLOP/s"
    if x < 0.1 and unit in ("s", "CPU s"):
        return f"{three(1000 * x)} {unit[:-1]}ms"
    return f"{three(x)} {unit}"


def pair(values, unit, scale=1):
    return " / ".join(f"{v / scale:.2f}" for v in values) + f" {unit}" if values else "-"


def rate_of(row):
    return row["ours"] if row["unit"] in RATES else row.get("rate")


def what(row):
    return row["what"] + (f" ({row['note']})" if row.get("note") else "")


def theirs(row):
    if row.get("theirs") is None:
        return "-"
    return f"{row['peer']}: {number(row['theirs'], row['unit'])}"


def ratio(row):
    if row.get("theirs") is None:
        return "-"
    times = speedup(row["ours"], row["theirs"], row["unit"])
    return f"{times:.2f}" if times < 10 else f"{times:.1f}"


def peak(row):
    return number(row.get("peak"), row["unit"] if row["unit"] in RATES else "GFLOP/s")


def share(row):
    return f"{100 * rate_of(row) / row['peak']:.0f} %" if row.get("peak") and rate_of(row) else "-"


COLUMNS = (
    ("measurement", what),
    ("vlt", lambda row: number(row["ours"], row["unit"])),
    ("other", theirs),
    ("times as fast", ratio),
    ("peak memory, vlt / other", lambda row: pair(row.get("memory"), "GiB", 2**30)),
    ("start to first step", lambda row: pair(row.get("first"), "s")),
    ("machine's peak", peak),
    ("our share", share),
    ("threads", lambda row: str(row["threads"])),
    ("date", lambda row: row["date"]),
)
BRIEF = COLUMNS[:5]


def table(rows, columns=COLUMNS):
    """Columns without any value are left out."""
    cells = [(head, [cell(row) for row in rows]) for head, cell in columns]
    cells = [c for c in cells if set(c[1]) != {"-"}]
    lines = ["| " + " | ".join(line) + " |" for line in zip(*([head, *c] for head, c in cells))]
    return "\n".join([lines[0], "|" + "---|" * len(cells), *lines[1:]])


def finish(row):
    """Replaces the rounds of a row by the best one, its rate and its noise. `amount` is the work of
    a round: a rate is amount / seconds."""
    mine, its = sorted(row.pop("times")), sorted(row.pop("their_times"))
    kib, amount = [min(k) for k in (row.pop("kib"), row.pop("their_kib")) if k], row.pop("amount")

    def best(seconds):
        return amount / seconds if row["unit"] in RATES else seconds

    row.update(ours=best(mine[0]), memory=[1024 * k for k in kib])
    if its:
        row["theirs"] = best(its[0])
    if amount and row["unit"] == "s":
        row["rate"] = amount / mine[0]
    if len(mine) > 1:
        row["noise"] = round(mine[1] / mine[0] - 1, 3)


def print_run(a):
    peaks = dict(p.split("=") for p in a.peak)
    with open(a.rounds) as f:
        rows = [json.loads(line) for line in f]
    for row in rows:
        if "times" in row:
            finish(row)
        row.update(date=a.date, threads=row.get("threads", a.threads))
        of = peaks.get(row["unit"] if row["unit"] in RATES else "GFLOP/s")
        of = peaks.get(row.pop("type", None), of)
        if of and rate_of(row):
            row["peak"] = float(of)
    run = {"machine": a.machine, "rows": rows}
    store(a.out, run)
    load(a.out)
    print(f"{a.machine}\n\n{table(rows)}")


# ---- two runs ----

def compare_row(old, new):
    """Prints a line; returns whether the row became slower."""
    if old["unit"] != new["unit"]:
        fail(f"row `{new['what']}`: {old['unit']} in the old file, {new['unit']} in the new one")
    change = speedup(new["ours"], old["ours"], new["unit"])
    noise = max(LEAST_NOISE, old.get("noise", 0) + new.get("noise", 0))
    slower = change < 1 - noise
    print(f"{'SLOWER' if slower else 'ok':8} {new['what']}, {new['threads']} threads: {change:.2f} "
          f"times the speed of before ({number(new['ours'], new['unit'])}, before "
          f"{number(old['ours'], old['unit'])}; noise {100 * noise:.0f} %)")
    return slower


def compare(a):
    runs = load(a.old), load(a.new)
    of_one_machine(runs[0], a.old, runs[1], a.new)
    old, new = map(by_key, runs)
    if not old.keys() & new.keys():
        fail(f"{a.old} and {a.new} have no row in common")
    bad = sum(compare_row(old[key], row) for key, row in new.items() if key in old)
    ran = {(row["part"], row["threads"]) for row in new.values()}
    for key, row in old.items():
        if key not in new and (row["part"], row["threads"]) in ran:
            bad += 1
            print(f"MISSING  {row['what']}, {row['threads']} threads: {a.new} ran the part "
                  f"`{row['part']}` without this row")
    for part, threads in sorted({(row["part"], row["threads"]) for row in old.values()} - ran):
        print(f"not run  {part}, {threads} threads")
    for key, row in new.items():
        if key not in old:
            print(f"new      {row['what']}, {row['threads']} threads")
    sys.exit(1 if bad else 0)


def keep(a):
    new = load(a.new)
    kept = load(a.kept) if os.path.exists(a.kept) else {"machine": new["machine"], "rows": []}
    of_one_machine(kept, a.kept, new, a.new)
    rows = by_key(kept)
    for key, row in by_key(new).items():
        brief = {"brief": True} if rows.get(key, {}).get("brief") else {}
        rows[key] = {**row, **brief}
    store(a.kept, {"machine": kept["machine"], "rows": list(rows.values())})
    print(f"{a.kept}: {len(new['rows'])} rows of {a.new}, {len(rows)} in all")


# ---- pages ----

def dates(rows):
    first, last = min(row["date"] for row in rows), max(row["date"] for row in rows)
    return first if first == last else f"{first} to {last}"


def page_table(page, path, parts):
    run = load(os.path.join(ROOT, path))
    rows = [row for row in run["rows"]
            if row["part"] in parts or (row.get("brief") and "brief" in parts)]
    if not rows:
        fail(f"{page}: {path} has no row of {', '.join(parts)}")
    head = f"{run['machine']}; measured {dates(rows)}:"
    return f"{head}\n\n{table(rows, BRIEF if 'brief' in parts else COLUMNS)}"


def docs(a):
    for page in a.page:
        with open(page) as f:
            text = f.read()
        begins = re.findall(r"^<!-- bench (\S+\.json .+) -->$", text, re.M)
        made, n = re.subn(
            r"^<!-- bench (\S+\.json) (.+) -->\n(?:(?!<!-- bench).*\n)*?<!-- bench end -->$",
            lambda m: f"<!-- bench {m[1]} {m[2]} -->\n"
                      f"{page_table(page, m[1], m[2].split())}\n<!-- bench end -->",
            text, flags=re.M)
        if n == 0 or n != len(begins):
            fail(f"{page}: {len(begins)} tables begin with <!-- bench KEPT.json PART... -->, and "
                 f"{n} of them end with <!-- bench end -->")
        if a.check and made != text:
            fail(f"{page}: a table is not that of its JSON file; run scripts/bench docs")
        if made != text:
            with open(page, "w") as f:
                f.write(made)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    sub = p.add_subparsers(required=True)

    def verb(name, call, *names):
        q = sub.add_parser(name)
        for n in names:
            q.add_argument(n)
        q.set_defaults(call=call)
        return q

    q = verb("print", print_run, "rounds", "out")
    q.add_argument("--machine", required=True)
    q.add_argument("--threads", type=int, required=True)
    q.add_argument("--peak", action="append", default=[])
    q.add_argument("--date", default=datetime.date.today().isoformat())
    verb("compare", compare, "old", "new")
    verb("keep", keep, "new", "kept")
    q = verb("docs", docs)
    q.add_argument("--check", action="store_true")
    q.add_argument("page", nargs="+")
    a = p.parse_args()
    a.call(a)


if __name__ == "__main__":
    main()
