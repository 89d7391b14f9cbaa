#!/usr/bin/env python3
"""Compares random tokenizers and random texts with Hugging Face's library: ids and decoded texts.

    tests/interop/tokenizer_differential.py build/release/athanor TOKENIZER.json... [--rounds N] [--texts N] [--seed N]

Each round takes one of the tokenizers, as it is or with normalizers, pre-tokenizers, decoders and added tokens of its own
drawn at random, and encodes and decodes random texts: scripts, white space, control characters, marks, added tokens and
pieces of them. Needs Python with tokenizers 0.23. Prints one line and exits 0 when everything agrees; else 1, with the
first differences and the folder where the tokenizer and the texts lie.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

os.environ["RUST_BACKTRACE"] = "0"
from tokenizers import Tokenizer  # noqa: E402

ALPHABETS = [
    "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "the and of to in ing er on s",
    " ", "  ", "\n", "\t\r\n\v\f\x1c\x1d\x1e\x1f\x85", "\u00a0\u1680\u2000\u2003\u200a\u2028\u2029\u202f\u205f\u3000",
    "\u200b\u200c\u200d\u2060\ufeff\u00ad", "0123456789", "٠١٢३४५৭Ⅷ½²①𝟘〇", "'s't're've'm'll'd'S'LL'ſ’s",
    ".,;:!?-–—…'\"()[]{}<>|\\/^~`@#$%&*_+=", "¡¿«»‹›„“”‘’§¶†‡•©®™°¬±×÷€£¥₿", "àéîõüßøåæœçñÀÉÑŒÆŸıİſǅﬁ",
    "e\u0301a\u0308o\u0323\u0302n\u0303\u0344\u0958\u0f73\u1e69", "\u0300\u0301\u0327\u0345\u05b0\u0651\u0f71\u0f72\u1abf\u20dd\u3099\U0001e8d0",
    "日本語の文章です中文字符가각힣ㄱㅏᄀ\u1161\u11a8", "Привет мир Ёё Ελληνικά Σσς", "עברית العربية فارسی हिन्दी বাংলা ไทย ဗမာ ខ្មែរ አማርኛ",
    "😀👩🏽\u200d💻🇩🇪👨\u200d👩\u200d👧\ufe0f1️⃣", "𝒳𝔘𐍈𒀀𠀀\U0010ffff\U000f0000", "\0\x01\x07\x08\x1b\x7f\x80\x9f", "\ue000\ufffd\ufffe\ufdd0\u0378",
    "▁", "▁▁ ▁", "ĠĊâĀŃ", "<0x41><0xFF><0x", "ＡＢＣａｂｃ１２３ﾊﾝｶｸ㍿㌔Å℃ﷺ", "\u1c89\u1c8a\ua7cb\ua7da\U00010d50\U00010d70\U0001cc00\U00016d40",
]


def text_of(draw, special, most):
    text = ""
    for _ in range(draw.randint(0, most)):
        kind = draw.random()
        if kind < 0.2 and special:
            token = draw.choice(special)
            if draw.random() < 0.2:
                token = token[: draw.randint(0, len(token))]
            text += draw.choice(["", " ", "  ", "\n", "a"]) + token + draw.choice(["", " ", " \t ", "b", "é"])
        elif kind < 0.25:
            character = draw.randrange(0x110000 if draw.random() < 0.3 else 0x3000)
            text += chr(character) if not 0xD800 <= character < 0xE000 else "?"
        elif kind < 0.3:
            text += draw.choice(draw.choice(ALPHABETS)) * draw.randint(1, 70)
        else:
            alphabet = draw.choice(ALPHABETS)
            text += "".join(draw.choice(alphabet) for _ in range(draw.randint(1, 8)))
    return text


REGEXES = [
    r"\s+", r"\d", r"\p{N}{1,3}", r"\p{L}+", r"[^\s\p{L}\p{N}]+", r"\w+|[^\w\s]+", r" ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[\r\n]", r"\b", r"(?<=\s)\S", r"a*", r"x?", r"\p{Han}", r"[一-龥]+", r"\n|$", r"^.", r".", r"(?m:.)", r"[a-z]{2,3}?", r"\h+", r"\p{M}", r"\p{Lu}\p{Ll}*",
    r"[\p{P}\p{S}]", r"\S{3}", r"(?=\p{Lu})", r"(?<!\p{L})\p{L}", r"[^a]", r"\x{3042}|\u65e5", r"[!\"#$%&'()*+,\-./:;<=>?@\[\]^_`{|}~]",
]
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


def pattern(draw):
    if draw.random() < 0.3:
        return {"String": draw.choice([" ", "a", "▁", "  ", "\n", "the", "é"])}
    return {"Regex": draw.choice(REGEXES)}


def normalizer(draw, depth=0):
    kinds = ["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Strip", "Prepend", "Replace"]
    kind = draw.choice(kinds + (["Sequence"] * 6 if depth == 0 else []))
    if kind == "Sequence":
        return {"type": kind, "normalizers": [normalizer(draw, 1) for _ in range(draw.randint(0, 4))]}
    if kind == "Strip":
        return {"type": kind, "strip_left": draw.random() < 0.5, "strip_right": draw.random() < 0.5}
    if kind == "Prepend":
        return {"type": kind, "prepend": draw.choice(["▁", " ", "ab"])}
    if kind == "Replace":
        return {"type": kind, "pattern": pattern(draw), "content": draw.choice(["▁", "", " ", "xy", "e\u0301"])}
    return {"type": kind}


def byte_level(draw):
    return {"type": "ByteLevel", "add_prefix_space": draw.random() < 0.5, "trim_offsets": True, "use_regex": draw.random() < 0.5}


def pre_tokenizer(draw, is_bytes):
    def one():
        kind = draw.choice(["Split"] * 4 + ["Metaspace", "Digits", "Punctuation", "WhitespaceSplit", "CharDelimiterSplit"])
        if kind == "Split":
            return {"type": kind, "pattern": pattern(draw), "behavior": draw.choice(BEHAVIORS), "invert": draw.random() < 0.3}
        if kind == "Metaspace":
            return {"type": kind, "replacement": draw.choice("▁▁_"), "prepend_scheme": draw.choice(["always", "first", "never"]), "split": draw.random() < 0.5}
        if kind == "Digits":
            return {"type": kind, "individual_digits": draw.random() < 0.5}
        if kind == "Punctuation":
            return {"type": kind, "behavior": draw.choice(BEHAVIORS)}
        if kind == "CharDelimiterSplit":
            return {"type": kind, "delimiter": draw.choice("a é▁")}
        return {"type": kind}
    steps = [one() for _ in range(draw.randint(0, 3))]
    if is_bytes:
        steps.insert(draw.choice([len(steps), len(steps), draw.randint(0, len(steps))]), byte_level(draw))
    if len(steps) == 1 and draw.random() < 0.7:
        return steps[0]
    return {"type": "Sequence", "pretokenizers": steps} if steps else None


def decoder(draw, is_bytes):
    def one():
        kind = draw.choice(["ByteLevel", "ByteFallback", "Fuse", "Replace", "Strip", "Metaspace"])
        if kind == "Replace":
            return {"type": kind, "pattern": pattern(draw), "content": draw.choice([" ", "", "xy"])}
        if kind == "Strip":
            return {"type": kind, "content": draw.choice(" a▁"), "start": draw.randint(0, 3), "stop": draw.randint(0, 3)}
        if kind == "Metaspace":
            return {"type": kind, "replacement": "▁", "prepend_scheme": draw.choice(["always", "first", "never"]), "split": True}
        return byte_level(draw) if kind == "ByteLevel" else {"type": kind}
    if is_bytes and draw.random() < 0.5:
        return byte_level(draw)
    steps = [one() for _ in range(draw.randint(0, 4))]
    if not steps and draw.random() < 0.5:
        return None
    return steps[0] if len(steps) == 1 and draw.random() < 0.5 else {"type": "Sequence", "decoders": steps}


def post_processor(draw, config):
    tokens = [t for t in config["added_tokens"]][:3]
    def template():
        items = [{"SpecialToken": {"id": t["content"], "type_id": 0}} for t in tokens for _ in range(draw.randint(0, 1))]
        items.insert(draw.randint(0, len(items)), {"Sequence": {"id": "A", "type_id": 0}})
        named = {t["content"]: {"id": t["content"], "ids": [t["id"]], "tokens": [t["content"]]} for t in tokens}
        return {"type": "TemplateProcessing", "single": items, "pair": items + [{"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": named}
    pair = [[tokens[0]["content"], tokens[0]["id"]], [tokens[-1]["content"], tokens[-1]["id"]]]
    kinds = [template, template, lambda: byte_level(draw), lambda: {"type": "BertProcessing", "sep": pair[0], "cls": pair[1]},
             lambda: {"type": "RobertaProcessing", "sep": pair[0], "cls": pair[1], "trim_offsets": True, "add_prefix_space": False}]
    if draw.random() < 0.4:
        return {"type": "Sequence", "processors": [draw.choice(kinds)() for _ in range(draw.randint(0, 3))]}
    return draw.choice(kinds)()


def vary(draw, config):
    """Another tokenizer of the same vocabulary."""
    if draw.random() < 0.5:
        config["post_processor"] = post_processor(draw, config)
    is_bytes = '"ByteLevel"' in json.dumps(config["pre_tokenizer"])
    if draw.random() < 0.6:
        config["normalizer"] = normalizer(draw) if draw.random() < 0.8 else None
    if draw.random() < 0.6:
        config["pre_tokenizer"] = pre_tokenizer(draw, is_bytes)
    if draw.random() < 0.6:
        config["decoder"] = decoder(draw, is_bytes)
    model = config["model"]
    for key, share in (("fuse_unk", 0.3), ("byte_fallback", 0.2), ("ignore_merges", 0.2)):
        if draw.random() < share:
            model[key] = not model.get(key, False)
    words = [t for t in model["vocab"] if t and len(t) < 6]
    following = max(max(model["vocab"].values()), max((t["id"] for t in config["added_tokens"]), default=0)) + 1
    contents = {t["content"] for t in config["added_tokens"]}
    for _ in range(draw.choice([0, 0, 2, 6])):
        content = draw.choice(["[A]", "<b>", " sp", "sp ", "tok", "TOK", "Tok", "é", "e\u0301", "▁x", "the", "\n\n", "日本", "a", "<b>c", "  ", "ＡB", "'", "1"])
        if draw.random() < 0.2:
            content = draw.choice(words)
        if content in contents:
            continue
        contents.add(content)
        known = model["vocab"].get(content)
        if known is None:
            known, following = following, following + 1
        config["added_tokens"].append({"id": known, "content": content, **{flag: draw.random() < 0.4 for flag in ("single_word", "lstrip", "rstrip", "normalized", "special")}})
    return config


def run(binary, arguments, lines):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for line in lines:
            file.write(json.dumps(line) + "\n")
        file.flush()
        done = subprocess.run([binary, "tokenizer", *arguments, "--jsonl", file.name], capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.split("\n") if line], done.stderr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("tokenizers", nargs="+")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--texts", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    configs = [json.load(open(path, encoding="utf-8")) for path in options.tokenizers]
    texts_seen = refused = panics = 0
    wrong = []
    for number in range(options.rounds):
        draw = random.Random(options.seed * 1000003 + number)
        config = json.loads(json.dumps(configs[number % len(configs)]))
        if number >= len(configs):
            config = vary(draw, config)
        folder = tempfile.mkdtemp(prefix="tokenizer-")
        path = os.path.join(folder, "tokenizer.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        try:
            theirs = Tokenizer.from_file(path)
        except BaseException as error:  # their panics are of no class of ours
            print(f"round {number}: they refuse: {str(error)[:150]}")
            continue
        spellings = [theirs.id_to_token(t["id"]) for t in config["added_tokens"] if t["normalized"]]
        if len(set(spellings)) < len(spellings):
            continue  # which of two tokens spelled alike they find is a matter of chance
        special = [t["content"] for t in config["added_tokens"]]
        texts = [text_of(draw, special, draw.choice([3, 8, 20])) for _ in range(options.texts)]
        mine, message = run(options.binary, ["encode", path], [{"text": t} for t in texts])
        if len(mine) != len(texts):
            print(f"round {number}: we refuse: {message.strip()[:200]}")
            refused += 1
            continue
        rows = []
        for text, row in zip(texts, mine):
            try:
                expected = theirs.encode(text, add_special_tokens=False).ids
            except BaseException:  # a fault of theirs
                panics += 1
                continue
            if expected != row["ids"]:
                wrong.append((number, folder, "encode", text, row["ids"], expected))
            rows.append(expected)
        mine, _ = run(options.binary, ["encode", path, "--add-special-tokens"], [{"text": t} for t in texts[:20]])
        for text, row in zip(texts, mine):
            try:
                expected = theirs.encode(text, add_special_tokens=True).ids
            except BaseException:
                panics += 1
                continue
            if config["post_processor"] and expected != row["ids"]:
                wrong.append((number, folder, "encode with special tokens", text, row["ids"], expected))
        size = theirs.get_vocab_size()
        rows += [[draw.randrange(size) for _ in range(draw.randint(1, 12))] for _ in range(options.texts // 4)]
        for skip in (False, True):
            mine, message = run(options.binary, ["decode", path] + ["--skip-special-tokens"] * skip, [{"ids": r} for r in rows])
            if len(mine) != len(rows):
                wrong.append((number, folder, "decode refused", message, None, None))
                continue
            for ids, line in zip(rows, mine):
                try:
                    expected = theirs.decode(ids, skip_special_tokens=skip)
                except BaseException:
                    panics += 1
                    continue
                if expected != line["text"]:
                    wrong.append((number, folder, f"decode skip={skip}", ids, line["text"], expected))
        texts_seen += len(texts)
    rounds = sorted({case[0] for case in wrong})
    if wrong:
        print(f"{len(wrong)} differences in {len(rounds)} rounds")
        for which in rounds[:12]:
            for case in [c for c in wrong if c[0] == which][:3]:
                print("  ", *map(repr, case))
        return 1
    print(f"{texts_seen} texts in {options.rounds} rounds: the same ({refused} tokenizers refused, {panics} panics of theirs)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
