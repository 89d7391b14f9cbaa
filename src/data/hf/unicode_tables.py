#!/usr/bin/env python3
"""Writes unicode_tables.cpp: the properties of characters that Hugging Face's tokenizers go by.

    pip install unicodedata2==16.0.0 tokenizers==0.23.3 && ./unicode_tables.py > unicode_tables.cpp

General categories are Unicode 16's. The parts of that library follow different editions of Unicode; where one
differs from the categories, the library itself is asked about every character.
"""
import unicodedata2
from tokenizers import Regex, normalizers, pre_tokenizers

assert unicodedata2.unidata_version == "16.0.0"
CHARACTERS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
NAMES = "Cc Cf Cn Co Cs Ll Lm Lo Lt Lu Mc Me Mn Nd Nl No Pc Pd Pe Pf Pi Po Ps Sc Sk Sm So Zl Zp Zs".split()


def is_space_control(c):
    return 9 <= c <= 13 or c == 0x85


def category(c):
    # White_Space is Z* and these controls, which get a category of their own behind the others.
    return len(NAMES) if is_space_control(c) else NAMES.index(unicodedata2.category(chr(c)))


def removed(pre_tokenizer):
    """The characters that a pre-tokenizer with the behaviour `removed` takes away."""
    kept = set()
    for base in range(0, 0x110000, 4096):
        text = "".join(chr(c) for c in range(base, base + 4096) if not 0xD800 <= c < 0xE000)
        for piece, _ in pre_tokenizer.pre_tokenize_str(text):
            kept.update(map(ord, piece))
    return [c for c in CHARACTERS if c not in kept]


def numeric():
    digits = pre_tokenizers.Digits(True)
    return [c for c in CHARACTERS if len(digits.pre_tokenize_str("x" + chr(c))) == 2]


def without_accents():
    strip = normalizers.StripAccents()
    return [c for c in CHARACTERS if strip.normalize_str(chr(c)) == ""]


def ranges(characters):
    found = []
    for c in characters:
        if found and found[-1][1] + 1 == c:
            found[-1][1] = c
        else:
            found.append([c, c])
    return found


def lowercase():
    """(first, last, stride, distance) of upper-case characters; U+0130 alone becomes two and is left out."""
    lower = normalizers.Lowercase()
    found = []
    for c in CHARACTERS:
        text = lower.normalize_str(chr(c))
        if text == chr(c) or len(text) != 1:
            continue
        distance = ord(text) - c
        if found and found[-1][3] == distance:
            first, last, stride, _ = found[-1]
            if c - last in (1, 2) and (first == last or stride == c - last):
                found[-1][1], found[-1][2] = c, c - last
                continue
        found.append([c, c, 1, distance])
    return found


def table(kind, name, rows):
    print(f"const {kind} {name}[] = {{")
    line = "   "
    for row in rows:
        if len(line) + 1 + len(row) + 1 > 100:
            print(line)
            line = "   "
        line += f" {row},"
    print(line)
    print("};")


def range_table(name, characters):
    table("CodeRange", name, [f"{{0x{a:X}, 0x{b:X}}}" for a, b in ranges(characters)])
    print(f"const size_t {name}Count = std::size({name});\n")


print("// Written by unicode_tables.py; Unicode 16.0.0 and tokenizers 0.23.3. Do not edit.")
print("// clang-format off")
print('#include "data/hf/unicode_tables.h"\n')
print("#include <iterator>\n")
print("namespace athanor::data::hf {\n")
starts = [c for c in range(0x110000) if c == 0 or category(c) != category(c - 1)]
table("uint32_t", "kCategoryStarts", [f"0x{c << 5 | category(c):X}" for c in starts])
print("const size_t kCategoryStartsCount = std::size(kCategoryStarts);\n")
table("LowercaseRange", "kLowercase", [f"{{0x{a:X}, 0x{b:X}, {s}, {d}}}" for a, b, s, d in lowercase()])
print("const size_t kLowercaseCount = std::size(kLowercase);\n")
range_table("kPunctuation", removed(pre_tokenizers.Punctuation("removed")))
range_table("kNumeric", numeric())
range_table("kAccents", without_accents())
range_table("kHan", removed(pre_tokenizers.Split(Regex(r"\p{Han}+"), "removed")))
print("}  // namespace athanor::data::hf")
