#!/usr/bin/env python3
"""Writes precompute/text/mojibake.def: the characters that wrongly decoded text consists of.

    python3 scripts/mojibake.py > precompute/text/mojibake.def

The pages are those of Python's codecs, in the order in which ftfy tries them; the classes are the
categories of characters of ftfy.badness.
"""
import re

from ftfy import badness, chardata

CLASSES = dict(common="COMMON", c1="C1", bad="BAD", law="LAW", currency="CURRENCY",
               start_punctuation="START", end_punctuation="END", numeric="NUMERIC",
               kaomoji="FACE", upper_accented="UPPER", lower_accented="LOWER",
               upper_common="CAPITAL", lower_common="SMALL", box="BOX")


def fill(parts, sep=" "):
    """Prints the parts in lines of at most 100 columns."""
    line = ""
    for part in parts:
        if line and len(line) + len(sep) + len(part) > 100:
            print(line)
            line = ""
        line += sep + part if line else part
    print(line)


def page(name):
    """Prints the 128 characters of the upper half of a code page."""
    chars = bytes(range(128, 256)).decode(name)
    sloppy, clue = name.startswith("sloppy-"), name not in ("iso-8859-2", "macroman", "cp437")
    short = name.removeprefix("sloppy-").replace("windows-", "cp")
    print(f"PAGE(\"{short}\", {str(sloppy).lower()}, {str(clue).lower()}, "
          f"{str(name != 'macroman').lower()},")
    fill([f"0x{ord(c):04x}," for c in chars[:-1]] + [f"0x{ord(chars[-1]):04x})"])


def classes():
    """Prints the ranges of characters of the same classes."""
    sets = {k: re.compile(f"[{v}]") for k, v in badness.MOJIBAKE_CATEGORIES.items()}
    rows = []
    for c in range(0x80, 0x10000):
        of = " | ".join(CLASSES[k] for k, s in sets.items() if s.match(chr(c)))
        if of and rows and rows[-1][1:] == [c - 1, of]:
            rows[-1][1] = c
        elif of:
            rows.append([c, c, of])
    fill([f"RANGE(0x{a:04x}, 0x{b:04x}, {of})" for a, b, of in rows])


print("""\
/* mojibake.def - written by scripts/mojibake.py. PAGE: the name of an encoding; whether its unused
 * bytes are characters of their own numbers, and 0x1a is U+FFFD; whether its letters hint at UTF-8;
 * whether a blank may stand for its byte a0 (in macroman a dash and a blank would be taken for
 * UTF-8); the characters of its bytes from 128 on. RANGE: characters and their classes, ascending.
 */
#ifdef PAGE""")
for encoding in chardata.CHARMAP_ENCODINGS:
    page(encoding)
print("#endif\n#ifdef RANGE")
classes()
print("#endif")
